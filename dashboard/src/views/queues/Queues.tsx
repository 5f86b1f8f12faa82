import { now } from "../../data/clock";
import { get } from "../../data/client";
import type { QueueStats } from "../../data/records";
import { useEvery, useResource } from "../../data/resource";
import { useView } from "../../frame/view";
import { isUnserved, pendingOf, queueSentence, waitingWords } from "../../model/queue";
import { duration, span } from "../../model/times";
import { Problem, Stale } from "../../parts/Problem";
import { Empty } from "../../parts/Window";
import { here, href, namespace, route } from "../../router";
import { ListHead } from "../Head";
import { QueuePage } from "./Queue";

const READ_MS = 5_000;
const HEADERS = ["Queue", "Pending", "Running", "Oldest", "Workers"];

export function useQueues(ns: string) {
  const queues = useResource(
    `queues ${ns}`,
    async (signal) => (await get<QueueStats[]>(["queues"], { namespace: ns }, signal)).value,
  );
  useEvery(queues, READ_MS);
  return queues;
}

/** Returns how long the oldest work of a queue has waited, in words. */
export const waitedFor = (queue: QueueStats): string | null =>
  queue.oldest_pending_at === null ? null : span(now.value - queue.oldest_pending_at);

export function View() {
  const shown = route.value;
  const name = "name" in shown ? shown.name : null;
  return name === null ? <QueueList /> : <QueuePage key={name} name={name} />;
}

function QueueList() {
  const queues = useQueues(namespace.value);
  const { value, error, at, retryAt } = queues.state.value;
  useView("Queues", value === undefined ? (error ? "error" : "loading") : value.length === 0 ? "empty" : "ready");
  return (
    <section class="page">
      <ListHead title="Queues" />
      {error && value && <Stale at={at} retryAt={retryAt} />}
      {error && !value && <Problem problem={error} retry={() => void queues.refresh()} />}
      {value && (
        <div class="table-box">
          {value.length === 0 ? <Empty title="No queue has work or workers." /> : <QueueTable rows={value} />}
        </div>
      )}
    </section>
  );
}

const QueueTable = ({ rows }: { readonly rows: readonly QueueStats[] }) => (
  <table class="table queues" aria-label="Queues">
    <thead>
      <tr>
        {HEADERS.map((header) => (
          <th key={header} scope="col" class={header === "Queue" || header === "Workers" ? "" : "number"}>
            {header}
          </th>
        ))}
      </tr>
    </thead>
    <tbody>
      {rows.map((queue) => (
        <tr key={queue.queue} data-testid="queue-row" data-name={queue.queue}>
          <td data-label="Queue">
            <a class="id" href={href({ view: "queues", name: queue.queue, query: here() })}>
              {queue.queue}
            </a>
          </td>
          <td data-label="Pending" class="number digits" title={waitingWords(queue)}>
            {pendingOf(queue)}
          </td>
          <td data-label="Running" class="number digits">
            {queue.running_activities}
          </td>
          <td data-label="Oldest" class="number digits">
            {queue.oldest_pending_at === null ? "–" : duration(Math.max(now.value - queue.oldest_pending_at, 0))}
          </td>
          <td data-label="Workers" class="wrap">
            <Served queue={queue} />
          </td>
        </tr>
      ))}
    </tbody>
  </table>
);

/** The number of workers, or a warning with its sentence. */
function Served({ queue }: { readonly queue: QueueStats }) {
  if (!isUnserved(queue)) return <span class="digits">{queue.workers}</span>;
  return (
    <>
      <span class="status shape-soft tone-yellow">
        <span class="status-glyph" aria-hidden="true">
          ▲
        </span>
        No worker
      </span>{" "}
      <span class="muted">{queueSentence(queue, waitedFor(queue))}</span>
    </>
  );
}
