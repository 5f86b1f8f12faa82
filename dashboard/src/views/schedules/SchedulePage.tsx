import { get } from "../../data/client";
import { now } from "../../data/clock";
import type { FireRecord, ScheduleRecord } from "../../data/records";
import { useResource } from "../../data/resource";
import { JsonViewer } from "../../json/Viewer";
import { OUTCOME_GLYPHS, inZone } from "../../model/schedule";
import { relative, stamp } from "../../model/times";
import { Icon } from "../../parts/Icon";
import { Time } from "../../parts/Time";
import { Empty } from "../../parts/Window";
import { here, href, namespace, runHref } from "../../router";
import { ScheduleActions, ScheduleState } from "./ScheduleTable";

interface Props {
  readonly name: string;
  readonly schedule: ScheduleRecord | undefined;
  readonly onEdit: (schedule: ScheduleRecord) => void;
  readonly onDone: () => void;
}

/** Returns the state of a schedule in one sentence. */
function sentence(schedule: ScheduleRecord): string {
  const told = (schedule as { waiting_on?: { summary?: string } }).waiting_on?.summary;
  if (told !== undefined) return told;
  if (schedule.paused) {
    const by = schedule.paused_by === null ? "" : ` by ${schedule.paused_by}`;
    return `Paused${by}${schedule.pause_reason === null ? "" : `: ${schedule.pause_reason}`}.`;
  }
  if (schedule.next_run_at === null) return "It fires no more.";
  return `Fires ${relative(schedule.next_run_at, now.value)} (${inZone(schedule.next_run_at, schedule.timezone).slice(0, 16)} ${schedule.timezone}).`;
}

export function SchedulePage({ name, schedule, onEdit, onDone }: Props) {
  const back = (
    <a class="back" href={href({ view: "schedules", name: null, query: here() })}>
      <Icon name="left" />
      Schedules
    </a>
  );
  if (!schedule) {
    return (
      <>
        <header class="page-head">
          {back}
          <h1 class="id">{name}</h1>
        </header>
        <Empty title={`There is no schedule '${name}' in namespace '${namespace.value}'.`} />
      </>
    );
  }
  return (
    <>
      <header class="page-head">
        {back}
        <h1 class="id">{name}</h1>
        <ScheduleState schedule={schedule} />
        <span class="spacer" />
        <div class="run-actions">
          <ScheduleActions schedule={schedule} onEdit={onEdit} onDone={onDone} isLarge />
        </div>
      </header>
      <p class="why">{sentence(schedule)}</p>
      <dl class="card facts-list">
        {(
          [
            ["Type", schedule.workflow_type],
            ["Cron", schedule.cron_expr],
            ["Timezone", schedule.timezone],
            ["Queue", schedule.task_queue],
            ["Overlap", schedule.overlap_policy],
            ["Missed fires", schedule.missed],
            ["Clock changes", schedule.dst],
            ["Jitter", `${schedule.jitter_secs} s`],
          ] as const
        ).map(([label, text]) => (
          <div key={label}>
            <dt>{label}</dt>
            <dd class="mono">{text}</dd>
          </div>
        ))}
      </dl>
      <div class="documents-pair">
        <NextFires schedule={schedule} />
        <RecentFires schedule={schedule} />
      </div>
      {!schedule.input.isNull && (
        <section class="card" aria-label="Input">
          <h3>Input</h3>
          <JsonViewer doc={schedule.input} name="Input" />
        </section>
      )}
    </>
  );
}

function NextFires({ schedule }: { readonly schedule: ScheduleRecord }) {
  const { namespace: ns, name } = schedule;
  const key = JSON.stringify(["preview", ns, name, schedule.updated_at, schedule.next_run_at]);
  const fires = useResource(
    key,
    async (signal) => (await get<number[]>(["schedules", name, "preview"], { namespace: ns, count: 10 }, signal)).value,
  ).state.value.value;
  return (
    <section aria-label="Next fires">
      <div class="table-box">
        <table class="table" aria-label="Next fires">
          <thead>
            <tr>
              <th scope="col">Next fires</th>
              <th scope="col">Local</th>
              <th scope="col">{schedule.timezone}</th>
            </tr>
          </thead>
          <tbody>
            {(fires ?? []).map((at) => (
              <tr key={at}>
                <td class="digits">{relative(at, now.value)}</td>
                <td class="digits">{stamp(at)}</td>
                <td class="digits">{inZone(at, schedule.timezone)}</td>
              </tr>
            ))}
          </tbody>
        </table>
      </div>
    </section>
  );
}

function RecentFires({ schedule }: { readonly schedule: ScheduleRecord }) {
  const { namespace: ns, name } = schedule;
  const key = JSON.stringify(["fires", ns, name, schedule.last_run_at, schedule.next_run_at, schedule.updated_at]);
  const fires = useResource(
    key,
    async (signal) =>
      (await get<FireRecord[]>(["schedules", name, "fires"], { namespace: ns, limit: 50 }, signal)).value,
  ).state.value.value;
  return (
    <section aria-label="Recent fires">
      <div class="table-box">
        <table class="table" aria-label="Recent fires">
          <thead>
            <tr>
              <th scope="col">Recent fires</th>
              <th scope="col">Outcome</th>
              <th scope="col">Reason</th>
              <th scope="col">Run</th>
            </tr>
          </thead>
          <tbody>
            {(fires ?? []).map((fire) => (
              <tr key={`${fire.due_at} ${fire.fired_at}`} data-outcome={fire.outcome}>
                <td>
                  <Time at={fire.due_at} />
                </td>
                <td>
                  <span aria-hidden="true">{OUTCOME_GLYPHS[fire.outcome] ?? "·"}</span> {fire.outcome}
                </td>
                <td title={fire.reason ?? undefined}>{fire.reason ?? (fire.trigger === "time" ? "" : fire.trigger)}</td>
                <td class="mono">
                  {fire.workflow_id !== null && <a href={runHref(fire.workflow_id, fire.run_id)}>{fire.workflow_id}</a>}
                </td>
              </tr>
            ))}
          </tbody>
        </table>
      </div>
      {fires?.length === 0 && <p class="muted">It has not fired yet.</p>}
    </section>
  );
}
