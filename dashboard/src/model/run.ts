// What the state of a run means: its badge, and what may be done with it.

export interface RunState {
  readonly status: string;
  readonly close_reason: string | null;
  readonly cancel_requested: boolean;
  readonly stuck: unknown;
  readonly waiting_on: { readonly attention?: string } | null;
}

export type Tone = "muted" | "accent" | "green" | "red" | "orange" | "yellow";
export type Shape = "plain" | "outline" | "soft" | "edge";

/** How a run's state is shown: a glyph, a word, a colour and a shape, no two alike. */
export interface Badge {
  readonly key: string;
  readonly glyph: string;
  readonly word: string;
  readonly tone: Tone;
  readonly shape: Shape;
}

const badge = (key: string, glyph: string, word: string, tone: Tone, shape: Shape): Badge => ({
  key,
  glyph,
  word,
  tone,
  shape,
});

const BADGES: Readonly<Record<string, Badge>> = {
  PENDING: badge("pending", "○", "Pending", "muted", "outline"),
  RUNNING: badge("running", "⟳", "Running", "accent", "soft"),
  WAITING: badge("waiting", "◔", "Waiting", "accent", "outline"),
  COMPLETED: badge("completed", "✓", "Completed", "green", "plain"),
  FAILED: badge("failed", "✕", "Failed", "red", "edge"),
  CANCELLED: badge("cancelled", "⊘", "Cancelled", "muted", "outline"),
  TIMED_OUT: badge("timed-out", "⧖", "Timed out", "orange", "edge"),
};
const CONTINUED = badge("continued", "↻", "Continued", "green", "outline");
const TERMINATED = badge("terminated", "■", "Terminated", "red", "outline");
const BLOCKED = badge("blocked", "▲", "Blocked", "yellow", "edge");
const CANCELLING = badge("cancelling", "⊗", "Cancelling", "muted", "outline");

const OPEN: ReadonlySet<string> = new Set(["PENDING", "RUNNING", "WAITING"]);

export const isOpen = (run: { readonly status: string }): boolean => OPEN.has(run.status);

/** Returns the badge of a run: its status, refined by how it closed and by what it waits for. */
export function badgeOf(run: RunState): Badge {
  if (isOpen(run)) {
    if (run.waiting_on?.attention === "operator" || run.stuck !== null) return BLOCKED;
    if (run.cancel_requested) return CANCELLING;
  }
  if (run.status === "COMPLETED" && run.close_reason === "continued_as_new") return CONTINUED;
  if (run.status === "FAILED" && run.close_reason === "terminated") return TERMINATED;
  return BADGES[run.status] ?? badge("unknown", "○", run.status, "muted", "outline");
}

/** The statuses that can be chosen as a filter, with their words. */
export const STATUS_WORDS: readonly (readonly [string, string])[] = [
  ["PENDING", "Pending"],
  ["RUNNING", "Running"],
  ["COMPLETED", "Completed"],
  ["FAILED", "Failed"],
  ["CANCELLED", "Cancelled"],
  ["TIMED_OUT", "Timed out"],
];

/** Returns how a closed run ended, in a sentence; null for an open run. */
export function ending(run: RunState & { readonly workflow_id: string }): string | null {
  return isOpen(run) ? null : `${run.workflow_id} ${badgeOf(run).word.toLowerCase()}`;
}
