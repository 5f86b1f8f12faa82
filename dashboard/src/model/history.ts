// Events of a history: names for people, groups, subjects and partners. Pure.

export interface HistoryEvent {
  readonly seq: number;
  readonly event_type: string;
  readonly timestamp: number;
  readonly payload: { readonly value: unknown; readonly text: string } | null;
}

export type Group = "Activities" | "Timers" | "Signals" | "Children" | "Steps" | "Attributes" | "Lifecycle";
export const GROUPS: readonly Group[] = [
  "Activities",
  "Timers",
  "Signals",
  "Children",
  "Steps",
  "Attributes",
  "Lifecycle",
];

const PREFIXES: readonly (readonly [string, Group])[] = [
  ["Activity", "Activities"],
  ["Timer", "Timers"],
  ["Signal", "Signals"],
  ["WorkflowAwaitingSignal", "Signals"],
  ["Message", "Signals"],
  ["Child", "Children"],
  ["Step", "Steps"],
  ["SideEffect", "Steps"],
  ["Version", "Steps"],
  ["Attributes", "Attributes"],
];

export const groupOf = (type: string): Group =>
  PREFIXES.find(([prefix]) => type.startsWith(prefix))?.[1] ?? "Lifecycle";

/** Returns the type of an event as words: `ActivityScheduled` is `Activity scheduled`. */
export function words(type: string): string {
  const text = type.replace(/([a-z])([A-Z])/g, "$1 $2").toLowerCase();
  return text.charAt(0).toUpperCase() + text.slice(1);
}

export type Outcome = "good" | "bad" | "stopped" | "plain";

export function outcomeOf(type: string): Outcome {
  if (/Failed|TimedOut|Terminated/.test(type)) return "bad";
  if (/Cancelled|CancelRequested/.test(type)) return "stopped";
  return /Completed|Fired/.test(type) ? "good" : "plain";
}

export const OUTCOME_GLYPHS: Readonly<Record<Outcome, string>> = { good: "✓", bad: "✕", stopped: "⊘", plain: "" };

const fields = (event: HistoryEvent): Readonly<Record<string, unknown>> => {
  const value = event.payload?.value;
  return typeof value === "object" && value !== null && !Array.isArray(value) ? (value as Record<string, unknown>) : {};
};

/** Returns a field of the payload as a text, or an empty text. */
export function field(event: HistoryEvent, name: string): string {
  if (event.event_type === "WorkflowStarted") return "";
  const value = fields(event)[name];
  return typeof value === "string" || typeof value === "number" ? String(value) : "";
}

/** Returns what an event is about: the name of an activity, a signal, a child. */
export function subjectOf(event: HistoryEvent): string {
  if (event.event_type === "WorkflowStarted")
    return String((event as unknown as Record<string, unknown>)["workflow_type"] ?? "");
  for (const name of ["name", "signal", "child_workflow_id", "change_id", "reason", "error"]) {
    const found = field(event, name);
    if (found !== "") return found;
  }
  const seconds = field(event, "duration_secs");
  return seconds === "" ? "" : `${seconds} s`;
}

/** Returns a key that the events of one activity, timer, step or child share; empty for single events. */
export function partnerKey(event: HistoryEvent): string {
  for (const name of ["activity_seq", "timer_seq", "child_seq", "step_seq"]) {
    const found = field(event, name);
    if (found !== "" && found !== "0") return `${name} ${found}`;
  }
  return "";
}

export interface EventFilter {
  readonly groups: ReadonlySet<Group>;
  readonly text: string;
}

/** Returns whether an event passes a filter; the text is looked for in names and payload. */
export function matches(event: HistoryEvent, filter: EventFilter): boolean {
  if (filter.groups.size > 0 && !filter.groups.has(groupOf(event.event_type))) return false;
  if (filter.text === "") return true;
  const wanted = filter.text.toLowerCase();
  return `${words(event.event_type)} ${event.event_type} ${event.payload?.text ?? ""}`.toLowerCase().includes(wanted);
}
