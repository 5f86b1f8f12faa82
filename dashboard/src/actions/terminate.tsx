import { useState } from "preact/hooks";
import { assayCommand } from "../model/command";
import { Action } from "./Action";
import { TextField, objectText, textOrNull } from "./fields";
import { type Target, counted, runQuery, useTouched } from "./target";

export function TerminateDialog({ run }: { readonly run: Target }) {
  const [reason, setReason] = useState("");
  const touched = useTouched(run);
  const id = run.workflow_id;
  return (
    <Action
      title={`Terminate ${id}?`}
      verb="Terminate run"
      keep="Keep running"
      isDangerous
      request={{
        method: "POST",
        parts: ["workflows", id, "terminate"],
        query: runQuery(run),
        body: objectText({ reason: textOrNull(reason) }),
      }}
      command={assayCommand(
        ["workflow", "terminate", id],
        { reason: reason.trim(), "run-id": run.run_id },
        run.namespace,
      )}
      done={() => ({ text: `Terminated ${id}.` })}
    >
      <p>
        Ends the run at once; its code is not told and cleans up nothing.
        {touched &&
          touched.children > 0 &&
          ` Its ${counted(touched.children, "open child", "open children")} ${touched.children === 1 ? "follows" : "follow"} the close policy.`}{" "}
        This cannot be undone.
      </p>
      <TextField label="Reason" value={reason} onChange={setReason} />
    </Action>
  );
}
