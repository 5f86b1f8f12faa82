import type { ComponentChildren } from "preact";
import { version } from "../../data/session";
import type { RunRecord } from "../../data/records";
import type { Chain } from "../../data/runs";
import { isOpen } from "../../model/run";
import { CopyButton } from "../../parts/Copy";
import { Icon } from "../../parts/Icon";
import { Status } from "../../parts/Status";
import { Time } from "../../parts/Time";
import { here, href, runHref } from "../../router";

interface Props {
  readonly run: RunRecord;
  readonly chain: Chain | undefined;
  readonly isPanel: boolean;
  readonly onRun: (runId: string) => void;
  readonly actions: ComponentChildren;
}

/** The id, the actions, and the facts by which one recognises a run. */
export function Header({ run, chain, isPanel, onRun, actions }: Props) {
  const Title = isPanel ? "h2" : "h1";
  return (
    <header class="run-head">
      <div class="run-title">
        {!isPanel && (
          <a class="back" href={href({ view: "workflows", query: here() })}>
            <Icon name="left" />
            Workflows
          </a>
        )}
        <Title class="id">{run.workflow_id}</Title>
        <CopyButton text={run.workflow_id} label="Copy id" iconOnly />
        <span class="spacer" />
        <div class="run-actions">{actions}</div>
      </div>
      <p class="facts">
        <Status run={run} testId />
        <span class="mono">{run.workflow_type}</span>
        <span>
          queue <span class="mono">{run.task_queue}</span>
        </span>
        <span>
          started <Time at={run.created_at} as="stamp" /> (<Time at={run.created_at} />)
        </span>
        <ChainLinks run={run} chain={chain} onRun={onRun} />
        {run.parent_id !== null && (
          <span>
            parent <a href={runHref(run.parent_id, run.parent_run_id)}>{run.parent_id}</a>
          </span>
        )}
        {run.schedule !== null && (
          <span>
            schedule <a href={href({ view: "schedules", name: run.schedule, query: here() })}>{run.schedule}</a>
          </span>
        )}
        <Badges run={run} />
      </p>
    </header>
  );
}

function ChainLinks({ run, chain, onRun }: Pick<Props, "run" | "chain" | "onRun">) {
  const runs = chain?.runs ?? [];
  const at = runs.findIndex((one) => one.run_id === run.run_id);
  const older = at < 0 ? undefined : runs[at + 1];
  const newer = at <= 0 ? undefined : runs[at - 1];
  const step = (to: RunRecord | undefined, label: string, icon: "left" | "right") => (
    <button
      type="button"
      class="icon-button small"
      aria-label={label}
      title={label}
      disabled={!to}
      onClick={() => to && onRun(to.run_id)}
    >
      <Icon name={icon} />
    </button>
  );
  return (
    <span class="chain">
      run <code class="run-id">{run.run_id}</code>
      {chain && chain.total > 1 && at >= 0 && (
        <>
          {step(older, "Previous run", "left")}
          <span class="digits">
            {chain.total - at} of {chain.total}
          </span>
          {step(newer, "Next run", "right")}
        </>
      )}
    </span>
  );
}

function Badges({ run }: { readonly run: RunRecord }) {
  const limit = version.value?.limits["history_events"] ?? 0;
  const isLong = limit > 0 && run.history_length >= 0.8 * limit;
  return (
    <>
      {run.cancel_requested && isOpen(run) && <span class="badge">cancel requested</span>}
      {run.archived_at !== null && <span class="badge">archived</span>}
      {isLong && (
        <span class="badge tone-orange" title="Consider continue-as-new">
          history {run.history_length.toLocaleString("en")} of {limit.toLocaleString("en")} events
        </span>
      )}
    </>
  );
}
