import type { WorkerRecord } from "../../data/records";
import { useView } from "../../frame/view";
import { pendingOf, waitingWords } from "../../model/queue";
import { loadOf } from "../../model/worker";
import { Bar } from "../../parts/Bar";
import { CopyButton } from "../../parts/Copy";
import { Problem } from "../../parts/Problem";
import { Time } from "../../parts/Time";
import { Empty } from "../../parts/Window";
import { here, href, namespace } from "../../router";
import { DetailHead, Fact } from "../Head";
import { WorkerStateBadge } from "./WorkerTable";
import { type Roster, useRoster } from "./Workers";

/** The page of one worker: its limits, what it serves, and what waits for it. */
export function WorkerPage({ id }: { readonly id: string }) {
  const roster = useRoster(namespace.value);
  const { value, error } = roster.state.value;
  const worker = value?.workers.find((one) => one.id === id);
  useView(id, value === undefined ? (error ? "error" : "loading") : worker === undefined ? "empty" : "ready");
  return (
    <section class="page">
      <DetailHead view="workers" list="Workers" name={id}>
        <CopyButton text={id} label="Copy id" iconOnly />
      </DetailHead>
      {error && !value && <Problem problem={error} retry={() => void roster.refresh()} />}
      {value && worker && <Facts worker={worker} roster={value} />}
      {value && !worker && (
        <div class="table-box">
          <Empty title="This worker is not connected.">
            <p class="muted">A worker is listed until 90 s after its last heartbeat.</p>
          </Empty>
        </div>
      )}
    </section>
  );
}

function waitingFor(worker: WorkerRecord, roster: Roster): string {
  const queue = roster.queues.find((one) => one.queue === worker.task_queue);
  if (queue === undefined || pendingOf(queue) === 0) return "Serves nothing that waits.";
  return `${waitingWords(queue)} ${pendingOf(queue) === 1 ? "waits" : "wait"} in its queue.`;
}

function Facts({ worker, roster }: { readonly worker: WorkerRecord; readonly roster: Roster }) {
  const load = loadOf(worker);
  return (
    <>
      <p class="lead">{waitingFor(worker, roster)}</p>
      <dl class="card facts-list">
        <Fact name="State">
          <WorkerStateBadge worker={worker} />
        </Fact>
        <Fact name="Identity">
          <span class="mono">{worker.identity || "–"}</span>
        </Fact>
        <Fact name="Queue">
          <a class="mono" href={href({ view: "queues", name: worker.task_queue, query: here() })}>
            {worker.task_queue}
          </a>
        </Fact>
        <Fact name="Active">
          <Bar part={load.active} whole={load.most} />
        </Fact>
        <Fact name="Limits">
          {worker.max_concurrent_workflows} workflow tasks, {worker.max_concurrent_activities} activities
        </Fact>
        <Fact name="Registered">
          <Time at={worker.registered_at} as="stamp" />
        </Fact>
        <Fact name="Last heartbeat">
          <Time at={worker.last_heartbeat} />
        </Fact>
        {worker.abandoned_threads > 0 && <Fact name="Abandoned threads">{worker.abandoned_threads}</Fact>}
      </dl>
      <div class="columns">
        <Names title="Workflow types" names={worker.workflows} filter />
        <Names title="Activities" names={worker.activities} />
      </div>
    </>
  );
}

interface NamesProps {
  readonly title: string;
  readonly names: readonly string[] | null;
  /** Whether a name leads to the runs of its type. */
  readonly filter?: boolean;
}

const Names = ({ title, names, filter = false }: NamesProps) => (
  <section class="card">
    <h2>{title}</h2>
    {names === null && <p class="muted">All that come.</p>}
    {names?.length === 0 && <p class="muted">None.</p>}
    <p class="chips">
      {(names ?? []).map((name) =>
        filter ? (
          <a key={name} class="badge mono" href={href({ view: "workflows", query: here({ type: name }) })}>
            {name}
          </a>
        ) : (
          <span key={name} class="badge mono">
            {name}
          </span>
        ),
      )}
    </p>
  </section>
);
