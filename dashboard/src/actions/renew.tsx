import { useState } from "preact/hooks";
import type { RunRecord, StartAnswer } from "../data/records";
import { useResource } from "../data/resource";
import { readRun } from "../data/runs";
import { JsonEditor, jsonProblem } from "../json/Editor";
import { pretty } from "../json/parse";
import { assayCommand } from "../model/command";
import { isOpen } from "../model/run";
import { go, here, runHref } from "../router";
import { Action } from "./Action";
import { TextField, jsonOrNull, objectText } from "./fields";
import { type Target, runQuery } from "./target";

/** Continues an open run as new, or starts a closed one anew: the same request, with other consequences. */
export function RenewDialog({ run }: { readonly run: Target }) {
  const whole = useResource(JSON.stringify(["whole", run.run_id]), (signal) =>
    readRun(run.namespace, run.workflow_id, run.run_id, signal),
  );
  const record = whole.state.value.value;
  return record ? <Renew run={record} /> : null;
}

function Renew({ run }: { readonly run: RunRecord }) {
  const before = run.input.isNull ? "" : pretty(run.input.node);
  const [input, setInput] = useState(before);
  const [id, setId] = useState(run.workflow_id);
  const open = isOpen(run);
  const verb = open ? "Continue as new" : "Start new run";
  const own = id.trim() === "" || id.trim() === run.workflow_id;
  const changed = input !== before;
  return (
    <Action
      title={open ? `Continue ${run.workflow_id} as new?` : `Start ${run.workflow_id} anew?`}
      verb={verb}
      keep={open ? "Keep running" : "Close"}
      refusal={jsonProblem(input)}
      request={{
        method: "POST",
        parts: ["workflows", run.workflow_id, "continue-as-new"],
        query: runQuery(run),
        body: objectText({
          input: changed ? (jsonOrNull(input) ?? "null") : null,
          keep_input: changed ? "false" : null,
          workflow_id: own ? null : JSON.stringify(id.trim()),
        }),
      }}
      command={assayCommand(
        ["workflow", "continue-as-new", run.workflow_id],
        { input: changed ? input.trim() || "null" : "", "new-id": own ? "" : id.trim(), "run-id": run.run_id },
        run.namespace,
      )}
      done={(answer) => {
        const started = answer as StartAnswer;
        go({ view: "run", id: started.workflow_id, query: here({ run: started.run_id }) });
        return {
          text: `Started run of ${started.workflow_id}.`,
          link: { href: runHref(started.workflow_id, started.run_id), label: "Open" },
        };
      }}
    >
      <p>
        {open
          ? "Closes this run as continued and starts the next one of the same id with an empty history."
          : "Starts a new run of this id; the closed one stays as it is."}
      </p>
      <JsonEditor label="Input (JSON)" value={input} onChange={setInput} rows={6} />
      <TextField label="Workflow id" value={id} onChange={setId} />
    </Action>
  );
}
