// The rows of the list of runs: one page, kept current by news, without moving what is being read.
import { useEffect, useMemo, useRef, useState } from "preact/hooks";
import type { ApiProblem } from "../../data/client";
import type { RunRecord } from "../../data/records";
import { useResource } from "../../data/resource";
import { type RunPage, listRuns, readRuns } from "../../data/runs";
import { onNews } from "../../data/stream";
import { type Filter, parameters } from "../../model/filter";

const READ_MS = 1_000;

export interface Place {
  readonly cursor: string;
  readonly before: string;
  readonly size: number;
}

export interface RunList {
  readonly page: RunPage | undefined;
  /** Whether the rows belong to an older filter or page. */
  readonly isOld: boolean;
  readonly error: ApiProblem | null;
  readonly at: number;
  readonly retryAt: number | null;
  /** How many runs are newer than the first row. */
  readonly fresh: number;
  readonly showFresh: () => void;
  readonly refresh: () => Promise<void>;
}

/** Returns the list of a filter; while it is not at rest, new runs are only counted. */
export function useRunList(namespace: string, filter: Filter, place: Place, isAtRest: () => boolean): RunList {
  const key = JSON.stringify(["runs", namespace, filter, place]);
  const query = useMemo(
    () => ({
      ...parameters(filter, Date.now() / 1_000),
      namespace,
      cursor: place.cursor,
      before: place.before,
      limit: place.size,
    }),
    [key],
  );
  // The engine shares the answer to one query for a second: news, and a person's wish, make another query of it.
  const news = useRef(moment());
  useMemo(() => (news.current = moment()), [key]);
  const resource = useResource(key, (signal) => listRuns({ ...query, news: news.current }, signal));
  const { value, error, at, retryAt } = resource.state.value;
  const [shown, setShown] = useState<{ readonly key: string; readonly page: RunPage } | null>(null);
  const isFirst = place.cursor === "" && place.before === "";
  const current = shown?.key === key ? shown.page : undefined;

  // A page that was read again replaces the rows only where this moves nothing.
  useEffect(() => {
    if (value === undefined) return;
    setShown((old) => {
      if (old?.key !== key || !isFirst || isAtRest() || sameRows(old.page, value)) return { key, page: value };
      return { key, page: { ...value, rows: patched(old.page.rows, value.rows), next: old.page.next } };
    });
  }, [value, key]);

  useNews(namespace, isFirst, resource, news, () => shownRef.current?.page.rows ?? []);
  const shownRef = useRef(shown);
  shownRef.current = shown;
  const adopt = (): void => void (value && setShown({ key, page: value }));
  return {
    page: current ?? shown?.page,
    isOld: current === undefined && shown !== null,
    error,
    at,
    retryAt,
    fresh: isFirst && current && value ? newer(current, value) : 0,
    showFresh: adopt,
    refresh: () => {
      news.current = moment();
      return resource.refresh();
    },
  };
}

const moment = (): string => String(Date.now());

const sameRows = (old: RunPage, page: RunPage): boolean =>
  old.rows.length === page.rows.length && old.rows.every((row, index) => row.run_id === page.rows[index]?.run_id);

const newer = (old: RunPage, page: RunPage): number => {
  const known = new Set(old.rows.map((row) => row.run_id));
  const first = old.rows[0]?.created_at ?? 0;
  return page.rows.filter((row) => !known.has(row.run_id) && row.created_at >= first).length;
};

const patched = (rows: readonly RunRecord[], fresh: readonly RunRecord[]): readonly RunRecord[] => {
  const byRun = new Map(fresh.map((row) => [row.run_id, row]));
  return rows.map((row) => byRun.get(row.run_id) ?? row);
};

interface Refreshable {
  refresh(): Promise<void>;
  patch(change: (page: RunPage) => RunPage): void;
}

/** Frames between two reads above which the engine's shared answer is good enough for now. */
const FLOOD_FRAMES = 50;

/** Reads the first page, or the rows on screen, again after news: at most once a second. */
function useNews(
  namespace: string,
  isFirst: boolean,
  list: Refreshable,
  news: { current: string },
  rows: () => readonly RunRecord[],
): void {
  useEffect(() => {
    let timer: ReturnType<typeof setTimeout> | undefined;
    let readAt = 0;
    let frames = 0;
    let last = "";
    const readAgain = async (): Promise<void> => {
      timer = undefined;
      readAt = Date.now();
      const isFlood = frames > FLOOD_FRAMES;
      frames = 0;
      news.current = isFlood ? "" : last;
      if (isFirst) await list.refresh();
      else {
        const ids = rows().map((row) => row.run_id);
        const fresh = await readRuns(namespace, ids, news.current).catch(() => []);
        list.patch((page) => ({ ...page, rows: patched(page.rows, fresh) }));
      }
      // A shared answer may be a second old: read once more after the flood.
      if (isFlood) plan();
    };
    const plan = (): void => {
      timer ??= setTimeout(() => void readAgain(), Math.max(0, readAt + READ_MS - Date.now()));
    };
    const stop = onNews((batch) => {
      const ids = new Set(rows().map((row) => row.run_id));
      const mine = batch.filter((frame) => frame.namespace === namespace);
      const onScreen = mine.some((frame) => frame.run_id !== null && ids.has(frame.run_id));
      if (!onScreen && !(isFirst && mine.some((frame) => frame.kind === "workflow_started"))) return;
      frames += mine.length;
      last = String(mine.at(-1)?.id ?? "");
      plan();
    });
    return () => {
      clearTimeout(timer);
      stop();
    };
  }, [namespace, isFirst, list]);
}
