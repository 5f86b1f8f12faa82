import { get } from "../../data/client";
import type { QueueStats, WorkerRecord } from "../../data/records";
import { useEvery, useResource } from "../../data/resource";
import { useView } from "../../frame/view";
import { pendingOf } from "../../model/queue";
import { Problem, Stale } from "../../parts/Problem";
import { here, href, namespace, route, setQuery } from "../../router";
import { ListHead } from "../Head";
import { NoWorkers } from "./NoWorkers";
import { WorkerPage } from "./Worker";
import { WorkerTable } from "./WorkerTable";

const READ_MS = 10_000;

export interface Roster {
  readonly workers: readonly WorkerRecord[];
  readonly queues: readonly QueueStats[];
}

/** The workers of a namespace, and the queues that they may serve. */
export function useRoster(ns: string) {
  const roster = useResource(`workers ${ns}`, async (signal): Promise<Roster> => {
    const [workers, queues] = await Promise.all([
      get<WorkerRecord[]>(["workers"], { namespace: ns }, signal),
      get<QueueStats[]>(["queues"], { namespace: ns }, signal),
    ]);
    return { workers: workers.value, queues: queues.value };
  });
  useEvery(roster, READ_MS);
  return roster;
}

export function View() {
  const shown = route.value;
  const name = "name" in shown ? shown.name : null;
  return name === null ? <WorkerList /> : <WorkerPage key={name} id={name} />;
}

function WorkerList() {
  const ns = namespace.value;
  const roster = useRoster(ns);
  const { value, error, at, retryAt } = roster.state.value;
  const queue = route.value.query["queue"] ?? "";
  const rows = (value?.workers ?? []).filter((worker) => queue === "" || worker.task_queue === queue);
  useView("Workers", value === undefined ? (error ? "error" : "loading") : rows.length === 0 ? "empty" : "ready");
  const queues = [...new Set((value?.workers ?? []).map((worker) => worker.task_queue))].sort();
  return (
    <section class="page">
      <ListHead title="Workers">
        {(queues.length > 1 || queue !== "") && (
          <label class="choice-field">
            <span class="visually-hidden">Queue</span>
            <select value={queue} onChange={(event) => setQuery({ queue: event.currentTarget.value })}>
              <option value="">All queues</option>
              {[...new Set([...queues, ...(queue === "" ? [] : [queue])])].map((one) => (
                <option key={one} value={one}>
                  {one}
                </option>
              ))}
            </select>
          </label>
        )}
      </ListHead>
      {error && value && <Stale at={at} retryAt={retryAt} />}
      {error && !value && <Problem problem={error} retry={() => void roster.refresh()} />}
      {value && (
        <div class="table-box">
          {rows.length === 0 ? (
            <NoWorkers ns={ns} waiting={value.queues.filter((one) => pendingOf(one) > 0)} />
          ) : (
            <WorkerTable rows={rows} hrefOf={(worker) => href({ view: "workers", name: worker.id, query: here() })} />
          )}
        </div>
      )}
    </section>
  );
}
