// Reads of runs: lists, one run, its history, its queries.
import { type Parameters, get } from "./client";
import type { ActivityWithAttempts, EventRecord, QueryRecord, RunRecord, StateRecord } from "./records";

export interface RunPage {
  readonly rows: readonly RunRecord[];
  readonly total: number;
  readonly capped: boolean;
  readonly next: string | null;
  readonly previous: string | null;
}

const whole = (headers: Headers, name: string): number => Number(headers.get(name) ?? 0);

export async function listRuns(query: Parameters, signal?: AbortSignal): Promise<RunPage> {
  const { value, headers } = await get<RunRecord[]>(
    ["workflows"],
    { view: "summary", count: "capped", ...query },
    signal,
  );
  return {
    rows: value,
    total: whole(headers, "x-total-count"),
    capped: headers.get("x-total-capped") === "true",
    next: headers.get("x-next-cursor"),
    previous: headers.get("x-previous-cursor"),
  };
}

/** Returns the current records of runs, at most 200 of them, as of the given news. */
export async function readRuns(namespace: string, ids: readonly string[], news = ""): Promise<readonly RunRecord[]> {
  if (ids.length === 0) return [];
  return (await listRuns({ namespace, run_ids: ids.slice(0, 200).join(","), limit: 200, count: "none", news })).rows;
}

const place = (namespace: string, runId: string | null): Parameters => ({ namespace, run_id: runId });

export const readRun = async (
  namespace: string,
  id: string,
  runId: string | null,
  signal?: AbortSignal,
): Promise<RunRecord> => (await get<RunRecord>(["workflows", id], place(namespace, runId), signal)).value;

export interface Chain {
  readonly runs: readonly RunRecord[];
  readonly total: number;
}

export async function readChain(namespace: string, id: string, signal?: AbortSignal): Promise<Chain> {
  const query = { namespace, limit: 100, view: "summary" };
  const { value, headers } = await get<RunRecord[]>(["workflows", id, "runs"], query, signal);
  return { runs: value, total: whole(headers, "x-total-count") };
}

export async function readChildren(
  namespace: string,
  id: string,
  runId: string | null,
  signal?: AbortSignal,
): Promise<Chain> {
  const query = { ...place(namespace, runId), limit: 500, view: "summary" };
  const { value, headers } = await get<RunRecord[]>(["workflows", id, "children"], query, signal);
  return { runs: value, total: whole(headers, "x-total-count") };
}

export interface EventPage {
  readonly events: readonly EventRecord[];
  readonly total: number;
}

export async function readEvents(
  namespace: string,
  id: string,
  runId: string | null,
  after: number,
  limit = 1_000,
  signal?: AbortSignal,
): Promise<EventPage> {
  const query = { ...place(namespace, runId), cursor: after, limit, order: "asc" };
  const { value, headers } = await get<EventRecord[]>(["workflows", id, "events"], query, signal);
  return { events: value, total: whole(headers, "x-total-count") };
}

/** Returns the results of all queries of a run, or null for a run without queries. */
export const readState = async (
  namespace: string,
  id: string,
  runId: string | null,
  signal?: AbortSignal,
): Promise<StateRecord | null> =>
  (await get<StateRecord | null>(["workflows", id, "state"], { ...place(namespace, runId), optional: true }, signal))
    .value;

export const readQuery = async (
  namespace: string,
  id: string,
  runId: string | null,
  name: string,
  signal?: AbortSignal,
): Promise<QueryRecord> =>
  (await get<QueryRecord>(["workflows", id, "state", name], place(namespace, runId), signal)).value;

export async function readActivities(
  namespace: string,
  id: string,
  runId: string | null,
  signal?: AbortSignal,
): Promise<readonly ActivityWithAttempts[]> {
  const query = { ...place(namespace, runId), limit: 500 };
  return (await get<ActivityWithAttempts[]>(["workflows", id, "activities"], query, signal)).value;
}
