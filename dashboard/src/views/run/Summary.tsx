import { RetryButton } from "../../actions/RunActions";
import type { ComponentChildren } from "preact";
import { now } from "../../data/clock";
import type { RunRecord } from "../../data/records";
import type { Doc } from "../../json/parse";
import { JsonViewer } from "../../json/Viewer";
import { isOpen } from "../../model/run";
import { duration, span } from "../../model/times";
import { Time } from "../../parts/Time";
import { Sentence } from "../../parts/Why";
import { FailureCard } from "./FailureCard";
import { TimeSpent } from "./TimeSpent";
import type { TabProps } from "./tabs";

/** What matters of a run on one screen: the failure, the waits, the facts, input and result. */
export function Summary({ run, isPanel }: TabProps) {
  const waits = run.waiting_on?.waits ?? [];
  return (
    <div class="summary">
      {run.failure !== null && !isOpen(run) && (
        <FailureCard failure={run.failure} actions={<RetryButton run={run} />} />
      )}
      {waits.length > 1 && (
        <section class="card" aria-label="All waits">
          <h3>Waits</h3>
          <ul class="waits">
            {waits.map((wait) => (
              <li key={wait.sentence} class={`attention-${wait.attention}`}>
                <Sentence
                  text={wait.sentence}
                  told={{
                    ...wait,
                    signal: null,
                    ...(run.waiting_on?.as_of === undefined ? {} : { as_of: run.waiting_on.as_of }),
                  }}
                />
              </li>
            ))}
          </ul>
        </section>
      )}
      <TimeSpent run={run} isPanel={isPanel} />
      <section class="card" aria-label="Facts">
        <dl class="facts-list">{factsOf(run)}</dl>
      </section>
      <div class="documents-pair">
        <Short title="Input" doc={run.input} />
        <Short title="Result" doc={run.result} />
      </div>
    </div>
  );
}

const Short = ({ title, doc }: { readonly title: string; readonly doc: Doc | undefined }) => (
  <section class="card" aria-label={title}>
    <h3>{title}</h3>
    {doc === undefined || doc.isNull ? (
      <p class="muted">–</p>
    ) : (
      <div class="folded-lines">
        <JsonViewer doc={doc} name={title} />
      </div>
    )}
  </section>
);

const Fact = ({ name, children }: { readonly name: string; readonly children: ComponentChildren }) => (
  <div>
    <dt>{name}</dt>
    <dd>{children}</dd>
  </div>
);

function factsOf(run: RunRecord): ComponentChildren {
  const deadline = run.run_timeout === null ? null : run.created_at + run.run_timeout;
  const left = deadline === null || !isOpen(run) ? "" : ` (${span(deadline - now.value, true)} left)`;
  return (
    <>
      <Fact name="Type">
        <span class="mono">{run.workflow_type}</span>
      </Fact>
      <Fact name="Queue">
        <span class="mono">{run.task_queue}</span>
      </Fact>
      <Fact name="Run">
        <code class="run-id">{run.run_id}</code>
      </Fact>
      <Fact name="Created">
        <Time at={run.created_at} as="stamp" />
      </Fact>
      {run.completed_at !== null && (
        <Fact name="Closed">
          <Time at={run.completed_at} as="stamp" /> ({duration(run.completed_at - run.created_at)})
        </Fact>
      )}
      <Fact name="Attempt">{run.attempt}</Fact>
      {run.run_timeout !== null && (
        <Fact name="Time-out">
          {duration(run.run_timeout)}
          {left}
        </Fact>
      )}
      {run.retry_policy !== null && (
        <Fact name="Retry policy">
          {run.retry_policy.maximum_attempts || "unlimited"} attempts, first after{" "}
          {duration(run.retry_policy.initial_interval)}
        </Fact>
      )}
      {run.cron_schedule !== null && <Fact name="Cron">{run.cron_schedule}</Fact>}
      {run.summary !== null && <Fact name="Summary">{run.summary}</Fact>}
      {run.details !== null && <Fact name="Details">{run.details}</Fact>}
      <Fact name="History">{run.history_length.toLocaleString("en")} events</Fact>
      {run.engine_version !== null && <Fact name="Engine">{run.engine_version}</Fact>}
      {run.search_attributes && !run.search_attributes.isNull && (
        <Fact name="Search attributes">
          <code>{run.search_attributes.text}</code>
        </Fact>
      )}
    </>
  );
}
