import { useEffect, useRef } from "preact/hooks";
import { PageActions, actionKeys } from "../../actions/RunActions";
import { Help } from "./Help";
import type { RunRecord } from "../../data/records";
import { useResource } from "../../data/resource";
import { readChain } from "../../data/runs";
import { announce, useView } from "../../frame/view";
import { useKeys } from "../../keys";
import { badgeOf, ending, isOpen } from "../../model/run";
import { pipelineOf } from "../../model/steps";
import { Problem, Stale } from "../../parts/Problem";
import { type Tab, Tabs } from "../../parts/Tabs";
import { go, here, namespace, route, setQuery } from "../../router";
import { Header } from "./Header";
import { NoRun } from "./NoRun";
import { WhyLine } from "./WhyLine";
import { useRun } from "./data";
import { queriesOf, useRunState } from "./State";
import { PIPELINE } from "./Steps";
import { type Known, TABS, type TabId } from "./tabs";

interface Props {
  readonly id: string;
  readonly isPanel: boolean;
}

/** The run's own page. */
export function View() {
  const { value } = route;
  return value.view === "run" ? <Run key={value.id} id={value.id} isPanel={false} /> : null;
}

/** A run, on its page or in the panel beside the list. */
export function Run({ id, isPanel }: Props) {
  const ns = namespace.value;
  const runId = route.value.query["run"] ?? null;
  const resource = useRun(ns, id, runId);
  const { value: run, error, at, retryAt } = resource.state.value;
  const chain = useResource(JSON.stringify(["chain", ns, id, run?.status, run?.run_id]), (signal) =>
    readChain(ns, id, signal),
  ).state.value.value;
  const state = run ? "ready" : error ? "error" : "loading";
  return (
    <article class="run" data-state={state}>
      {!isPanel && <PageTitle run={run} id={id} state={state} />}
      {error && run && <Stale at={at} retryAt={retryAt} />}
      {error &&
        !run &&
        (error.status === 404 ? (
          <NoRun id={id} isPanel={isPanel} />
        ) : (
          <Problem problem={error} retry={() => void resource.refresh()} />
        ))}
      {run && (
        <>
          <Header
            run={run}
            chain={chain}
            isPanel={isPanel}
            onRun={(to) => setQuery({ run: to, event: "", attempt: "", t: "" })}
            actions={<PageActions run={run} />}
          />
          <WhyLine run={run} help={(wait, waiting) => <Help run={run} wait={wait} waiting={waiting} />} />
          <RunTabs run={run} isPanel={isPanel} />
          <Announcer run={run} />
        </>
      )}
    </article>
  );
}

function PageTitle({
  run,
  id,
  state,
}: {
  readonly run: RunRecord | undefined;
  readonly id: string;
  readonly state: "ready" | "error" | "loading";
}) {
  useView(run ? `${badgeOf(run).glyph} ${id}` : id, state);
  return null;
}

/** Says politely when a run closes while it is shown. */
function Announcer({ run }: { readonly run: RunRecord }) {
  const wasOpen = useRef(isOpen(run));
  useEffect(() => {
    const said = ending(run);
    if (wasOpen.current && said !== null) announce(said);
    wasOpen.current = isOpen(run);
  }, [run.status]);
  return null;
}

function RunTabs({ run, isPanel }: { readonly run: RunRecord; readonly isPanel: boolean }) {
  const state = useRunState(run);
  const queries = queriesOf(state);
  const pipeline = queries.find(([name]) => name === PIPELINE);
  const known: Known = {
    hasSteps: pipeline !== undefined && pipelineOf(pipeline[1].value) !== null,
    queries: queries.length,
  };
  const tabs = TABS.filter((tab) => tab.isShown?.(known) ?? true);
  const asked = route.value.query["tab"] ?? "";
  const selected = tabs.find((tab) => tab.id === asked) ?? tabs[0];
  const choose = (id: string): void => setQuery({ tab: id, event: "", attempt: "" });
  useKeys("Run", [
    ...tabs.map((tab, index) => ({ keys: String(index + 1), label: tab.label, run: () => choose(tab.id) })),
    ...actionKeys(run),
    { keys: "u", label: "Back to the list", run: () => go({ view: "workflows", query: here() }) },
    {
      keys: "Alt+ArrowUp",
      label: "Open the parent",
      run: () =>
        run.parent_id !== null &&
        go({ view: "run", id: run.parent_id, query: here(run.parent_run_id ? { run: run.parent_run_id } : {}) }),
    },
  ]);
  // Which tab comes first depends on the state: until it is known, none is chosen.
  if (selected === undefined || (state === undefined && asked === "")) return null;
  const shown: Tab[] = tabs.map((tab) => ({
    id: tab.id,
    label: tab.label,
    count: tab.count(run, known),
    ...(tab.hook ? { hook: tab.hook } : {}),
  }));
  return (
    <>
      <Tabs label="Run views" tabs={shown} selected={selected.id} onSelect={choose} />
      <div class="tab-panel" id="tab-panel" role="tabpanel" aria-labelledby={`tab-${selected.id}`} tabIndex={0}>
        <selected.Content key={`${selected.id as TabId} ${run.run_id}`} run={run} isPanel={isPanel} />
      </div>
    </>
  );
}
