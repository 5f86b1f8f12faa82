import { get } from "../../data/client";
import type { WorkerRecord } from "../../data/records";
import { useEvery, useResource } from "../../data/resource";
import { useView } from "../../frame/view";
import { isUnserved, queueSentence } from "../../model/queue";
import { Problem } from "../../parts/Problem";
import { Empty } from "../../parts/Window";
import { here, href, namespace } from "../../router";
import { DetailHead, Fact } from "../Head";
import { WorkerTable } from "../workers/WorkerTable";
import { useQueues, waitedFor } from "./Queues";

const WORKERS_READ_MS = 10_000;

/** The page of one queue: how it is in a sentence, its counts and its workers. */
export function QueuePage({ name }: { readonly name: string }) {
  const ns = namespace.value;
  const queues = useQueues(ns);
  const workers = useResource(`workers of ${ns} ${name}`, async (signal) =>
    (await get<WorkerRecord[]>(["workers"], { namespace: ns }, signal)).value.filter(
      (worker) => worker.task_queue === name,
    ),
  );
  useEvery(workers, WORKERS_READ_MS);
  const { value, error } = queues.state.value;
  const queue = value?.find((one) => one.queue === name);
  const rows = workers.state.value.value ?? [];
  useView(name, value === undefined ? (error ? "error" : "loading") : queue === undefined ? "empty" : "ready");
  return (
    <section class="page">
      <DetailHead view="queues" list="Queues" name={name}>
        <a class="button" href={href({ view: "workflows", query: here({ queue: name }) })}>
          Show runs
        </a>
      </DetailHead>
      {error && !value && <Problem problem={error} retry={() => void queues.refresh()} />}
      {value && !queue && (
        <div class="table-box">
          <Empty title="This queue has no work and no workers." />
        </div>
      )}
      {queue && (
        <>
          <p class={`lead${isUnserved(queue) ? " tone-yellow" : ""}`}>
            {isUnserved(queue) && <span aria-hidden="true">▲ </span>}
            {queueSentence(queue, waitedFor(queue))}
          </p>
          <dl class="card facts-list">
            <Fact name="Workflow tasks waiting">{queue.pending_workflow_tasks}</Fact>
            <Fact name="Activities waiting">{queue.pending_activities}</Fact>
            <Fact name="Activities running">{queue.running_activities}</Fact>
            <Fact name="Oldest">{waitedFor(queue) ?? "–"}</Fact>
            <Fact name="Workers">{queue.workers}</Fact>
          </dl>
        </>
      )}
      {rows.length > 0 && (
        <div class="table-box">
          <WorkerTable rows={rows} hrefOf={(worker) => href({ view: "workers", name: worker.id, query: here() })} />
        </div>
      )}
    </section>
  );
}
