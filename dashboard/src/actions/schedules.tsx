import { useState } from "preact/hooks";
import type { ScheduleRecord } from "../data/records";
import { userName } from "../data/session";
import { assayCommand } from "../model/command";
import { OVERLAPS } from "../model/schedule";
import { relative } from "../model/times";
import { Action } from "./Action";
import { Confirm, SelectField, TextField, objectText, textOrNull } from "./fields";

interface Props {
  readonly schedule: ScheduleRecord;
  readonly onDone: () => void;
}

const parts = (schedule: ScheduleRecord, ...more: string[]): string[] => ["schedules", schedule.name, ...more];
const query = (schedule: ScheduleRecord) => ({ namespace: schedule.namespace });

export function PauseDialog({ schedule, onDone }: Props) {
  const [reason, setReason] = useState("");
  return (
    <Action
      title={`Pause ${schedule.name}?`}
      verb="Pause"
      keep="Keep it active"
      request={{
        method: "POST",
        parts: parts(schedule, "pause"),
        query: query(schedule),
        body: objectText({ reason: textOrNull(reason), by: textOrNull(userName() ?? "") }),
      }}
      command={assayCommand(["schedule", "pause", schedule.name], { reason: reason.trim() }, schedule.namespace)}
      done={() => {
        onDone();
        return { text: `Paused ${schedule.name}.` };
      }}
    >
      <p>Fires that come due while paused are not caught up.</p>
      <TextField label="Reason" value={reason} onChange={setReason} />
    </Action>
  );
}

/** Returns the sentence for a schedule that fires again. */
export function resumed(answer: unknown, name: string): string {
  const next = (answer as ScheduleRecord | null)?.next_run_at ?? null;
  return next === null ? `Resumed ${name}.` : `Resumed ${name}; its next run is ${relative(next, Date.now() / 1_000)}.`;
}

const POLICIES = [["", "As the schedule says"] as const, ...OVERLAPS];

export function TriggerDialog({ schedule, onDone }: Props) {
  const [overlap, setOverlap] = useState("");
  return (
    <Action
      title={`Start ${schedule.name} now?`}
      verb="Run now"
      keep="Close"
      request={{
        method: "POST",
        parts: parts(schedule, "trigger"),
        query: query(schedule),
        body: objectText({ overlap_policy: textOrNull(overlap) }),
      }}
      command={assayCommand(["schedule", "trigger", schedule.name], { overlap }, schedule.namespace)}
      done={() => {
        onDone();
        return { text: `Fired ${schedule.name}.` };
      }}
    >
      <p>Fires the schedule once, now; its times stay as they are.</p>
      <SelectField label="Overlap" value={overlap} options={POLICIES} onChange={setOverlap} />
    </Action>
  );
}

const seconds = (text: string): number => new Date(text).getTime() / 1_000;

export function BackfillDialog({ schedule, onDone }: Props) {
  const [from, setFrom] = useState("");
  const [to, setTo] = useState("");
  const [overlap, setOverlap] = useState("");
  const isReady = seconds(from) < seconds(to);
  return (
    <Action
      title={`Backfill ${schedule.name}?`}
      verb="Backfill"
      keep="Close"
      refusal={isReady ? null : "Give a time range, for example 2026-01-01T00:00Z to 2026-01-08T00:00Z."}
      request={{
        method: "POST",
        parts: parts(schedule, "backfill"),
        query: query(schedule),
        body: objectText({
          start: isReady ? String(seconds(from)) : null,
          end: isReady ? String(seconds(to)) : null,
          overlap_policy: textOrNull(overlap),
        }),
      }}
      command={assayCommand(
        ["schedule", "backfill", schedule.name],
        { from: from.trim(), to: to.trim(), overlap },
        schedule.namespace,
      )}
      done={() => {
        onDone();
        return { text: `Backfilled ${schedule.name}.` };
      }}
    >
      <p>Fires the schedule for every due time in a range of the past, up to the engine's limit.</p>
      <TextField label="From" value={from} onChange={setFrom} placeholder="2026-01-01T00:00Z" isRequired />
      <TextField label="To" value={to} onChange={setTo} placeholder="2026-01-08T00:00Z" isRequired />
      <SelectField label="Overlap" value={overlap} options={POLICIES} onChange={setOverlap} />
    </Action>
  );
}

export function DeleteScheduleDialog({ schedule, onDone }: Props) {
  const [typed, setTyped] = useState("");
  return (
    <Action
      title={`Delete ${schedule.name}?`}
      verb="Delete"
      keep="Keep it"
      isDangerous
      refusal={typed === schedule.name ? null : "Type the name to confirm."}
      request={{ method: "DELETE", parts: parts(schedule), query: query(schedule), body: null }}
      command={assayCommand(["schedule", "delete", schedule.name], {}, schedule.namespace)}
      done={() => {
        onDone();
        return { text: `Deleted ${schedule.name}.` };
      }}
    >
      <p>Its open runs go on. Its history of fires is lost.</p>
      <Confirm word={schedule.name} value={typed} onChange={setTyped} />
    </Action>
  );
}
