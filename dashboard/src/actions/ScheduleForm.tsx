import { useState } from "preact/hooks";
import type { ScheduleRecord } from "../data/records";
import { JsonEditor, jsonProblem } from "../json/Editor";
import { pretty } from "../json/parse";
import { assayCommand } from "../model/command";
import { DST, type Form, MISSED, OVERLAPS, changed } from "../model/schedule";
import { namespace } from "../router";
import { Action } from "./Action";
import { SelectField, TextField, objectText } from "./fields";

interface Props {
  /** The schedule to change; null for a new one. */
  readonly schedule: ScheduleRecord | null;
  readonly types: readonly string[];
  readonly queues: readonly string[];
  readonly onDone: () => void;
}

const EMPTY: Form = {
  name: "",
  workflow_type: "",
  cron_expr: "",
  timezone: "",
  task_queue: "",
  input: "",
  overlap_policy: "skip",
  missed: "last",
  dst: "skip",
  window_secs: "",
  jitter_secs: "",
  end_at: "",
  remaining: "",
  search_attributes: "",
};
const JSON_FIELDS: ReadonlySet<string> = new Set(["input", "search_attributes"]);
const NUMBERS: ReadonlySet<string> = new Set(["window_secs", "jitter_secs", "remaining"]);
const FLAGS: Readonly<Record<string, string>> = {
  cron_expr: "cron",
  timezone: "timezone",
  task_queue: "queue",
  input: "input",
  overlap_policy: "overlap",
};

const ZONES: readonly string[] = ["UTC", ...Intl.supportedValuesOf("timeZone")];

function formOf(schedule: ScheduleRecord | null): Form {
  if (schedule === null) return EMPTY;
  const doc = (value: ScheduleRecord["input"]): string => (value.isNull ? "" : pretty(value.node));
  const number = (value: number | null): string => (value === null ? "" : String(value));
  return {
    name: schedule.name,
    workflow_type: schedule.workflow_type,
    cron_expr: schedule.cron_expr,
    timezone: schedule.timezone,
    task_queue: schedule.task_queue,
    input: doc(schedule.input),
    overlap_policy: schedule.overlap_policy,
    missed: schedule.missed,
    dst: schedule.dst,
    window_secs: number(schedule.window_secs),
    jitter_secs: number(schedule.jitter_secs),
    end_at: schedule.end_at === null ? "" : new Date(schedule.end_at * 1_000).toISOString(),
    remaining: number(schedule.remaining),
    search_attributes: doc(schedule.search_attributes),
  };
}

/** Returns a field as JSON text; an empty text of an edited field clears it. */
function jsonOf(name: string, text: string): string {
  const value = text.trim();
  if (value === "") return "null";
  if (JSON_FIELDS.has(name)) return value;
  if (name === "end_at") return String(new Date(value).getTime() / 1_000);
  return NUMBERS.has(name) && !Number.isNaN(Number(value)) ? value : JSON.stringify(value);
}

function requestOf(schedule: ScheduleRecord | null, before: Form, form: Form) {
  const differs = changed(before, form);
  if (schedule !== null) {
    const cleared = Object.keys(differs).filter((name) => differs[name]?.trim() === "");
    const set = Object.entries(differs).filter(([, text]) => text.trim() !== "");
    const fields = Object.fromEntries(set.map(([name, text]) => [name, jsonOf(name, text)]));
    const body = objectText({ ...fields, clear: cleared.length === 0 ? null : JSON.stringify(cleared) });
    return {
      method: "PATCH" as const,
      parts: ["schedules", schedule.name],
      query: { namespace: schedule.namespace },
      body,
    };
  }
  const given = Object.entries(form).filter(
    ([name, text]) => text.trim() !== "" && (text !== EMPTY[name] || name === "overlap_policy"),
  );
  const fields = Object.fromEntries(given.map(([name, text]) => [name, jsonOf(name, text)]));
  return {
    method: "POST" as const,
    parts: ["schedules"],
    body: objectText({ ...fields, namespace: JSON.stringify(namespace.value) }),
  };
}

function commandOf(schedule: ScheduleRecord | null, before: Form, form: Form): string {
  const differs = schedule === null ? form : changed(before, form);
  const options = Object.fromEntries(Object.entries(FLAGS).map(([name, flag]) => [flag, (differs[name] ?? "").trim()]));
  const name = form["name"]?.trim() || "NAME";
  if (schedule !== null) return assayCommand(["schedule", "patch", name], options, schedule.namespace);
  return assayCommand(
    ["schedule", "create", name],
    { type: form["workflow_type"] || "TYPE", ...options },
    namespace.value,
  );
}

export function ScheduleDialog({ schedule, types, queues, onDone }: Props) {
  const [before] = useState(() => formOf(schedule));
  const [form, setForm] = useState(before);
  const at = (name: string): string => form[name] ?? "";
  const set = (name: string) => (value: string) => setForm((old) => ({ ...old, [name]: value }));
  const isNew = schedule === null;
  const missing = isNew && ["name", "workflow_type", "cron_expr"].some((name) => at(name).trim() === "");
  const refusal = missing
    ? "Give a name, a workflow type and a cron expression."
    : (jsonProblem(at("input")) ?? jsonProblem(at("search_attributes"), true));
  const unchanged = !isNew && Object.keys(changed(before, form)).length === 0;
  return (
    <Action
      title={isNew ? "New schedule" : `Edit ${schedule.name}`}
      verb={isNew ? "Create schedule" : "Save"}
      refusal={refusal ?? (unchanged ? "Nothing has changed." : null)}
      wide
      request={requestOf(schedule, before, form)}
      command={commandOf(schedule, before, form)}
      done={() => {
        onDone();
        return { text: isNew ? `Created ${at("name").trim()}.` : `Saved ${schedule.name}.` };
      }}
    >
      <div class="field-pair">
        {isNew && <TextField label="Name" value={at("name")} onChange={set("name")} isRequired />}
        {isNew && (
          <TextField
            label="Workflow type"
            value={at("workflow_type")}
            onChange={set("workflow_type")}
            options={types}
            isRequired
          />
        )}
        <TextField
          label="Cron"
          value={at("cron_expr")}
          onChange={set("cron_expr")}
          placeholder="0 0 2 * * *"
          isRequired
          hint="Second, minute, hour, day, month, weekday; or @daily, @every 30s."
        />
        <TextField
          label="Timezone"
          value={at("timezone")}
          onChange={set("timezone")}
          options={ZONES}
          placeholder="UTC"
        />
        <TextField
          label="Queue"
          value={at("task_queue")}
          onChange={set("task_queue")}
          options={queues}
          placeholder="default"
        />
        <SelectField label="Overlap" value={at("overlap_policy")} options={OVERLAPS} onChange={set("overlap_policy")} />
      </div>
      <JsonEditor label="Input (JSON)" value={at("input")} onChange={set("input")} />
      <details>
        <summary>More</summary>
        <div class="field-pair">
          <SelectField label="Missed fires" value={at("missed")} options={MISSED} onChange={set("missed")} />
          <TextField
            label="Window"
            value={at("window_secs")}
            onChange={set("window_secs")}
            placeholder="3600"
            hint="How late a missed fire may start, in seconds."
          />
          <TextField
            label="Jitter"
            value={at("jitter_secs")}
            onChange={set("jitter_secs")}
            placeholder="0"
            hint="Seconds."
          />
          <SelectField label="Clock changes" value={at("dst")} options={DST} onChange={set("dst")} />
          <TextField label="End" value={at("end_at")} onChange={set("end_at")} placeholder="2027-01-01T00:00Z" />
          <TextField
            label="Remaining fires"
            value={at("remaining")}
            onChange={set("remaining")}
            placeholder="unlimited"
          />
        </div>
        <JsonEditor
          label="Search attributes (JSON)"
          value={at("search_attributes")}
          onChange={set("search_attributes")}
          rows={2}
          isObject
        />
      </details>
    </Action>
  );
}
