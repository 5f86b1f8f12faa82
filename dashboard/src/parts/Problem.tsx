import { now } from "../data/clock";
import type { ApiProblem } from "../data/client";
import { clock, span } from "../model/times";
import { CopyButton } from "./Copy";

interface Props {
  readonly problem: ApiProblem;
  readonly retry?: () => void;
}

/** An error in place of data: the engine's sentence, its code, and what one can do. */
export function Problem({ problem, retry }: Props) {
  return (
    <div class="problem" role="alert">
      <p class="problem-sentence">{problem.message}</p>
      <p class="muted">
        <code>{problem.code}</code>
      </p>
      <div class="row">
        {retry && (
          <button type="button" class="button" onClick={retry}>
            Try again
          </button>
        )}
        <CopyButton text={problem.details} label="Copy details" />
      </div>
    </div>
  );
}

/** A thin bar above data that could not be read again. */
export function Stale({ at, retryAt }: { readonly at: number; readonly retryAt: number | null }) {
  const again = retryAt === null ? "" : ` Trying again in ${span(retryAt / 1_000 - now.value, true)}.`;
  return (
    <p class="stale" role="status">
      Shown as of {clock(at / 1_000)}.{again}
    </p>
  );
}
