import { Icon, type IconName } from "../../parts/Icon";
import { memo } from "../../parts/memo";
import type { RunRecord } from "../../data/records";
import type { Item, ItemKind, ItemStatus, Segment } from "../../model/items";
import { badgeOf } from "../../model/run";
import type { GroupRow, Scale, TimelineRow } from "../../model/timeline";
import { duration } from "../../model/times";
import { runHref, setQuery } from "../../router";

const KINDS: Readonly<Record<ItemKind, IconName>> = {
  run: "run",
  activity: "activity",
  step: "step",
  timer: "schedules",
  signal: "signal",
  child: "child",
  tick: "tick",
};
const ENDS: Readonly<Record<ItemStatus, string>> = {
  running: "",
  retrying: "",
  completed: "✓",
  failed: "✕",
  cancelled: "⊘",
  timed_out: "⧖",
};

interface Props {
  readonly row: TimelineRow;
  readonly index: number;
  readonly scale: Scale;
  readonly end: number;
  readonly isFocused: boolean;
  readonly isDetailed: boolean;
  readonly run: RunRecord;
  readonly onToggle: (key: string) => void;
}

export function TimelineRowView(props: Props) {
  const { row } = props;
  return row.type === "group" ? (
    <Group {...props} row={row} />
  ) : (
    <Single {...props} item={row.item} depth={row.depth} />
  );
}

function Bar({ segment, scale, end }: { readonly segment: Segment; readonly scale: Scale; readonly end: number }) {
  const x0 = scale.x(segment.from);
  const x1 = scale.x(segment.to ?? end);
  const last = scale.stretches.at(-1)?.to ?? 0;
  const first = scale.stretches[0]?.from ?? 0;
  if ((segment.to ?? end) < first || segment.from > last) return null;
  const style = { left: `${x0 * 100}%`, width: `max(${(x1 - x0) * 100}%, 2px)` };
  return (
    <span class={`segment ${segment.kind} ${segment.status}${segment.to === null ? " open" : ""}`} style={style} />
  );
}

const MemoBar = memo(Bar);

interface SingleProps extends Props {
  readonly item: Item;
  readonly depth: number;
}

function Single({ item, depth, index, scale, end, isFocused, isDetailed, run, onToggle }: SingleProps) {
  const length = (item.to ?? end) - item.from;
  const note =
    item.kind === "timer" && item.to === null && item.due !== null
      ? `${duration(Math.max(item.due - end, 0))} left`
      : item.segments[0]?.kind === "point"
        ? ""
        : duration(length);
  return (
    <>
      <div
        class={`timeline-row${isFocused ? " focus" : ""}`}
        role="row"
        aria-level={depth}
        aria-rowindex={index + 2}
        aria-label={spoken(item, end)}
        aria-expanded={isDetailed}
        data-testid="bar"
        data-kind={item.kind}
        data-status={item.status}
        onClick={() => onToggle(item.key)}
      >
        <div class="timeline-name" role="rowheader" style={{ paddingLeft: `${depth * 12}px` }}>
          <span class="timeline-kind" aria-hidden="true">
            <Icon name={KINDS[item.kind]} />
          </span>
          <span class="timeline-label mono" title={item.name}>
            {item.name}
          </span>
          <span class={`timeline-note outcome-${tone(item.status)}`}>
            {ENDS[item.status]} {item.attempts > 1 ? `×${item.attempts} ` : ""}
            {note}
          </span>
        </div>
        <div class="timeline-track" role="gridcell">
          {item.segments.map((segment, at) => (
            <MemoBar key={at} segment={segment} scale={scale} end={segment.to === null ? end : 0} />
          ))}
        </div>
      </div>
      {isDetailed && <Detail item={item} run={run} end={end} />}
    </>
  );
}

const tone = (status: ItemStatus): string =>
  status === "failed" || status === "timed_out" ? "bad" : status === "completed" ? "good" : "plain";

/** Returns a row as a sentence, for those who hear it. */
function spoken(item: Item, end: number): string {
  const sum = (kind: Segment["kind"]): number =>
    item.segments.filter((one) => one.kind === kind).reduce((total, one) => total + (one.to ?? end) - one.from, 0);
  const parts = [item.name, item.kind, item.status.replace("_", " ")];
  if (item.attempts > 1) parts.push(`${item.attempts} attempts`);
  if (sum("queued") > 0) parts.push(`queued ${duration(sum("queued"))}`);
  if (sum("attempt") > 0) parts.push(`ran ${duration(sum("attempt"))}`);
  if (item.error !== "") parts.push(`error: ${item.error}`);
  return parts.join(", ");
}

function Detail({ item, run, end }: { readonly item: Item; readonly run: RunRecord; readonly end: number }) {
  return (
    <div class="timeline-detail" role="row">
      <div role="gridcell">
        <p>{spoken(item, end)}</p>
        <p class="row">
          {item.seqs.map((seq) => (
            <button
              key={seq}
              type="button"
              class="button quiet"
              onClick={() => setQuery({ tab: "events", event: String(seq) })}
            >
              Event {seq}
            </button>
          ))}
          {item.kind === "activity" && (
            <button type="button" class="button quiet" onClick={() => setQuery({ tab: "attempts" })}>
              Attempts
            </button>
          )}
          {item.kind === "child" && (
            <a class="button quiet" href={runHref(item.name, item.childRun || undefined)}>
              Open {item.name}
            </a>
          )}
          <span class="muted">{run.workflow_id}</span>
        </p>
      </div>
    </div>
  );
}

function Group({ row, index, scale, end, isFocused, onToggle }: Props & { readonly row: GroupRow }) {
  const label = `${row.name} ×${row.items.length}${row.failed > 0 ? ` · ${row.failed} failed` : ""}`;
  const [first] = row.items;
  return (
    <div
      class={`timeline-row group${isFocused ? " focus" : ""}`}
      role="row"
      aria-level={1}
      aria-rowindex={index + 2}
      aria-expanded={row.isOpen}
      aria-label={label}
      onClick={() => onToggle(row.key)}
    >
      <div class="timeline-name" role="rowheader">
        <span class="timeline-kind" aria-hidden="true">
          {row.isOpen ? "▾" : "▸"}
        </span>
        <span class="timeline-label">{label}</span>
      </div>
      <div class="timeline-track" role="gridcell">
        {first && <Density items={row.items} scale={scale} end={end} />}
      </div>
    </div>
  );
}

const CELLS = 120;

/** Many equal bars as one strip, darker where more of them overlap. */
function Density({
  items,
  scale,
  end,
}: {
  readonly items: readonly Item[];
  readonly scale: Scale;
  readonly end: number;
}) {
  const counts = new Array<number>(CELLS).fill(0);
  for (const item of items) {
    const from = Math.floor(scale.x(item.from) * (CELLS - 1));
    const to = Math.floor(scale.x(item.to ?? end) * (CELLS - 1));
    for (let cell = from; cell <= to; cell += 1) counts[cell] = (counts[cell] ?? 0) + 1;
  }
  const most = Math.max(...counts, 1);
  return (
    <>
      {counts.map((count, cell) =>
        count === 0 ? null : (
          <span
            key={cell}
            class="segment density"
            style={{
              left: `${(cell / CELLS) * 100}%`,
              width: `${100 / CELLS}%`,
              opacity: String(0.25 + (0.75 * count) / most),
            }}
          />
        ),
      )}
    </>
  );
}

export function RunBar({ run, scale, end }: { readonly run: RunRecord; readonly scale: Scale; readonly end: number }) {
  const badge = badgeOf(run);
  const segment: Segment = { kind: "attempt", from: run.created_at, to: run.completed_at, status: "running" };
  return (
    <div
      class="timeline-row timeline-run"
      role="row"
      aria-level={1}
      aria-rowindex={1}
      aria-label={`${run.workflow_id}, run, ${badge.word}`}
    >
      <div class="timeline-name" role="rowheader">
        <span class="timeline-kind" aria-hidden="true">
          <Icon name={KINDS.run} />
        </span>
        <span class="timeline-label mono">{run.workflow_id}</span>
        <span class="timeline-note">{duration(end - run.created_at)}</span>
      </div>
      <div class={`timeline-track tone-${badge.tone}`} role="gridcell">
        <Bar segment={segment} scale={scale} end={end} />
      </div>
    </div>
  );
}
