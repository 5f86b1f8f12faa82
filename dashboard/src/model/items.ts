// A history as items: what ran from when to when, and how it ended. Pure.
import { type HistoryEvent, field } from "./history";

export type ItemKind = "run" | "activity" | "step" | "timer" | "signal" | "child" | "tick";
export type ItemStatus = "running" | "retrying" | "completed" | "failed" | "cancelled" | "timed_out";
export type SegmentKind = "queued" | "attempt" | "backoff" | "line" | "wait" | "child" | "point";

export interface Segment {
  readonly kind: SegmentKind;
  readonly from: number;
  /** Null for a thing that is still open. */
  readonly to: number | null;
  readonly status: ItemStatus;
}
export interface Item {
  readonly key: string;
  readonly kind: ItemKind;
  readonly name: string;
  readonly status: ItemStatus;
  readonly from: number;
  readonly to: number | null;
  readonly segments: readonly Segment[];
  readonly seqs: readonly number[];
  /** For an open timer: when it fires. */
  readonly due: number | null;
  readonly attempts: number;
  readonly error: string;
  readonly childRun: string;
}

export interface AttemptTimes {
  readonly outcome: string;
  readonly started_at: number | null;
  readonly ended_at: number | null;
}
export interface ActivityTimes {
  readonly seq: number;
  readonly scheduled_at: number;
  readonly attempts: readonly AttemptTimes[];
  readonly next_try_at: number | null;
}

interface Draft {
  key: string;
  kind: ItemKind;
  name: string;
  status: ItemStatus;
  from: number;
  to: number | null;
  seqs: number[];
  due: number | null;
  error: string;
  childRun: string;
  segment: SegmentKind;
  /** The timer that bounds a wait for a signal. */
  timer: string;
  activity: number;
}

const ENDS: Readonly<Record<string, ItemStatus>> = {
  ActivityCompleted: "completed",
  ActivityFailed: "failed",
  ActivityCancelled: "cancelled",
  TimerFired: "completed",
  TimerCancelled: "cancelled",
  ChildWorkflowCompleted: "completed",
  ChildWorkflowFailed: "failed",
};
const TICKS: ReadonlySet<string> = new Set([
  "SideEffectRecorded",
  "VersionRecorded",
  "AttributesUpserted",
  "WorkflowCancelRequested",
]);

class Builder {
  readonly drafts: Draft[] = [];
  readonly open = new Map<string, Draft>();

  add(event: HistoryEvent, key: string, kind: ItemKind, name: string, more: Partial<Draft> = {}): Draft {
    const draft: Draft = {
      key: `${key} ${event.seq}`,
      kind,
      name,
      status: "running",
      from: event.timestamp,
      to: null,
      seqs: [event.seq],
      due: null,
      error: "",
      childRun: "",
      segment: "attempt",
      timer: "",
      activity: 0,
      ...more,
    };
    this.drafts.push(draft);
    return draft;
  }

  close(key: string, event: HistoryEvent, status: ItemStatus): void {
    const draft = this.open.get(key);
    if (!draft) return;
    this.open.delete(key);
    draft.status = field(event, "timeout_type") === "" ? status : "timed_out";
    draft.to = event.timestamp;
    draft.seqs.push(event.seq);
    draft.error = field(event, "error");
  }

  point(event: HistoryEvent, kind: ItemKind, name: string, status: ItemStatus = "completed"): void {
    this.add(event, "point", kind, name, {
      to: event.timestamp,
      status,
      segment: "point",
      error: field(event, "error"),
    });
  }
}

/** Returns the items of a history, in the order of their beginning; the run itself is not among them. */
export function itemsOf(events: readonly HistoryEvent[], activities: readonly ActivityTimes[]): readonly Item[] {
  const builder = new Builder();
  for (const event of events) take(builder, event);
  const times = new Map(activities.map((activity) => [activity.seq, activity]));
  return builder.drafts.map((draft) => finished(draft, times.get(draft.activity)));
}

function take(builder: Builder, event: HistoryEvent): void {
  const { event_type: type } = event;
  const end = ENDS[type];
  if (type === "ActivityScheduled") {
    const seq = Number(field(event, "activity_seq"));
    builder.open.set(
      `activity ${seq}`,
      builder.add(event, "activity", "activity", field(event, "name"), { activity: seq }),
    );
  } else if (type === "TimerScheduled") {
    const due = Number(field(event, "fire_at"));
    const made = builder.add(event, "timer", "timer", "timer", { due, segment: "line" });
    builder.open.set(`timer ${field(event, "timer_seq")}`, made);
  } else if (type === "ChildWorkflowStarted") {
    const made = builder.add(event, "child", "child", field(event, "child_workflow_id"), {
      segment: "child",
      childRun: field(event, "run_id"),
    });
    builder.open.set(`child ${field(event, "child_seq")} ${field(event, "child_workflow_id")}`, made);
  } else if (type === "WorkflowAwaitingSignal") {
    builder.open.set(
      `signal ${event.seq}`,
      builder.add(event, "signal", "signal", field(event, "signal"), {
        segment: "wait",
        timer: field(event, "timer_seq"),
      }),
    );
  } else if (type === "SignalReceived") received(builder, event);
  else if (end !== undefined) ended(builder, event, end);
  else if (type === "StepCompleted" || type === "StepFailed")
    step(builder, event, type === "StepCompleted" ? "completed" : "failed");
  else if (TICKS.has(type)) builder.point(event, "tick", field(event, "name") || field(event, "change_id") || type);
}

function ended(builder: Builder, event: HistoryEvent, status: ItemStatus): void {
  const { event_type: type } = event;
  if (type.startsWith("Activity")) builder.close(`activity ${field(event, "activity_seq")}`, event, status);
  else if (type.startsWith("Child"))
    builder.close(`child ${field(event, "child_seq")} ${field(event, "child_workflow_id")}`, event, status);
  else {
    const timer = field(event, "timer_seq");
    builder.close(`timer ${timer}`, event, status);
    if (type !== "TimerFired") return;
    for (const [key, draft] of builder.open)
      if (draft.kind === "signal" && draft.timer === timer) builder.close(key, event, "timed_out");
  }
}

function received(builder: Builder, event: HistoryEvent): void {
  const name = field(event, "signal");
  for (const [key, draft] of builder.open) {
    if (draft.kind === "signal" && draft.name === name) return builder.close(key, event, "completed");
  }
  builder.point(event, "signal", name);
}

function step(builder: Builder, event: HistoryEvent, status: ItemStatus): void {
  const started = Number(field(event, "started_at"));
  if (!started) return builder.point(event, "step", field(event, "name"), status);
  builder.add(event, "step", "step", field(event, "name"), {
    from: started,
    to: event.timestamp,
    status,
    error: field(event, "error"),
  });
}

function finished(draft: Draft, times: ActivityTimes | undefined): Item {
  const segments = times && times.attempts.length > 0 ? attemptSegments(draft, times) : plainSegments(draft);
  const { key, kind, name, from, to, seqs, due, error, childRun } = draft;
  const waits = draft.status === "running" && times?.next_try_at != null;
  const attempts = times?.attempts.length ?? 0;
  return {
    key,
    kind,
    name,
    from,
    to,
    seqs,
    due,
    error,
    childRun,
    attempts,
    segments,
    status: waits ? "retrying" : draft.status,
  };
}

const plainSegments = (draft: Draft): readonly Segment[] => [
  { kind: draft.segment, from: draft.from, to: draft.to, status: draft.status },
];

const OUTCOMES: Readonly<Record<string, ItemStatus>> = {
  completed: "completed",
  cancelled: "cancelled",
  timed_out: "timed_out",
  running: "running",
};

function attemptSegments(draft: Draft, times: ActivityTimes): readonly Segment[] {
  const found: Segment[] = [];
  let at = times.scheduled_at;
  for (const [index, attempt] of times.attempts.entries()) {
    const began = attempt.started_at ?? attempt.ended_at ?? at;
    if (began > at) found.push({ kind: index === 0 ? "queued" : "backoff", from: at, to: began, status: draft.status });
    const status = attempt.ended_at === null ? "running" : (OUTCOMES[attempt.outcome] ?? "failed");
    found.push({ kind: "attempt", from: began, to: attempt.ended_at, status });
    at = attempt.ended_at ?? began;
  }
  const isOpen = draft.to === null && times.attempts.at(-1)?.ended_at != null;
  if (isOpen)
    found.push({ kind: times.next_try_at === null ? "queued" : "backoff", from: at, to: null, status: draft.status });
  return found;
}
