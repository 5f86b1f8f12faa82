import { useEffect } from "preact/hooks";
import { ask } from "../../actions/Action";
import { ScheduleDialog } from "../../actions/ScheduleForm";
import { get } from "../../data/client";
import type { QueueStats, RunRecord, ScheduleRecord, WorkerRecord } from "../../data/records";
import { useEvery, useResource } from "../../data/resource";
import { listRuns } from "../../data/runs";
import { actRefusal } from "../../data/session";
import { onNews } from "../../data/stream";
import { useView } from "../../frame/view";
import { Icon } from "../../parts/Icon";
import { Problem, Stale } from "../../parts/Problem";
import { Empty } from "../../parts/Window";
import { namespace, route } from "../../router";
import { SchedulePage } from "./SchedulePage";
import { ScheduleTable } from "./ScheduleTable";

const READ_MS = 10_000;

/** Reads the schedules, and the runs that they started last. */
function useSchedules() {
  const ns = namespace.value;
  const found = useResource(`schedules ${ns}`, async (signal) => {
    const { value } = await get<ScheduleRecord[]>(["schedules"], { namespace: ns }, signal);
    const last = await Promise.all(
      value.slice(0, 50).map(async (one): Promise<readonly [string, RunRecord | undefined]> => {
        if (one.last_workflow_id === null) return [one.name, undefined];
        const runs = await listRuns({ namespace: ns, workflow_id: one.last_workflow_id, limit: 1 }, signal);
        return [one.name, runs.rows[0]];
      }),
    );
    return { schedules: value, last: new Map(last) };
  });
  useEvery(found, READ_MS);
  useEffect(
    () =>
      onNews((frames) => {
        if (frames.some((frame) => frame.namespace === ns && frame.kind.startsWith("schedule_"))) void found.refresh();
      }),
    [found, ns],
  );
  return found;
}

function useNames() {
  const ns = namespace.value;
  const known = useResource(`schedule names ${ns}`, async (signal) => {
    const [workers, queues] = await Promise.all([
      get<WorkerRecord[]>(["workers"], { namespace: ns }, signal),
      get<QueueStats[]>(["queues"], { namespace: ns }, signal),
    ]);
    return {
      types: [...new Set(workers.value.flatMap((worker) => worker.workflows ?? []))].sort(),
      queues: queues.value.map((queue) => queue.queue),
    };
  });
  return known.state.value.value ?? { types: [], queues: [] };
}

export function View() {
  const { value } = route;
  const name = value.view === "schedules" ? value.name : null;
  const found = useSchedules();
  const names = useNames();
  const { value: all, error, at, retryAt } = found.state.value;
  const again = (): void => void found.refresh();
  const edit = (schedule: ScheduleRecord | null): void =>
    ask(<ScheduleDialog schedule={schedule} {...names} onDone={again} />);
  useView(
    name ?? "Schedules",
    all === undefined ? (error ? "error" : "loading") : name === null && all.schedules.length === 0 ? "empty" : "ready",
  );
  return (
    <section class="page">
      {error && all && <Stale at={at} retryAt={retryAt} />}
      {error && !all && <Problem problem={error} retry={again} />}
      {name !== null && all && (
        <SchedulePage
          name={name}
          schedule={all.schedules.find((one) => one.name === name)}
          onEdit={edit}
          onDone={again}
        />
      )}
      {name === null && (
        <>
          <header class="page-head">
            <h1>Schedules</h1>
            <span class="spacer" />
            <button
              type="button"
              class="button primary"
              disabled={actRefusal.value !== null}
              title={actRefusal.value ?? undefined}
              onClick={() => edit(null)}
            >
              <Icon name="plus" />
              New schedule
            </button>
          </header>
          {all &&
            (all.schedules.length === 0 ? (
              <NoSchedules />
            ) : (
              <ScheduleTable schedules={all.schedules} last={all.last} onEdit={edit} onDone={again} />
            ))}
        </>
      )}
    </section>
  );
}

const NoSchedules = () => (
  <Empty title="No schedules.">
    <p class="muted">A schedule starts a workflow at the times of a cron expression:</p>
    <p class="command">
      <code>assay schedule create nightly --type Report --cron '0 0 2 * * *' --timezone Europe/Berlin</code>
    </p>
  </Empty>
);
