import type { ComponentChildren } from "preact";
import type { RunRecord } from "../data/records";
import { actRefusal } from "../data/session";
import { isOpen } from "../model/run";
import { Icon, type IconName } from "../parts/Icon";
import { ask } from "./Action";
import { CancelDialog } from "./cancel";
import { RenewDialog } from "./renew";
import { RetryDialog } from "./retry";
import { SignalDialog } from "./signal";
import { TerminateDialog } from "./terminate";

interface Verb {
  readonly label: string;
  /** The name of the button in a row, before the id. */
  readonly inRow: string;
  readonly icon: IconName;
  readonly dialog: (run: RunRecord) => ComponentChildren;
  readonly refusal: (run: RunRecord) => string | null;
}

const may = (): string | null => actRefusal.value;
const SIGNAL: Verb = {
  label: "Signal",
  inRow: "Signal",
  icon: "signal",
  dialog: (run) => <SignalDialog run={run} />,
  refusal: may,
};
const CANCEL: Verb = {
  label: "Cancel",
  inRow: "Cancel",
  icon: "cancel",
  dialog: (run) => <CancelDialog run={run} />,
  refusal: may,
};
const TERMINATE: Verb = {
  label: "Terminate",
  inRow: "Terminate",
  icon: "terminate",
  dialog: (run) => <TerminateDialog run={run} />,
  refusal: may,
};
const CONTINUE: Verb = {
  label: "Continue as new",
  inRow: "Continue as new",
  icon: "right",
  dialog: (run) => <RenewDialog run={run} />,
  refusal: may,
};
const RENEW: Verb = {
  label: "Start new run",
  inRow: "Start new run of",
  icon: "plus",
  dialog: (run) => <RenewDialog run={run} />,
  refusal: may,
};
const RETRY: Verb = {
  label: "Retry",
  inRow: "Retry",
  icon: "retry",
  dialog: (run) => <RetryDialog run={run} />,
  refusal: (run) => may() ?? (run.retryable ? null : (run.retry_refusal ?? "This run cannot be retried.")),
};

const inRow = (run: RunRecord): readonly Verb[] => (isOpen(run) ? [SIGNAL, CANCEL, TERMINATE] : [RETRY, RENEW]);
const onPage = (run: RunRecord): readonly Verb[] =>
  isOpen(run) ? [SIGNAL, CANCEL, TERMINATE, CONTINUE] : [RENEW, RETRY];

/** The buttons of a row: small, named by the verb and the id. */
export const RowActions = ({ run }: { readonly run: RunRecord }) => (
  <>
    {inRow(run).map((verb) => (
      <button
        key={verb.label}
        type="button"
        class="icon-button"
        aria-label={`${verb.inRow} ${run.workflow_id}`}
        title={verb.refusal(run) ?? verb.label}
        disabled={verb.refusal(run) !== null}
        onClick={() => ask(verb.dialog(run))}
      >
        <Icon name={verb.icon} />
      </button>
    ))}
  </>
);

/** The buttons of a run's page. */
export const PageActions = ({ run }: { readonly run: RunRecord }) => (
  <>
    {onPage(run).map((verb) => (
      <button
        key={verb.label}
        type="button"
        class="button"
        title={verb.refusal(run) ?? undefined}
        disabled={verb.refusal(run) !== null}
        onClick={() => ask(verb.dialog(run))}
      >
        {verb.label}
      </button>
    ))}
  </>
);

/** The button beside a failure. */
export const RetryButton = ({ run }: { readonly run: RunRecord }) =>
  RETRY.refusal(run) === null ? (
    <button type="button" class="button" onClick={() => ask(RETRY.dialog(run))}>
      Retry…
    </button>
  ) : null;

const KEYS: readonly (readonly [string, Verb])[] = [
  ["s", SIGNAL],
  ["c", CANCEL],
  ["Shift+t", TERMINATE],
  ["e", RETRY],
  ["m", CONTINUE],
  ["m", RENEW],
];

/** Returns the shortcuts of the actions that a run allows now. */
export function actionKeys(run: RunRecord | undefined): { keys: string; label: string; run: () => void }[] {
  if (run === undefined) return [];
  const verbs = onPage(run);
  return KEYS.filter(([, verb]) => verbs.includes(verb) && verb.refusal(run) === null).map(([keys, verb]) => ({
    keys,
    label: verb.label,
    run: () => ask(verb.dialog(run)),
  }));
}
