import { useMemo } from "preact/hooks";
import { now } from "../../data/clock";
import { useHistory } from "../../data/history";
import { timeSpent } from "../../model/duration";
import { itemsOf } from "../../model/items";
import { isOpen } from "../../model/run";
import { duration } from "../../model/times";
import { namespace } from "../../router";
import { useActivities } from "./Attempts";
import type { TabProps } from "./tabs";

const SHOWN = 5;
const percent = (share: number): string => `${Math.round(share * 100)} %`;

/** One bar and a list: which part of a run's time went where. */
export function TimeSpent({ run }: TabProps) {
  const history = useHistory(namespace.value, run.workflow_id, run.run_id, run.history_length);
  const activities = useActivities(run).state.value.value ?? [];
  const end = run.completed_at ?? (isOpen(run) ? Math.floor(now.value) : run.updated_at);
  const shares = useMemo(
    () => timeSpent(itemsOf(history.events, activities), run.created_at, Math.max(end, run.created_at)),
    [history.events, activities, end],
  );
  const total = end - run.created_at;
  if (!history.isComplete || total <= 0) return null;
  const shown = shares.slice(0, SHOWN);
  const rest = shares.slice(SHOWN).reduce((sum, share) => sum + share.share, 0);
  return (
    <section class="card" aria-label="Where the time went">
      <h3>Where the time went · {duration(total)}</h3>
      <div class="spent" aria-hidden="true">
        {shown.map((share) => (
          <span
            key={share.label}
            class={`spent-${share.category}`}
            style={{ width: `${share.share * 100}%` }}
            title={share.label}
          />
        ))}
      </div>
      <ul class="spent-list">
        {shown.map((share) => (
          <li key={share.label}>
            <span class={`spent-key spent-${share.category}`} aria-hidden="true" />
            <b class="digits">{percent(share.share)}</b> {share.label}{" "}
            <span class="muted">({duration(share.seconds)})</span>
          </li>
        ))}
        {rest > 0.005 && (
          <li class="muted">
            <b class="digits">{percent(rest)}</b> other things
          </li>
        )}
      </ul>
    </section>
  );
}
