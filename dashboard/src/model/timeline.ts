// Rows and the scale of a timeline: equal neighbours are folded, idle stretches may be. Pure.
import type { Item } from "./items";

export interface ItemRow {
  readonly type: "item";
  readonly item: Item;
  readonly depth: number;
}
export interface GroupRow {
  readonly type: "group";
  readonly key: string;
  readonly name: string;
  readonly items: readonly Item[];
  readonly failed: number;
  readonly isOpen: boolean;
}
export type TimelineRow = ItemRow | GroupRow;

const FOLD_FROM = 10;

/** Returns the rows: more than ten neighbours of one kind and name are one row, unless it is open. */
export function rowsOf(items: readonly Item[], open: ReadonlySet<string>, grouped = true): readonly TimelineRow[] {
  const rows: TimelineRow[] = [];
  for (let at = 0; at < items.length;) {
    const first = items[at] as Item;
    let end = at + 1;
    while (grouped && end < items.length && items[end]?.kind === first.kind && items[end]?.name === first.name)
      end += 1;
    const run = items.slice(at, end);
    if (run.length > FOLD_FROM) {
      const isOpen = open.has(first.key);
      const failed = run.filter((item) => item.status === "failed" || item.status === "timed_out").length;
      rows.push({ type: "group", key: first.key, name: first.name, items: run, failed, isOpen });
      if (isOpen) rows.push(...run.map((item): ItemRow => ({ type: "item", item, depth: 2 })));
    } else rows.push(...run.map((item): ItemRow => ({ type: "item", item, depth: 1 })));
    at = end;
  }
  return rows;
}

export interface Range {
  readonly from: number;
  readonly to: number;
}
/** A stretch of time and where it is drawn, from 0 to 1. */
export interface Stretch extends Range {
  readonly x0: number;
  readonly x1: number;
  readonly isFolded: boolean;
}
export interface Scale {
  readonly stretches: readonly Stretch[];
  readonly x: (time: number) => number;
  readonly time: (x: number) => number;
}

const FOLDED_SHARE = 0.04;
const BUSY: ReadonlySet<string> = new Set(["queued", "attempt", "child", "point"]);

/** Returns the stretches in which nothing happens, longer than a tenth of the range. */
export function idleGaps(items: readonly Item[], range: Range): readonly Range[] {
  const busy = items
    .flatMap((item) => item.segments.filter((segment) => BUSY.has(segment.kind)))
    .map((segment) => ({ from: segment.from, to: segment.to ?? range.to }))
    .sort((a, b) => a.from - b.from);
  const gaps: Range[] = [];
  let at = range.from;
  for (const { from, to } of [...busy, { from: range.to, to: range.to }]) {
    if (from > at) gaps.push({ from: at, to: Math.min(from, range.to) });
    at = Math.max(at, to);
  }
  const least = (range.to - range.from) / 10;
  return gaps.filter((gap) => gap.to - gap.from > least);
}

export const idleShare = (gaps: readonly Range[], range: Range): number =>
  gaps.reduce((sum, gap) => sum + gap.to - gap.from, 0) / Math.max(range.to - range.from, 1e-9);

/** Returns the scale of a range; each gap takes a small fixed part of its width. */
export function scaleOf(range: Range, gaps: readonly Range[]): Scale {
  const edges = [range.from, ...gaps.flatMap((gap) => [gap.from, gap.to]), range.to];
  const parts: { from: number; to: number; isFolded: boolean }[] = [];
  for (let at = 0; at + 1 < edges.length; at += 1) {
    const from = edges[at] as number;
    const to = edges[at + 1] as number;
    if (to > from) parts.push({ from, to, isFolded: at % 2 === 1 });
  }
  const folds = parts.filter((part) => part.isFolded).length;
  const shown = parts.filter((part) => !part.isFolded).reduce((sum, part) => sum + part.to - part.from, 0);
  const share = shown === 0 ? 1 / Math.max(folds, 1) : FOLDED_SHARE;
  let x = 0;
  const stretches = parts.map((part): Stretch => {
    const width = part.isFolded ? share : ((part.to - part.from) / shown) * (1 - folds * share);
    x += width;
    return { ...part, x0: x - width, x1: x };
  });
  return { stretches, x: (time) => place(stretches, time), time: (at) => timeAt(stretches, at) };
}

function place(stretches: readonly Stretch[], time: number): number {
  const first = stretches[0];
  if (first === undefined || time <= first.from) return 0;
  const found = stretches.find((one) => time <= one.to);
  return found ? found.x0 + ((time - found.from) / (found.to - found.from)) * (found.x1 - found.x0) : 1;
}

function timeAt(stretches: readonly Stretch[], x: number): number {
  const found = stretches.find((one) => x <= one.x1) ?? stretches.at(-1);
  return found ? found.from + ((x - found.x0) / Math.max(found.x1 - found.x0, 1e-9)) * (found.to - found.from) : 0;
}

const STEPS = [
  0.001, 0.005, 0.01, 0.05, 0.1, 0.5, 1, 5, 10, 30, 60, 300, 600, 1_800, 3_600, 10_800, 21_600, 43_200, 86_400, 604_800,
];

/** Returns round times for labels of the axis, not closer than a share of the width. */
export function ticksOf(scale: Scale, least = 0.11): readonly { readonly time: number; readonly x: number }[] {
  const found: { time: number; x: number }[] = [];
  for (const stretch of scale.stretches) {
    if (stretch.isFolded) continue;
    const span = stretch.to - stretch.from;
    const wanted = (span * least) / Math.max(stretch.x1 - stretch.x0, 1e-9);
    const step = STEPS.find((one) => one >= wanted) ?? wanted;
    for (let time = Math.ceil(stretch.from / step) * step; time <= stretch.to; time += step) {
      const x = scale.x(time);
      if (x - (found.at(-1)?.x ?? -1) >= least) found.push({ time, x });
    }
  }
  return found;
}

/** Returns a range zoomed by a factor around a time, inside the whole range. */
export function zoomed(range: Range, whole: Range, factor: number, around = (range.from + range.to) / 2): Range {
  const width = Math.min(Math.max((range.to - range.from) * factor, 0.001), whole.to - whole.from);
  const share = (around - range.from) / Math.max(range.to - range.from, 1e-9);
  const from = Math.min(Math.max(around - share * width, whole.from), whole.to - width);
  return { from, to: from + width };
}
