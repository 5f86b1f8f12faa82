// The children of a run as branches: open and failed ones stand alone, many that ended alike are folded. Pure.
import { type RunState, badgeOf, isOpen } from "./run";

export interface Branch<Run> {
  readonly key: string;
  /** The word of a folded group; null for a single run. */
  readonly word: string | null;
  readonly runs: readonly Run[];
}

const FOLD_FROM = 6;

/** Returns the branches: what is open, blocked or failed first, then groups of runs that ended alike. */
export function branchesOf<Run extends RunState & { readonly run_id: string }>(
  children: readonly Run[],
): readonly Branch<Run>[] {
  const isTelling = (run: Run): boolean => isOpen(run) || ["failed", "timed-out"].includes(badgeOf(run).key);
  const telling = children.filter(isTelling);
  const quiet = new Map<string, Run[]>();
  for (const run of children.filter((one) => !isTelling(one))) {
    const { word } = badgeOf(run);
    quiet.set(word, [...(quiet.get(word) ?? []), run]);
  }
  const single = (run: Run): Branch<Run> => ({ key: run.run_id, word: null, runs: [run] });
  const groups = [...quiet].flatMap(([word, runs]) =>
    runs.length < FOLD_FROM ? runs.map(single) : [{ key: word, word, runs }],
  );
  return [...telling.map(single), ...groups];
}
