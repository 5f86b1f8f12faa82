import { useState } from "preact/hooks";
import { JsonEditor, jsonProblem } from "../json/Editor";
import { assayCommand } from "../model/command";
import { Action } from "./Action";
import { TextField, jsonOrNull, objectText } from "./fields";
import { type Target, runQuery } from "./target";

interface Props {
  readonly run: Target;
  readonly name?: string;
}

/** The names of signals that a run waits for. */
export const awaited = (run: Target): readonly string[] => {
  const waits = run.waiting_on?.waits ?? [];
  const names = waits.flatMap((wait) => (typeof wait["signal"] === "string" ? [wait["signal"]] : []));
  const first = run.waiting_on?.signal;
  return [...new Set([...(first ? [first] : []), ...names])];
};

export function SignalDialog({ run, name: given }: Props) {
  const names = awaited(run);
  const [name, setName] = useState(given ?? names[0] ?? "");
  const [payload, setPayload] = useState("");
  const problem = jsonProblem(payload);
  const id = run.workflow_id;
  return (
    <Action
      title={`Send signal to ${id}`}
      verb="Send signal"
      refusal={name.trim() === "" ? "Give the signal a name." : problem}
      request={{
        method: "POST",
        parts: ["workflows", id, "signal", name.trim() || "NAME"],
        query: runQuery(run),
        body: objectText({ payload: jsonOrNull(payload) }),
      }}
      command={assayCommand(
        ["workflow", "signal", id, name.trim() || "NAME", ...(payload.trim() ? [payload.trim()] : [])],
        { "run-id": run.run_id },
        run.namespace,
      )}
      done={() => ({ text: `Sent signal '${name.trim()}' to ${id}.` })}
    >
      <p class="muted">The signal is stored and reaches the run in order, even if its code does not wait for it yet.</p>
      <TextField label="Signal name" value={name} onChange={setName} options={names} isRequired />
      <JsonEditor label="Payload (JSON)" value={payload} onChange={setPayload} placeholder='{"by": "alice"}' />
    </Action>
  );
}
