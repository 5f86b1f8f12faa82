import { useState } from "preact/hooks";
import { assayCommand } from "../model/command";
import { Action } from "./Action";
import { SelectField, TextField, objectText, textOrNull } from "./fields";
import { type Target, counted, runQuery, useTouched } from "./target";

const DEADLINES = [
  ["", "Never"],
  ["60", "1 min"],
  ["600", "10 min"],
  ["3600", "1 h"],
] as const;

export function CancelDialog({ run }: { readonly run: Target }) {
  const [reason, setReason] = useState("");
  const [deadline, setDeadline] = useState("");
  const touched = useTouched(run);
  const id = run.workflow_id;
  const also = touched
    ? [
        touched.queued > 0 &&
          `${counted(touched.queued, "activity", "activities")} nobody has started ${touched.queued === 1 ? "is" : "are"} withdrawn`,
        touched.children > 0 &&
          `${counted(touched.children, "open child", "open children")} ${touched.children === 1 ? "is" : "are"} asked as well`,
      ].filter(Boolean)
    : [];
  return (
    <Action
      title={`Cancel ${id}?`}
      verb="Cancel run"
      keep="Keep running"
      isDangerous
      request={{
        method: "POST",
        parts: ["workflows", id, "cancel"],
        query: runQuery(run),
        body: objectText({ reason: textOrNull(reason), deadline: deadline || null }),
      }}
      command={assayCommand(
        ["workflow", "cancel", id],
        { reason: reason.trim(), deadline, "run-id": run.run_id },
        run.namespace,
      )}
      done={() => ({ text: `Asked ${id} to cancel.` })}
    >
      <p>Asks its code to stop; it may clean up first.{also.length > 0 && ` ${also.join("; ")}.`}</p>
      <TextField label="Reason" value={reason} onChange={setReason} />
      <SelectField
        label="Terminate if it has not ended after"
        value={deadline}
        options={DEADLINES}
        onChange={setDeadline}
      />
    </Action>
  );
}
