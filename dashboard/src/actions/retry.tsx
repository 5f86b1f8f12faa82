import { useState } from "preact/hooks";
import type { EventRecord, RetryAnswer } from "../data/records";
import { useResource } from "../data/resource";
import { readEvents } from "../data/runs";
import { userName } from "../data/session";
import { assayCommand } from "../model/command";
import { field } from "../model/history";
import { go, here, runHref } from "../router";
import { Action } from "./Action";
import { TextField, objectText, textOrNull } from "./fields";
import { type Target, counted, runQuery } from "./target";

interface Reuse {
  readonly activity: string | null;
  readonly results: number;
}

const isResult = (event: EventRecord): boolean => /^(Activity|Step|ChildWorkflow)Completed$/.test(event.event_type);

/** Reads the last failed activity of a run, and how many results come before it. */
async function reuseOf(run: Target, signal: AbortSignal): Promise<Reuse> {
  const events: EventRecord[] = [];
  for (let more = true; more;) {
    const page = await readEvents(run.namespace, run.workflow_id, run.run_id, events.at(-1)?.seq ?? 0, 1_000, signal);
    events.push(...page.events);
    more = page.events.length > 0 && events.length < page.total;
  }
  const failed = events.findLastIndex((event) => event.event_type === "ActivityFailed");
  const kept = failed < 0 ? events : events.slice(0, failed);
  return {
    activity: failed < 0 ? null : field(events[failed] as EventRecord, "name"),
    results: kept.filter(isResult).length,
  };
}

export function RetryDialog({ run }: { readonly run: Target }) {
  const [reason, setReason] = useState("");
  const found = useResource(JSON.stringify(["reuse", run.run_id]), (signal) => reuseOf(run, signal)).state.value;
  const { activity = null, results = 0 } = found.value ?? {};
  const id = run.workflow_id;
  const who = userName() ?? "dashboard";
  const reused = `${counted(results, "result")} ${results === 1 ? "is" : "are"} reused`;
  if (found.value === undefined && found.error === null) return null;
  return (
    <Action
      title={activity === null ? `Retry ${id}?` : `Retry ${id} from ${activity}?`}
      verb="Retry run"
      keep="Close"
      refusal={reason.trim() === "" ? "Give a reason; it is recorded." : null}
      request={{
        method: "POST",
        parts: ["workflows", id, "retry"],
        query: runQuery(run),
        body: objectText({ requested_by: JSON.stringify(who), reason: textOrNull(reason) }),
      }}
      command={assayCommand(["workflow", "retry", id], { reason: reason.trim(), "run-id": run.run_id }, run.namespace)}
      done={(answer) => {
        const retried = answer as RetryAnswer;
        go({ view: "run", id, query: here({ run: retried.run_id }) });
        return {
          text: `Retried ${id} as run ${retried.run_id}.`,
          link: { href: runHref(id, retried.run_id), label: "Open" },
        };
      }}
    >
      <p>
        {activity === null
          ? `A new run takes over the history up to the close: ${reused}, the code goes on from there.`
          : `A new run takes over the history up to the last failure of ${activity}: ${reused}, ${activity} runs again from attempt 1.`}
      </p>
      <TextField label="Reason" value={reason} onChange={setReason} isRequired />
    </Action>
  );
}
