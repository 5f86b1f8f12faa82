import { useState } from "preact/hooks";
import type { StartAnswer } from "../data/records";
import { JsonEditor, jsonProblem } from "../json/Editor";
import { assayCommand } from "../model/command";
import { namespace, runHref, setQuery } from "../router";
import { Action } from "./Action";
import { SelectField, TextField, jsonOrNull, objectText, textOrNull } from "./fields";

interface Props {
  readonly types: readonly string[];
  readonly queues: readonly string[];
  readonly namespaces: readonly string[];
  readonly onStarted: () => void;
}

const CONFLICTS = [
  ["", "Refuse the start"],
  ["use_existing", "Use the open run"],
  ["terminate_existing", "Terminate the open run"],
] as const;

const EMPTY = {
  type: "",
  id: "",
  queue: "",
  input: "",
  attributes: "",
  conflict: "",
  delay: "",
  timeout: "",
  memo: "",
};

export function StartDialog({ types, queues, namespaces, onStarted }: Props) {
  const [ns, setNs] = useState(namespace.value);
  const [given, setGiven] = useState(EMPTY);
  const set = (name: keyof typeof EMPTY) => (value: string) => setGiven((old) => ({ ...old, [name]: value }));
  const problem = jsonProblem(given.input) ?? jsonProblem(given.attributes, true) ?? jsonProblem(given.memo, true);
  return (
    <Action
      title="Start workflow"
      verb="Start workflow"
      refusal={given.type.trim() === "" ? "Choose a workflow type." : problem}
      wide
      request={{ method: "POST", parts: ["workflows"], body: bodyOf(given, ns) }}
      command={commandOf(given, ns)}
      done={(answer) => {
        const started = answer as StartAnswer;
        onStarted();
        setQuery({ ns, wf: started.workflow_id, run: started.run_id, tab: "" });
        return {
          text: started.started ? `Started ${started.workflow_id}.` : `${started.workflow_id} is open already.`,
          link: { href: runHref(started.workflow_id, started.run_id), label: "Open" },
        };
      }}
    >
      <div class="field-pair">
        <TextField label="Workflow type" value={given.type} onChange={set("type")} options={types} isRequired />
        <TextField label="Workflow id" value={given.id} onChange={set("id")} placeholder="generated" />
        <TextField label="Queue" value={given.queue} onChange={set("queue")} options={queues} placeholder="default" />
        <SelectField
          label="Namespace"
          value={ns}
          options={namespaces.map((name) => [name, name] as const)}
          onChange={setNs}
        />
      </div>
      <JsonEditor
        label="Input (JSON)"
        value={given.input}
        onChange={set("input")}
        rows={6}
        placeholder='{"order": 81}'
      />
      <JsonEditor
        label="Search attributes (JSON)"
        value={given.attributes}
        onChange={set("attributes")}
        rows={2}
        isObject
        placeholder='{"env": "prod"}'
      />
      <details>
        <summary>More</summary>
        <div class="field-pair">
          <SelectField
            label="If the id has an open run"
            value={given.conflict}
            options={CONFLICTS}
            onChange={set("conflict")}
          />
          <TextField label="Start delay" value={given.delay} onChange={set("delay")} placeholder="90 or 1h30m" />
          <TextField label="Run time-out" value={given.timeout} onChange={set("timeout")} placeholder="1h" />
        </div>
        <JsonEditor label="Memo (JSON)" value={given.memo} onChange={set("memo")} rows={2} isObject />
      </details>
    </Action>
  );
}

const durationOrNull = (text: string): string | null =>
  /^\d+(\.\d+)?$/.test(text.trim()) ? text.trim() : textOrNull(text);

const bodyOf = (given: typeof EMPTY, ns: string): string =>
  objectText({
    workflow_type: JSON.stringify(given.type.trim()),
    workflow_id: textOrNull(given.id),
    namespace: JSON.stringify(ns),
    task_queue: textOrNull(given.queue),
    input: jsonOrNull(given.input),
    search_attributes: jsonOrNull(given.attributes),
    id_conflict_policy: textOrNull(given.conflict),
    start_delay: durationOrNull(given.delay),
    run_timeout: durationOrNull(given.timeout),
    memo: jsonOrNull(given.memo),
  });

const commandOf = (given: typeof EMPTY, ns: string): string =>
  assayCommand(
    ["workflow", "start"],
    {
      type: given.type.trim() || "TYPE",
      id: given.id.trim(),
      queue: given.queue.trim(),
      input: given.input.trim(),
      "search-attrs": given.attributes.trim(),
      conflict: given.conflict,
      delay: given.delay.trim(),
      "run-timeout": given.timeout.trim(),
      memo: given.memo.trim(),
    },
    ns,
  );
