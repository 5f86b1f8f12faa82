import type { QueueStats } from "../../data/records";
import { waitingWords } from "../../model/queue";
import { CopyButton } from "../../parts/Copy";
import { Empty } from "../../parts/Window";
import { here, href } from "../../router";

interface Props {
  readonly ns: string;
  readonly waiting: readonly QueueStats[];
}

/** In place of the table: how to start a worker, and which queues wait for one. */
export function NoWorkers({ ns, waiting }: Props) {
  const command = `assay${ns === "main" ? "" : ` --namespace ${ns}`} run workflows.py`;
  return (
    <Empty title={`No worker in namespace ${ns}.`}>
      <p class="muted">A worker runs the workflows and activities of a file:</p>
      <p class="command">
        <code>{command}</code>
        <CopyButton text={command} label="Copy" iconOnly />
      </p>
      {waiting.map((queue) => (
        <p key={queue.queue} class="muted">
          <a href={href({ view: "queues", name: queue.queue, query: here() })}>{queue.queue}</a>: {waitingWords(queue)}{" "}
          waiting
        </p>
      ))}
    </Empty>
  );
}
