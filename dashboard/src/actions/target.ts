// The run that an action is about, and what else it will touch.
import type { RunRecord } from "../data/records";
import { useResource } from "../data/resource";
import { readActivities, readChildren } from "../data/runs";
import { isOpen } from "../model/run";

export type Target = Pick<
  RunRecord,
  "workflow_id" | "run_id" | "namespace" | "workflow_type" | "status" | "waiting_on"
>;

export const runQuery = (run: Target): Readonly<Record<string, string>> => ({
  namespace: run.namespace,
  run_id: run.run_id,
});

export interface Touched {
  readonly queued: number;
  readonly children: number;
}

/** Returns how many waiting activities and open children a run has; null until that is known. */
export function useTouched(run: Target): Touched | null {
  const found = useResource(JSON.stringify(["touched", run.run_id]), async (signal) => {
    const [activities, children] = await Promise.allSettled([
      readActivities(run.namespace, run.workflow_id, run.run_id, signal),
      readChildren(run.namespace, run.workflow_id, run.run_id, signal),
    ]);
    return {
      queued: activities.status === "fulfilled" ? activities.value.filter((one) => one.status === "PENDING").length : 0,
      children: children.status === "fulfilled" ? children.value.runs.filter(isOpen).length : 0,
    };
  });
  return found.state.value.value ?? null;
}

export const counted = (count: number, one: string, many = `${one}s`): string =>
  count === 1 ? `1 ${one}` : `${count} ${many}`;
