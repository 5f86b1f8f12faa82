import { now } from "../../data/clock";
import type { WorkerRecord } from "../../data/records";
import { loadOf, namesInShort, stateOf } from "../../model/worker";
import { Bar } from "../../parts/Bar";
import { Time } from "../../parts/Time";
import { here, href } from "../../router";

interface Props {
  readonly rows: readonly WorkerRecord[];
  readonly hrefOf: (worker: WorkerRecord) => string;
}

const HEADERS = ["State", "Identity", "ID", "Queue", "Active", "Types", "Last heartbeat"];

/** How a worker is: glyph, word and colour. */
export function WorkerStateBadge({ worker }: { readonly worker: WorkerRecord }) {
  const state = stateOf(worker, now.value);
  return (
    <span class={`status shape-plain tone-${state.tone}`} data-state={state.word}>
      <span class="status-glyph" aria-hidden="true">
        {state.glyph}
      </span>
      {state.word}
    </span>
  );
}

const typesOf = (worker: WorkerRecord): string =>
  `${namesInShort(worker.workflows)} · ${namesInShort(worker.activities)}`;

export const WorkerTable = ({ rows, hrefOf }: Props) => (
  <table class="table workers" aria-label="Workers">
    <thead>
      <tr>
        {HEADERS.map((header) => (
          <th key={header} scope="col">
            {header}
          </th>
        ))}
      </tr>
    </thead>
    <tbody>
      {rows.map((worker) => {
        const load = loadOf(worker);
        return (
          <tr key={worker.id} data-testid="worker-row" data-id={worker.id}>
            <td data-label="State">
              <WorkerStateBadge worker={worker} />
            </td>
            <td data-label="Identity" class="mono" title={worker.identity}>
              {worker.identity || "–"}
            </td>
            <td data-label="ID">
              <a class="id" href={hrefOf(worker)} title={worker.id}>
                {worker.id}
              </a>
            </td>
            <td data-label="Queue">
              <a class="mono" href={href({ view: "queues", name: worker.task_queue, query: here() })}>
                {worker.task_queue}
              </a>
            </td>
            <td data-label="Active">
              <Bar part={load.active} whole={load.most} />
            </td>
            <td data-label="Types" class="mono" title={typesOf(worker)}>
              {typesOf(worker)}
            </td>
            <td data-label="Last heartbeat">
              <Time at={worker.last_heartbeat} />
            </td>
          </tr>
        );
      })}
    </tbody>
  </table>
);
