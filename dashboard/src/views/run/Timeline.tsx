import { useEffect, useMemo, useRef, useState } from "preact/hooks";
import { now } from "../../data/clock";
import { useHistory } from "../../data/history";
import { useKeys } from "../../keys";
import { type Item, itemsOf } from "../../model/items";
import { isOpen } from "../../model/run";
import { type Range, type Scale, idleGaps, idleShare, rowsOf, scaleOf, ticksOf, zoomed } from "../../model/timeline";
import { clock, span } from "../../model/times";
import { Icon } from "../../parts/Icon";
import { Empty, useWindow } from "../../parts/Window";
import { namespace, route, setQuery } from "../../router";
import { useActivities } from "./Attempts";
import { Overview } from "./Overview";
import { RunBar, TimelineRowView } from "./TimelineRow";
import type { TabProps } from "./tabs";

const ROW = 28;
const STEP = 0.6;

/** Returns the range in the address, or null for all of it. */
function rangeOf(text: string | undefined): Range | null {
  const [from, to] = (text ?? "").split("-").map(Number);
  return from !== undefined && to !== undefined && to > from ? { from, to } : null;
}

const setRange = (range: Range | null): void =>
  setQuery({ t: range === null ? "" : `${range.from.toFixed(3)}-${range.to.toFixed(3)}` }, "replace");

/** What a run did and waited for, against time. */
export function Timeline({ run }: TabProps) {
  const history = useHistory(namespace.value, run.workflow_id, run.run_id, run.history_length);
  const activities = useActivities(run).state.value.value ?? [];
  const items = useMemo(() => itemsOf(history.events, activities), [history.events, activities]);
  const end = run.completed_at ?? (isOpen(run) ? Math.max(now.value, run.created_at + 0.001) : run.updated_at);
  const whole: Range = { from: run.created_at, to: Math.max(end, run.created_at + 0.001) };
  const range = rangeOf(route.value.query["t"]) ?? whole;
  const gaps = useMemo(() => idleGaps(items, range), [items, range.from, Math.floor(range.to)]);
  const [fold, setFold] = useState<boolean | null>(null);
  const isFolding = fold ?? idleShare(gaps, range) > 0.6;
  const scale = useMemo(() => scaleOf(range, isFolding ? gaps : []), [gaps, isFolding, range.from, range.to]);
  const zoom = (factor: number): void => setRange(zoomed(range, whole, factor));
  useTimelineKeys(range, whole, () => setFold(!isFolding));
  if (history.isComplete && items.length === 0) {
    return <Empty title="Nothing has happened yet: the run waits for its first task." />;
  }
  return (
    <div class="timeline">
      <div class="timeline-bar">
        <button
          type="button"
          class="icon-button"
          aria-label="Zoom out"
          title="Zoom out (-)"
          onClick={() => zoom(1 / STEP)}
        >
          −
        </button>
        <button type="button" class="icon-button" aria-label="Zoom in" title="Zoom in (+)" onClick={() => zoom(STEP)}>
          <Icon name="plus" />
        </button>
        <button type="button" class="button quiet" onClick={() => setRange(null)}>
          Fit
        </button>
        <button
          type="button"
          class="button quiet"
          role="switch"
          aria-checked={isFolding}
          onClick={() => setFold(!isFolding)}
        >
          Fold idle time
        </button>
        <span class="spacer" />
        <Overview items={items} whole={whole} range={range} onRange={setRange} />
      </div>
      <Chart items={items} scale={scale} run={run} end={end} />
    </div>
  );
}

function useTimelineKeys(range: Range, whole: Range, toggleFold: () => void): void {
  const pan = (share: number): void => {
    const by = (range.to - range.from) * share;
    setRange(zoomed({ from: range.from + by, to: range.to + by }, whole, 1));
  };
  useKeys("Timeline", [
    { keys: "+", label: "Zoom in", run: () => setRange(zoomed(range, whole, STEP)) },
    { keys: "-", label: "Zoom out", run: () => setRange(zoomed(range, whole, 1 / STEP)) },
    { keys: "0", label: "Fit", run: () => setRange(null) },
    { keys: "ArrowLeft", label: "Earlier", run: () => pan(-0.2) },
    { keys: "ArrowRight", label: "Later", run: () => pan(0.2) },
    { keys: "i", label: "Fold idle time", run: toggleFold },
  ]);
}

interface ChartProps {
  readonly items: readonly Item[];
  readonly scale: Scale;
  readonly run: TabProps["run"];
  readonly end: number;
}

function Chart({ items, scale, run, end }: ChartProps) {
  const [open, setOpen] = useState<ReadonlySet<string>>(new Set());
  const [focus, setFocus] = useState(0);
  const rows = useMemo(() => rowsOf(items, open), [items, open]);
  const { ref, range } = useWindow(rows.length, ROW, 60);
  const toggle = (key: string): void => {
    const next = new Set(open);
    if (!next.delete(key)) next.add(key);
    setOpen(next);
  };
  const grid = useRef<HTMLDivElement>(null);
  const keep = (index: number): void => setFocus(Math.min(Math.max(index, 0), rows.length - 1));
  useEffect(() => {
    grid.current?.querySelector(".timeline-row.focus")?.scrollIntoView({ block: "nearest" });
  }, [focus]);
  const move = (event: KeyboardEvent): void => {
    const row = rows[focus];
    if (event.key === "ArrowDown" || event.key === "ArrowUp") keep(focus + (event.key === "ArrowDown" ? 1 : -1));
    else if (event.key === "Enter" && row) toggle(row.type === "group" ? row.key : row.item.key);
    else if (
      row?.type === "group" &&
      ((event.key === "ArrowRight" && !row.isOpen) || (event.key === "ArrowLeft" && row.isOpen))
    )
      toggle(row.key);
    else return;
    event.preventDefault();
    event.stopPropagation();
  };
  return (
    <div class="timeline-box">
      <Axis scale={scale} />
      <div class="timeline-scroll" ref={ref}>
        <div
          role="treegrid"
          aria-label="Timeline"
          aria-rowcount={rows.length + 1}
          tabIndex={0}
          ref={grid}
          onKeyDown={move}
        >
          <RunBar run={run} scale={scale} end={end} />
          <div role="presentation" style={{ height: `${range.from * ROW}px` }} />
          {rows.slice(range.from, range.to).map((row, index) => (
            <TimelineRowView
              key={row.type === "group" ? `group ${row.key}` : row.item.key}
              row={row}
              index={range.from + index}
              scale={scale}
              end={end}
              isFocused={range.from + index === focus}
              isDetailed={row.type === "item" && open.has(row.item.key)}
              run={run}
              onToggle={toggle}
            />
          ))}
          <div role="presentation" style={{ height: `${(rows.length - range.to) * ROW}px` }} />
        </div>
      </div>
    </div>
  );
}

function Axis({ scale }: { readonly scale: Scale }) {
  return (
    <div class="timeline-axis" aria-hidden="true">
      <div class="timeline-name" />
      <div class="timeline-track">
        {ticksOf(scale).map((tick) => (
          <span key={tick.time} class="timeline-tick digits" style={{ left: `${tick.x * 100}%` }}>
            {clock(tick.time, tick.time % 1 > 0.0005)}
          </span>
        ))}
        {scale.stretches
          .filter((stretch) => stretch.isFolded)
          .map((stretch) => (
            <span
              key={stretch.from}
              class="timeline-fold"
              style={{ left: `${stretch.x0 * 100}%`, width: `${(stretch.x1 - stretch.x0) * 100}%` }}
              title={`${span(stretch.to - stretch.from)} idle`}
            >
              ≈ {span(stretch.to - stretch.from)} ≈
            </span>
          ))}
      </div>
    </div>
  );
}
