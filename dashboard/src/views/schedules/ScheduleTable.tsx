import type { ComponentChildren } from "preact";
import { ask } from "../../actions/Action";
import { BackfillDialog, DeleteScheduleDialog, PauseDialog, TriggerDialog, resumed } from "../../actions/schedules";
import { ApiProblem, newKey, send } from "../../data/client";
import { notify } from "../../data/notices";
import type { RunRecord, ScheduleRecord } from "../../data/records";
import { actRefusal } from "../../data/session";
import { badgeOf } from "../../model/run";
import { Icon, type IconName } from "../../parts/Icon";
import { Time } from "../../parts/Time";
import { go, here, href, runHref } from "../../router";

interface Props {
  readonly schedules: readonly ScheduleRecord[];
  readonly last: ReadonlyMap<string, RunRecord | undefined>;
  readonly onEdit: (schedule: ScheduleRecord) => void;
  readonly onDone: () => void;
}

const HEADERS = ["Name", "Type", "Cron", "Timezone", "State", "Next run", "Last run", "Actions"];

export function ScheduleTable({ schedules, last, onEdit, onDone }: Props) {
  return (
    <div class="table-box">
      <table class="table cards schedules" aria-label="Schedules">
        <thead>
          <tr>
            {HEADERS.map((header) => (
              <th key={header} scope="col" class={header === "Actions" ? "col-five-actions" : ""}>
                {header}
              </th>
            ))}
          </tr>
        </thead>
        <tbody>
          {schedules.map((schedule) => (
            <Row
              key={schedule.name}
              schedule={schedule}
              run={last.get(schedule.name)}
              onEdit={onEdit}
              onDone={onDone}
            />
          ))}
        </tbody>
      </table>
    </div>
  );
}

interface RowProps extends Pick<Props, "onEdit" | "onDone"> {
  readonly schedule: ScheduleRecord;
  readonly run: RunRecord | undefined;
}

function Row({ schedule, run, onEdit, onDone }: RowProps) {
  const open = (event: MouseEvent): void => {
    if (!(event.target as Element).closest("a, button")) go({ view: "schedules", name: schedule.name, query: here() });
  };
  return (
    <tr data-testid="schedule-row" data-name={schedule.name} class="clickable" onClick={open}>
      <td data-label="Name">
        <a class="id" href={href({ view: "schedules", name: schedule.name, query: here() })}>
          {schedule.name}
        </a>
      </td>
      <td data-label="Type" class="mono">
        {schedule.workflow_type}
      </td>
      <td data-label="Cron" class="mono">
        {schedule.cron_expr}
      </td>
      <td data-label="Timezone">{schedule.timezone}</td>
      <td data-label="State">
        <ScheduleState schedule={schedule} />
      </td>
      <td data-label="Next run">
        {schedule.next_run_at === null || schedule.paused ? (
          <span class="muted">
            – {schedule.paused && schedule.paused_by !== null && `paused by ${schedule.paused_by}`}
          </span>
        ) : (
          <>
            <Time at={schedule.next_run_at} as="short" /> (<Time at={schedule.next_run_at} as="brief" />)
          </>
        )}
      </td>
      <td data-label="Last run">
        {schedule.last_run_at === null ? (
          <span class="muted">–</span>
        ) : (
          <>
            {run && <LastRun run={run} />} <Time at={schedule.last_run_at} />
          </>
        )}
      </td>
      <td data-label="Actions">
        <div class="row-actions">
          <ScheduleActions schedule={schedule} onEdit={onEdit} onDone={onDone} />
        </div>
      </td>
    </tr>
  );
}

function LastRun({ run }: { readonly run: RunRecord }) {
  const badge = badgeOf(run);
  return (
    <a
      href={runHref(run.workflow_id, run.run_id)}
      class={`tone-text-${badge.tone}`}
      aria-label={`${badge.word}, open the run`}
    >
      {badge.glyph}
    </a>
  );
}

export const ScheduleState = ({ schedule }: { readonly schedule: ScheduleRecord }) => (
  <span class={`health health-${schedule.paused ? "paused" : "healthy"}`} title={schedule.pause_reason ?? undefined}>
    <span aria-hidden="true">{schedule.paused ? "❚❚" : "●"}</span> {schedule.paused ? "paused" : "active"}
  </span>
);

async function resume(schedule: ScheduleRecord, onDone: () => void): Promise<void> {
  try {
    const query = { namespace: schedule.namespace };
    const answer = await send("POST", ["schedules", schedule.name, "resume"], { query, idempotencyKey: newKey() });
    notify(resumed(answer.value, schedule.name));
    onDone();
  } catch (error) {
    if (!(error instanceof ApiProblem)) throw error;
    notify(error.message, { tone: "bad" });
  }
}

interface ActionsProps extends Pick<Props, "onEdit" | "onDone"> {
  readonly schedule: ScheduleRecord;
  readonly isLarge?: boolean;
}

/** The buttons of a schedule: small in a row, with words on its page. */
export function ScheduleActions({ schedule, onEdit, onDone, isLarge = false }: ActionsProps) {
  const { name } = schedule;
  const button = (label: string, full: string, icon: IconName, run: () => void): ComponentChildren => (
    <button
      key={label}
      type="button"
      class={isLarge ? "button" : "icon-button"}
      aria-label={full}
      title={actRefusal.value ?? label}
      disabled={actRefusal.value !== null}
      onClick={run}
    >
      {isLarge ? label : <Icon name={icon} />}
    </button>
  );
  return (
    <>
      {button("Edit", `Edit ${name}`, "edit", () => onEdit(schedule))}
      {schedule.paused
        ? button("Resume", `Resume ${name}`, "play", () => void resume(schedule, onDone))
        : button("Pause", `Pause ${name}`, "pause", () => ask(<PauseDialog schedule={schedule} onDone={onDone} />))}
      {button("Run now", `Run ${name} now`, "right", () => ask(<TriggerDialog schedule={schedule} onDone={onDone} />))}
      {isLarge &&
        button("Backfill", `Backfill ${name}`, "left", () =>
          ask(<BackfillDialog schedule={schedule} onDone={onDone} />),
        )}
      {button("Delete", `Delete ${name}`, "trash", () =>
        ask(<DeleteScheduleDialog schedule={schedule} onDone={onDone} />),
      )}
    </>
  );
}
