// What the record of a queue means: how much waits, and whether anybody serves it.

export interface QueueFacts {
  readonly queue: string;
  readonly pending_activities: number;
  readonly pending_workflow_tasks: number;
  readonly running_activities: number;
  readonly workers: number;
  readonly oldest_pending_at: number | null;
}

export const pendingOf = (queue: QueueFacts): number => queue.pending_activities + queue.pending_workflow_tasks;

/** Whether work waits in a queue that no worker serves. */
export const isUnserved = (queue: QueueFacts): boolean => queue.workers === 0 && pendingOf(queue) > 0;

const counted = (count: number, one: string, many: string): string => `${count} ${count === 1 ? one : many}`;

/** Returns what waits, in words: `2 workflow tasks and 1 activity`. */
export function waitingWords(queue: QueueFacts): string {
  const parts = [
    queue.pending_workflow_tasks > 0 && counted(queue.pending_workflow_tasks, "workflow task", "workflow tasks"),
    queue.pending_activities > 0 && counted(queue.pending_activities, "activity", "activities"),
  ].filter((part) => part !== false);
  return parts.join(" and ");
}

/** Returns the state of a queue as a sentence; `waited` is the time of the oldest work, in words. */
export function queueSentence(queue: QueueFacts, waited: string | null): string {
  const pending = pendingOf(queue);
  const workers = counted(queue.workers, "worker", "workers");
  if (pending === 0)
    return `Nothing waits; ${queue.workers === 0 ? "no worker serves" : `${workers} ${queue.workers === 1 ? "serves" : "serve"}`} this queue.`;
  const verb = pending === 1 ? "waits" : "wait";
  const since = waited === null ? "" : ` for ${waited}`;
  if (queue.workers === 0) return `${waitingWords(queue)} ${verb}${since}; no worker serves this queue.`;
  return `${waitingWords(queue)} ${verb}${since}; ${workers} ${queue.workers === 1 ? "serves" : "serve"} this queue.`;
}
