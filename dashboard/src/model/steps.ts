// The steps convention: a query `pipeline_state` with steps and a log, as circles, connectors and lines. Pure.

export interface Step {
  readonly name: string;
  /** The literal text that the workflow gave. */
  readonly text: string;
  readonly status: StepStatus;
  readonly actions: readonly string[];
  readonly expiresAt: number | null;
}
export interface LogLine {
  readonly time: string;
  readonly message: string;
  /** 1-based; null for a line that belongs to no step. */
  readonly step: number | null;
}
export interface Pipeline {
  readonly status: string;
  readonly current: number | null;
  readonly steps: readonly Step[];
  readonly log: readonly LogLine[];
}
export type StepStatus = "waiting" | "running" | "done" | "failed" | "cancelled" | "skipped";
export type Connector = "full" | "partial" | "muted";

export const STEP_GLYPHS: Readonly<Record<StepStatus, string>> = {
  waiting: "○",
  running: "⟳",
  done: "✓",
  failed: "✕",
  cancelled: "⊘",
  skipped: "·",
};

type Fields = Readonly<Record<string, unknown>>;
const isObject = (value: unknown): value is Fields =>
  typeof value === "object" && value !== null && !Array.isArray(value);
const text = (value: unknown): string =>
  typeof value === "string" ? value : value === undefined || value === null ? "" : String(value);
const whole = (value: unknown): number | null => (typeof value === "number" && Number.isFinite(value) ? value : null);

/** Returns the steps of a query's value, or null where it is not of this form. */
export function pipelineOf(value: unknown): Pipeline | null {
  if (!isObject(value) || !Array.isArray(value["steps"]) || value["steps"].length === 0) return null;
  const log = Array.isArray(value["log"]) ? value["log"] : [];
  return {
    status: text(value["status"]),
    current: whole(value["current_step"]),
    steps: value["steps"].map(stepOf),
    log: log.map(lineOf),
  };
}

function stepOf(value: unknown): Step {
  const fields = isObject(value) ? value : { name: text(value) };
  const status = text(fields["status"]) || "waiting";
  const actions = Array.isArray(fields["actions"]) ? fields["actions"].map(text) : [];
  return {
    name: text(fields["name"]),
    text: status,
    status: status in STEP_GLYPHS ? (status as StepStatus) : "waiting",
    actions,
    expiresAt: whole(fields["expires_at"]),
  };
}

function lineOf(value: unknown): LogLine {
  const fields = isObject(value) ? value : { msg: text(value) };
  return {
    time: text(fields["time"]),
    message: text(fields["msg"]),
    step: whole(fields["step"]) ?? whole(fields["stage"]),
  };
}

/** Shows what a closed run left open: its running step ended with it, and later ones never ran. */
export function settled(pipeline: Pipeline, runStatus: string): Pipeline {
  const ended = ({ FAILED: "failed", TIMED_OUT: "failed", CANCELLED: "cancelled" } as const)[runStatus];
  if (ended === undefined) return pipeline;
  const at = pipeline.steps.findIndex((step) => step.status === "running");
  if (at < 0) return pipeline;
  const steps = pipeline.steps.map((step, index): Step => {
    if (step.status === "running") return { ...step, status: ended, text: ended, actions: [] };
    if (index > at && step.text === "waiting") return { ...step, status: "skipped", text: "skipped", actions: [] };
    return step;
  });
  return { ...pipeline, steps };
}

/** Returns how the line from a step to the next one is drawn. */
export function connector(before: StepStatus, after: StepStatus): Connector {
  if (before !== "done" || after === "skipped") return "muted";
  return after === "done" || after === "failed" || after === "cancelled" ? "full" : "partial";
}

/** Returns the step in focus, 1-based: the current one, else the first running one, else the first failed one. */
export function focusOf(pipeline: Pipeline): number | null {
  if (pipeline.current !== null && pipeline.steps[pipeline.current - 1] !== undefined) return pipeline.current;
  for (const status of ["running", "failed"]) {
    const at = pipeline.steps.findIndex((step) => step.status === status);
    if (at >= 0) return at + 1;
  }
  return null;
}

/** Returns whether a line of the log is shown while a step is pinned. */
export const isShown = (line: LogLine, pinned: number | null): boolean =>
  pinned === null || line.step === null || line.step === pinned;
