import type { ComponentChildren } from "preact";
import type { RunRecord, Wait, WaitingOn } from "../../data/records";
import { firstLine, title } from "../../model/failure";
import { badgeOf, isOpen } from "../../model/run";
import { duration } from "../../model/times";
import { Sentence } from "../../parts/Why";

interface Props {
  readonly run: RunRecord;
  /** The one button that helps, for the kind of the headline. */
  readonly help: (wait: Wait | null, waiting: WaitingOn) => ComponentChildren;
}

/** Why a run is open, or how it ended: the sentence that comes first on its page. */
export function WhyLine({ run, help }: Props) {
  const waiting = run.waiting_on;
  if (!isOpen(run)) return <Ended run={run} />;
  if (waiting === null) return null;
  const text = waiting.summary ?? (waiting.signal === null ? "" : `Waits for signal '${waiting.signal}'.`);
  const headline = waiting.waits?.[0] ?? null;
  const others = (waiting.waits ?? []).slice(1);
  return (
    <section class={`why attention-${waiting.attention ?? "none"}`} aria-label="Waiting on">
      <div class="why-line">
        <p data-testid="why" data-kind={waiting.kind ?? "signal"} data-attention={waiting.attention ?? "none"}>
          <Sentence text={text} told={{ ...waiting, ...(headline ?? {}) }} />
        </p>
        {help(headline, waiting)}
      </div>
      {others.length > 0 && (
        <details class="why-more">
          <summary>and {others.length + (waiting.more ?? 0)} more</summary>
          <ul>
            {others.map((wait) => (
              <li key={wait.sentence}>
                <Sentence
                  text={wait.sentence}
                  told={{ ...wait, signal: null, ...(waiting.as_of === undefined ? {} : { as_of: waiting.as_of }) }}
                />
              </li>
            ))}
          </ul>
        </details>
      )}
    </section>
  );
}

function Ended({ run }: { readonly run: RunRecord }) {
  const badge = badgeOf(run);
  const lasted = run.completed_at === null ? "" : ` after ${duration(run.completed_at - run.created_at)}`;
  const failure = run.failure;
  const error = failure === null ? firstLine(run.error ?? "") : `${title(failure)}: ${firstLine(failure.message)}`;
  return (
    <section class={`why ended tone-${badge.tone}`} aria-label="Outcome">
      <p data-testid="why" data-kind="closed" data-attention="none">
        {badge.word}
        {lasted}.{error !== "" && ` ${error}`}
      </p>
    </section>
  );
}
