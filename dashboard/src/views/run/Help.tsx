import { ask } from "../../actions/Action";
import { SignalDialog } from "../../actions/signal";
import type { RunRecord, Wait, WaitingOn } from "../../data/records";
import { actRefusal } from "../../data/session";
import { here, href, runHref, setQuery } from "../../router";
import { TABS } from "./tabs";

interface Props {
  readonly run: RunRecord;
  readonly wait: Wait | null;
  readonly waiting: WaitingOn;
}

const text = (wait: Wait | null, name: string): string => (typeof wait?.[name] === "string" ? wait[name] : "");

/** The one button that helps with what a run waits for. */
export function Help({ run, wait, waiting }: Props) {
  const kind = waiting.kind ?? "signal";
  if (kind === "signal" && waiting.signal !== null) {
    const name = waiting.signal;
    return (
      <button
        type="button"
        class="button"
        disabled={actRefusal.value !== null}
        title={actRefusal.value ?? undefined}
        onClick={() => ask(<SignalDialog run={run} name={name} />)}
      >
        Send signal…
      </button>
    );
  }
  if (kind === "no_worker" || kind === "no_handler" || kind.endsWith("_queued")) {
    const queue = text(wait, "queue") || run.task_queue;
    return (
      <a class="button" href={href({ view: "queues", name: queue, query: here() })}>
        Show queue
      </a>
    );
  }
  if (kind === "child" && text(wait, "child_workflow_id") !== "") {
    return (
      <a class="button" href={runHref(text(wait, "child_workflow_id"), text(wait, "child_run_id"))}>
        Open child
      </a>
    );
  }
  if (kind.startsWith("activity_") && TABS.some((tab) => tab.id === "attempts")) {
    return (
      <button type="button" class="button" onClick={() => setQuery({ tab: "attempts" })}>
        Show attempts
      </button>
    );
  }
  return null;
}
