import { ask } from "../../actions/Action";
import { RowActions, actionKeys } from "../../actions/RunActions";
import { StartDialog } from "../../actions/start";
import { Icon } from "../../parts/Icon";
import { useEffect, useRef, useState } from "preact/hooks";
import { get } from "../../data/client";
import type { NamespaceRecord, QueueStats, RunCounts, RunRecord, WorkerRecord } from "../../data/records";
import { useEvery, useResource } from "../../data/resource";
import { actRefusal } from "../../data/session";
import { useView } from "../../frame/view";
import { useKeys } from "../../keys";
import { type Filter, NO_FILTER, filterOf, isFiltered, parameters } from "../../model/filter";
import { copyText } from "../../parts/Copy";
import { Pages } from "../../parts/Pages";
import { Problem, Stale } from "../../parts/Problem";
import { type Query, go, here, namespace, route, runHref, setQuery } from "../../router";
import { FilterBar } from "./FilterBar";
import { NewRuns } from "./NewRuns";
import { NoRuns } from "./NoRuns";
import { RunTable } from "./RunTable";
import { SelectionBar } from "./SelectionBar";
import { type RunList, useRunList } from "./list";
import { offsetOf, rememberOffset } from "./places";

const SIZES: ReadonlySet<number> = new Set([25, 50, 100, 200]);

/** Names for the fields Type and Queue: those of the page, of the workers and of the queues. */
function useSuggestions(ns: string, rows: readonly RunRecord[]) {
  const known = useResource(`names ${ns}`, async (signal) => {
    const [workers, queues, spaces] = await Promise.all([
      get<WorkerRecord[]>(["workers"], { namespace: ns }, signal),
      get<QueueStats[]>(["queues"], { namespace: ns }, signal),
      get<NamespaceRecord[]>(["namespaces"], {}, signal),
    ]);
    return {
      workers: workers.value,
      queues: queues.value.map((queue) => queue.queue),
      namespaces: spaces.value.map((one) => one.name),
    };
  });
  const { workers = [], queues = [], namespaces = [] } = known.state.value.value ?? {};
  const types = [...rows.map((row) => row.workflow_type), ...workers.flatMap((worker) => worker.workflows ?? [])];
  return {
    types: [...new Set(types)].sort(),
    queues: [
      ...new Set([...queues, ...rows.map((row) => row.task_queue), ...workers.map((worker) => worker.task_queue)]),
    ].sort(),
    namespaces: [...new Set([...namespaces, ns])].sort(),
    hasWorkers: known.state.value.value === undefined || workers.length > 0,
  };
}

const COUNT_MS = 5_000;
const shown = (count: number, capped: boolean): string => `${count.toLocaleString("en")}${capped ? "+" : ""}`;

/** Counts beside the status buttons; they are read apart from the list and never keep it waiting. */
function useCounts(ns: string, filter: Filter): Readonly<Record<string, string>> {
  const all: Filter = { ...filter, statuses: [], attention: "" };
  const found = useResource(JSON.stringify(["counts", ns, all]), async (signal) => {
    const query = { ...parameters(all, Date.now() / 1_000), namespace: ns };
    return (await get<RunCounts>(["workflow-counts"], query, signal)).value;
  });
  useEvery(found, COUNT_MS);
  const counts = found.state.value.value;
  if (!counts) return {};
  const statuses = Object.entries(counts.by_status).filter(([, count]) => count > 0);
  return {
    all: shown(counts.total, counts.capped),
    ...Object.fromEntries(statuses.map(([status, count]) => [status, shown(count, count >= 10_000)])),
    ...(counts.attention.operator > 0
      ? { operator: shown(counts.attention.operator, counts.attention.operator >= 1_000) }
      : {}),
    ...(counts.attention.person > 0
      ? { person: shown(counts.attention.person, counts.attention.person >= 1_000) }
      : {}),
  };
}

/** Runs that are chosen; they stay chosen on other pages of the same filter. */
function useSelection(filterKey: string) {
  const [chosen, setChosen] = useState<ReadonlyMap<string, RunRecord>>(new Map());
  useEffect(() => setChosen(new Map()), [filterKey]);
  const select = (runs: readonly RunRecord[], on: boolean): void =>
    setChosen((old) => {
      const next = new Map(old);
      for (const run of runs) on ? next.set(run.run_id, run) : next.delete(run.run_id);
      return next;
    });
  return { chosen, select, clear: () => setChosen(new Map()) };
}

const changeFilter = (patch: Query, how: "push" | "replace" = "push"): void =>
  setQuery({ ...patch, cursor: "", before: "" }, how);
const clearFilters = (): void => setQuery(NO_FILTER);
const openPanel = (run: RunRecord): void => setQuery({ wf: run.workflow_id, run: run.run_id, tab: "", event: "" });

function pager(list: RunList, cursor: string, before: string, size: number) {
  const { page } = list;
  const from = before === "" ? offsetOf(cursor) : offsetOf(`<${before}`);
  const turn = (name: "cursor" | "before", to: string, offset: number | null): void => {
    if (offset !== null) rememberOffset(name === "before" ? `<${to}` : to, Math.max(0, offset));
    setQuery({ cursor: "", before: "", [name]: to });
  };
  const { next = null, previous = null } = page ?? {};
  const first = (): void => setQuery({ cursor: "", before: "" });
  const earlier =
    previous === null ? () => history.back() : () => turn("before", previous, from === null ? null : from - size);
  return {
    from,
    onNext: next === null ? null : () => turn("cursor", next, from === null ? null : from + (page?.rows.length ?? 0)),
    onPrevious: cursor === "" && before === "" ? null : from !== null && from <= size ? first : earlier,
  };
}

function useRowKeys(
  rows: readonly RunRecord[],
  select: (runs: readonly RunRecord[], on: boolean) => void,
  chosen: ReadonlyMap<string, unknown>,
) {
  const [at, setAt] = useState(-1);
  const row = rows[at];
  const move = (by: number): void => setAt((old) => Math.min(Math.max(old + by, 0), rows.length - 1));
  const withRow = (act: (run: RunRecord) => void) => () => void (row && act(row));
  const range = (by: number) => () => {
    const next = rows[Math.min(Math.max(at + by, 0), rows.length - 1)];
    select(
      [row, next].filter((one) => one !== undefined),
      true,
    );
    move(by);
  };
  useKeys("List", [
    { keys: "j", label: "Next row", run: () => move(1) },
    { keys: "ArrowDown", label: "Next row", run: () => move(1) },
    { keys: "k", label: "Row before", run: () => move(-1) },
    { keys: "ArrowUp", label: "Row before", run: () => move(-1) },
    {
      keys: "Enter",
      label: "Open the run",
      run: withRow((run) => go({ view: "run", id: run.workflow_id, query: here({ run: run.run_id }) })),
    },
    { keys: " ", label: "Open beside the list", run: withRow(openPanel) },
    { keys: "p", label: "Open beside the list", run: withRow(openPanel) },
    {
      keys: "o",
      label: "Open in a new tab",
      run: withRow((run) => open(runHref(run.workflow_id, run.run_id), "_blank", "noopener")),
    },
    { keys: "x", label: "Select", run: withRow((run) => select([run], !chosen.has(run.run_id))) },
    { keys: "Shift+ArrowDown", label: "Select downwards", run: range(1) },
    { keys: "Shift+ArrowUp", label: "Select upwards", run: range(-1) },
    { keys: "a", label: "Select the page", run: () => select(rows, !rows.every((one) => chosen.has(one.run_id))) },
    { keys: "y", label: "Copy the id", run: withRow((run) => void copyText(run.workflow_id)) },
    ...actionKeys(row),
    { keys: "]", label: "Next page", run: () => press("Next") },
    { keys: "[", label: "Previous page", run: () => press("Previous") },
  ]);
  return at;
}

const press = (name: string): void =>
  [...document.querySelectorAll<HTMLButtonElement>(".pages button")]
    .find((button) => button.textContent?.trim() === name)
    ?.click();

export function View() {
  const { query } = route.value;
  const ns = namespace.value;
  const filter = filterOf(query);
  const asked = Number(query["size"]);
  const size = SIZES.has(asked) ? asked : 50;
  const { cursor = "", before = "" } = query;
  const selection = useSelection(JSON.stringify([ns, filter]));
  const box = useRef<HTMLDivElement>(null);
  const isAtRest = (): boolean =>
    selection.chosen.size === 0 &&
    (document.getElementById("content")?.scrollTop ?? 0) < 4 &&
    !box.current?.matches(":hover");
  const list = useRunList(ns, filter, { cursor, before, size }, isAtRest);
  const rows = list.page?.rows ?? [];
  const names = useSuggestions(ns, rows);
  const at = useRowKeys(rows, selection.select, selection.chosen);
  const isEmpty = list.page !== undefined && rows.length === 0;
  useView(
    "",
    list.page === undefined ? (list.error ? "error" : "loading") : list.isOld ? "loading" : isEmpty ? "empty" : "ready",
  );
  const started = (): void => void list.refresh().then(list.showFresh);
  const turn = pager(list, cursor, before, size);
  return (
    <section class="page">
      <header class="page-head">
        <h1>Workflows</h1>
        <span class="spacer" />
        <button
          type="button"
          class="button primary"
          disabled={actRefusal.value !== null}
          title={actRefusal.value ?? undefined}
          onClick={() =>
            ask(
              <StartDialog
                types={names.types}
                queues={names.queues}
                namespaces={names.namespaces}
                onStarted={started}
              />,
            )
          }
        >
          <Icon name="plus" />
          Start workflow
        </button>
      </header>
      <FilterBar
        filter={filter}
        types={names.types}
        queues={names.queues}
        counts={useCounts(ns, filter)}
        canFilterByAttention
        onChange={changeFilter}
        onClear={clearFilters}
      />
      {list.error && list.page && <Stale at={list.at} retryAt={list.retryAt} />}
      {list.error && !list.page && <Problem problem={list.error} retry={() => void list.refresh()} />}
      {list.fresh > 0 && <NewRuns count={list.fresh} onShow={list.showFresh} />}
      <div ref={box} class="table-box">
        {isEmpty ? (
          <NoRuns isFiltered={isFiltered(filter)} hasWorkers={names.hasWorkers} onClear={clearFilters} />
        ) : (
          list.page && (
            <RunTable
              rows={rows}
              isOld={list.isOld}
              selected={new Set(selection.chosen.keys())}
              current={query["wf"] ?? null}
              focused={at}
              onOpen={openPanel}
              onSelect={selection.select}
              actions={(run) => <RowActions run={run} />}
            />
          )
        )}
      </div>
      {list.page && !isEmpty && (
        <Pages
          {...turn}
          shown={rows.length}
          total={list.page.total}
          capped={list.page.capped}
          size={size}
          onSize={(next) => changeFilter({ size: String(next) })}
        />
      )}
      <SelectionBar
        runs={[...selection.chosen.values()]}
        onClear={selection.clear}
        onDone={() => {
          selection.clear();
          void list.refresh();
        }}
      />
    </section>
  );
}
