// Where the time of a run went: each moment belongs to the thing that most explains it. Pure.
import type { Item, SegmentKind } from "./items";

export interface Share {
  readonly label: string;
  readonly category: Category;
  readonly seconds: number;
  readonly share: number;
}
export type Category = "running" | "queued" | "backoff" | "signal" | "timer" | "child" | "code";

const CATEGORIES: Readonly<Record<SegmentKind, Category>> = {
  attempt: "running",
  queued: "queued",
  backoff: "backoff",
  wait: "signal",
  line: "timer",
  child: "child",
  point: "code",
};
const RANKS: readonly Category[] = ["running", "queued", "backoff", "child", "signal", "timer"];

const LABELS: Readonly<Record<Category, (name: string) => string>> = {
  running: (name) => `running ${name}`,
  queued: (name) => `${name} queued`,
  backoff: (name) => `${name} between tries`,
  signal: (name) => `waiting for signal ${name}`,
  timer: () => "timers",
  child: (name) => `child ${name}`,
  code: () => "workflow code and gaps",
};

interface Piece {
  readonly from: number;
  readonly to: number;
  readonly category: Category;
  readonly name: string;
}

/** Returns the parts of a run's time, the largest first. */
export function timeSpent(items: readonly Item[], from: number, to: number): readonly Share[] {
  const pieces = items
    .flatMap((item) =>
      item.segments.map((segment): Piece => ({
        from: Math.max(segment.from, from),
        to: Math.min(segment.to ?? to, to),
        category: CATEGORIES[segment.kind],
        name: item.name,
      })),
    )
    .filter((piece) => piece.to > piece.from && piece.category !== "code");
  const sums = new Map<string, { category: Category; seconds: number }>();
  let covered = 0;
  for (const [start, end, piece] of sweep(pieces)) {
    const label = LABELS[piece.category](piece.name);
    const sum = sums.get(label) ?? { category: piece.category, seconds: 0 };
    sum.seconds += end - start;
    covered += end - start;
    sums.set(label, sum);
  }
  const rest = to - from - covered;
  if (rest > 0) sums.set(LABELS.code(""), { category: "code", seconds: rest });
  const total = Math.max(to - from, 1e-9);
  return [...sums]
    .map(([label, sum]) => ({ label, ...sum, share: sum.seconds / total }))
    .sort((a, b) => b.seconds - a.seconds);
}

/** Yields stretches of time with the piece that explains each best. */
function* sweep(pieces: readonly Piece[]): Generator<readonly [number, number, Piece]> {
  const edges = [...new Set(pieces.flatMap((piece) => [piece.from, piece.to]))].sort((a, b) => a - b);
  const waiting = [...pieces].sort((a, b) => a.from - b.from);
  let active: Piece[] = [];
  let next = 0;
  for (let at = 0; at + 1 < edges.length; at += 1) {
    const [from, to] = [edges[at] as number, edges[at + 1] as number];
    while (next < waiting.length && (waiting[next] as Piece).from <= from) active.push(waiting[next++] as Piece);
    active = active.filter((piece) => piece.to > from);
    const best = active.reduce<Piece | null>(
      (found, piece) => (found === null || rank(piece) < rank(found) ? piece : found),
      null,
    );
    if (best !== null) yield [from, to, best];
  }
}

const rank = (piece: Piece): number => RANKS.indexOf(piece.category);
