// What the record of a worker means: how it is, and how busy. Pure: the time now is an argument.

export interface WorkerFacts {
  readonly healthy: boolean;
  readonly last_heartbeat: number;
  readonly active_tasks: number;
  readonly max_concurrent_workflows: number;
  readonly max_concurrent_activities: number;
}

export interface WorkerState {
  readonly word: "healthy" | "slow" | "stale" | "unhealthy";
  readonly glyph: string;
  readonly tone: "green" | "yellow" | "orange" | "red";
}

const SLOW_AFTER_SECONDS = 30;
const STALE_AFTER_SECONDS = 60;

/** Returns how a worker is, by its last heartbeat and its own report. */
export function stateOf(worker: Pick<WorkerFacts, "healthy" | "last_heartbeat">, now: number): WorkerState {
  if (!worker.healthy) return { word: "unhealthy", glyph: "✕", tone: "red" };
  const age = now - worker.last_heartbeat;
  if (age < SLOW_AFTER_SECONDS) return { word: "healthy", glyph: "●", tone: "green" };
  if (age < STALE_AFTER_SECONDS) return { word: "slow", glyph: "◐", tone: "yellow" };
  return { word: "stale", glyph: "○", tone: "orange" };
}

/** Returns how many tasks and activities a worker has and may have at a time. */
export function loadOf(worker: WorkerFacts): { readonly active: number; readonly most: number } {
  return { active: worker.active_tasks, most: worker.max_concurrent_workflows + worker.max_concurrent_activities };
}

/** Returns the first name and how many more there are: `Order +3`; null stands for all types. */
export function namesInShort(names: readonly string[] | null): string {
  if (names === null) return "all";
  const [first] = names;
  if (first === undefined) return "none";
  return names.length === 1 ? first : `${first} +${names.length - 1}`;
}
