import { Fragment } from "preact";
import { useState } from "preact/hooks";
import type { ActivityWithAttempts, Attempt, RunRecord } from "../../data/records";
import { type Resource, useResource } from "../../data/resource";
import { readActivities } from "../../data/runs";
import { JsonViewer } from "../../json/Viewer";
import { firstLine } from "../../model/failure";
import { duration } from "../../model/times";
import { Problem } from "../../parts/Problem";
import { Lasted, Time } from "../../parts/Time";
import { Empty } from "../../parts/Window";
import { namespace, route, setQuery } from "../../router";
import { FailureCard } from "./FailureCard";
import type { TabProps } from "./tabs";

/** Returns the activities of a run with their attempts; read again with every event of the run. */
export function useActivities(run: RunRecord): Resource<readonly ActivityWithAttempts[]> {
  const ns = namespace.value;
  const key = JSON.stringify([
    "activities",
    ns,
    run.run_id,
    run.history_length,
    run.waiting_on?.kind,
    run.waiting_on?.until,
  ]);
  return useResource(key, (signal) => readActivities(ns, run.workflow_id, run.run_id, signal));
}

interface Row {
  readonly key: string;
  readonly activity: ActivityWithAttempts;
  readonly attempt: Attempt;
  readonly queued: number | null;
}

const GLYPHS: Readonly<Record<string, string>> = {
  completed: "✓",
  failed: "✕",
  lost: "✕",
  timed_out: "⧖",
  cancelled: "⊘",
  running: "⟳",
};

function rowsOf(activities: readonly ActivityWithAttempts[]): readonly Row[] {
  return activities.flatMap((activity) =>
    activity.attempts.map((attempt, index): Row => {
      const before = index === 0 ? activity.scheduled_at : null;
      const queued = before === null || attempt.started_at === null ? null : attempt.started_at - before;
      return { key: `${activity.id} ${attempt.attempt}`, activity, attempt, queued };
    }),
  );
}

/** Every attempt of every activity, one per row. */
export function Attempts({ run }: TabProps) {
  const { value, error } = useActivities(run).state.value;
  const [onlyFailed, setOnlyFailed] = useState(false);
  const chosen = route.value.query["attempt"] ?? "";
  if (error && !value) return <Problem problem={error} />;
  if (!value) return <div aria-busy="true" />;
  const rows = rowsOf(value).filter((row) => !onlyFailed || !["completed", "running"].includes(row.attempt.outcome));
  return (
    <div class="attempts">
      <label class="check">
        <input type="checkbox" checked={onlyFailed} onChange={(event) => setOnlyFailed(event.currentTarget.checked)} />{" "}
        Failed only
      </label>
      {rows.length === 0 ? (
        <Empty title={value.length === 0 ? "No activity has been scheduled." : "No attempt matches."} />
      ) : (
        <div class="table-box">
          <table class="table attempts-table" aria-label="Attempts">
            <thead>
              <tr>
                {["Activity", "Attempt", "Outcome", "Worker", "Queued", "Ran", "Started", "Error"].map((header) => (
                  <th key={header} scope="col">
                    {header}
                  </th>
                ))}
              </tr>
            </thead>
            <tbody>
              {rows.map((row) => (
                <Fragment key={row.key}>
                  <AttemptRow row={row} isChosen={chosen === row.key} />
                  {chosen === row.key && <AttemptDetail row={row} />}
                </Fragment>
              ))}
            </tbody>
          </table>
        </div>
      )}
    </div>
  );
}

function AttemptRow({ row, isChosen }: { readonly row: Row; readonly isChosen: boolean }) {
  const { activity, attempt, queued } = row;
  const choose = (): void => setQuery({ attempt: isChosen ? "" : row.key });
  const bad = !["completed", "running", "cancelled"].includes(attempt.outcome);
  return (
    <tr data-testid="attempt-row" data-outcome={attempt.outcome} class={isChosen ? "current" : ""} onClick={choose}>
      <td class="mono">
        <button
          type="button"
          class="plain"
          aria-expanded={isChosen}
          onClick={(event) => (event.stopPropagation(), choose())}
        >
          {activity.name}
        </button>
      </td>
      <td class="digits">{attempt.attempt}</td>
      <td class={bad ? "outcome-bad" : attempt.outcome === "completed" ? "outcome-good" : ""}>
        {GLYPHS[attempt.outcome] ?? "·"} {attempt.outcome.replace("_", " ")}
      </td>
      <td class="mono">{attempt.identity ?? attempt.worker ?? "–"}</td>
      <td class="digits">{queued === null ? "–" : duration(queued)}</td>
      <td class="digits">
        {attempt.started_at === null ? "–" : <Lasted from={attempt.started_at} to={attempt.ended_at} />}
      </td>
      <td class="digits">{attempt.started_at === null ? "–" : <Time at={attempt.started_at} as="brief" />}</td>
      <td title={attempt.failure?.message}>{attempt.failure ? firstLine(attempt.failure.message) : ""}</td>
    </tr>
  );
}

function AttemptDetail({ row: { activity, attempt } }: { readonly row: Row }) {
  return (
    <tr class="detail-row">
      <td colSpan={8}>
        {attempt.failure && <FailureCard failure={attempt.failure} />}
        <h3>Input</h3>
        <JsonViewer doc={activity.input} name={`Input of ${activity.name}`} />
        {activity.result && !activity.result.isNull && attempt.outcome === "completed" && (
          <>
            <h3>Result</h3>
            <JsonViewer doc={activity.result} name={`Result of ${activity.name}`} />
          </>
        )}
      </td>
    </tr>
  );
}
