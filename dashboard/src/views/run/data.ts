// The data of a run's page: its record, kept current by news and by a short report while it is open.
import { useEffect } from "preact/hooks";
import { ApiProblem, get } from "../../data/client";
import { hidden } from "../../data/clock";
import type { RunRecord, WaitingOn } from "../../data/records";
import { type Resource, useResource } from "../../data/resource";
import { readRun } from "../../data/runs";
import { onNews } from "../../data/stream";
import { isOpen } from "../../model/run";

const REPORT_MS = 2_000;
const NEWS_MS = 300;

interface Report {
  readonly run_id: string;
  readonly status: RunRecord["status"];
  readonly close_reason: string | null;
  readonly history_length: number;
  readonly updated_at: number;
  readonly cancel_requested: boolean;
  readonly stuck: RunRecord["stuck"];
  readonly waiting_on: WaitingOn | null;
}

/** Returns the record of a run for as long as it is shown. */
export function useRun(namespace: string, id: string, runId: string | null): Resource<RunRecord> {
  const run = useResource(JSON.stringify(["run", namespace, id, runId]), (signal) =>
    readRun(namespace, id, runId, signal),
  );
  const record = run.state.value.value;
  const open = record !== undefined && isOpen(record);
  useReports(run, namespace, id, record?.run_id ?? null, open);
  useEffect(() => {
    let timer: ReturnType<typeof setTimeout> | undefined;
    const stop = onNews((frames) => {
      if (!frames.some((frame) => frame.workflow_id === id && frame.namespace === namespace)) return;
      timer ??= setTimeout(() => {
        timer = undefined;
        void run.refresh();
      }, NEWS_MS);
    });
    return () => {
      clearTimeout(timer);
      stop();
    };
  }, [run, id, namespace]);
  return run;
}

/** Reads why an open run waits, every two seconds while the page is visible; no documents are sent for it. */
function useReports(
  run: Resource<RunRecord>,
  namespace: string,
  id: string,
  runId: string | null,
  open: boolean,
): void {
  useEffect(() => {
    if (!open || runId === null) return;
    let busy = false;
    const report = async (): Promise<void> => {
      if (busy || hidden.peek()) return;
      busy = true;
      try {
        const { value } = await get<Report>(["workflows", id, "waiting"], { namespace, run_id: runId });
        take(run, value);
      } catch (error) {
        if (!(error instanceof ApiProblem)) throw error;
      } finally {
        busy = false;
      }
    };
    const timer = setInterval(() => void report(), REPORT_MS);
    return () => clearInterval(timer);
  }, [run, namespace, id, runId, open]);
}

function take(run: Resource<RunRecord>, report: Report): void {
  const before = run.state.peek().value;
  if (before === undefined) return;
  if (before.status !== report.status || before.history_length !== report.history_length) void run.refresh();
  else
    run.patch((record) => ({
      ...record,
      stuck: report.stuck,
      cancel_requested: report.cancel_requested,
      waiting_on: report.waiting_on,
    }));
}
