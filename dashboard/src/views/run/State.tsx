import { useEffect, useRef, useState } from "preact/hooks";
import type { RunRecord, StateRecord } from "../../data/records";
import { useResource } from "../../data/resource";
import { readState } from "../../data/runs";
import { Doc } from "../../json/parse";
import { JsonViewer } from "../../json/Viewer";
import { Time } from "../../parts/Time";
import { Empty } from "../../parts/Window";
import { namespace } from "../../router";
import type { TabProps } from "./tabs";

/** Returns the results of a run's queries; null for a run that has none. Read again with every event of the run. */
export function useRunState(run: RunRecord): StateRecord | null | undefined {
  const ns = namespace.value;
  const resource = useResource(JSON.stringify(["state", ns, run.run_id]), (signal) =>
    readState(ns, run.workflow_id, run.run_id, signal),
  );
  useEffect(() => void resource.refresh(), [run.history_length, run.status]);
  return resource.state.value.error ? null : resource.state.value.value;
}

/** Returns each query with its document. */
export function queriesOf(state: StateRecord | null | undefined): readonly (readonly [string, Doc])[] {
  if (!state || state.state.node.kind !== "object") return [];
  return state.state.node.entries.map(([name, node]) => [name, new Doc(node.text)] as const);
}

const CODE = `ctx.register_query("progress", lambda: {"done": done})`;

/** The live state that a workflow shows: its queries. */
export function State({ run }: TabProps) {
  const state = useRunState(run);
  const queries = queriesOf(state);
  if (state === undefined) return <div aria-busy="true" />;
  if (!state || queries.length === 0) {
    return (
      <Empty title="This workflow registers no query.">
        <p class="muted">Its code can show live state with one line:</p>
        <p class="command">
          <code>{CODE}</code>
        </p>
      </Empty>
    );
  }
  return (
    <div class="documents">
      {queries.map(([name, doc]) => (
        <Query key={name} name={name} doc={doc} state={state} />
      ))}
    </div>
  );
}

function Query({ name, doc, state }: { readonly name: string; readonly doc: Doc; readonly state: StateRecord }) {
  const changed = useChanged(doc.text);
  return (
    <section class={`card${changed ? " changed" : ""}`} aria-label={name}>
      <div class="query-head">
        <h3 class="mono">{name}</h3>
        <span class="muted">
          as of event {state.event_seq}, <Time at={state.created_at} />
        </span>
      </div>
      <JsonViewer doc={doc} name={`State ${name}`} />
    </section>
  );
}

/** Returns true for two seconds after a text has changed. */
function useChanged(text: string): boolean {
  const before = useRef(text);
  const [changed, setChanged] = useState(false);
  useEffect(() => {
    if (before.current === text) return;
    before.current = text;
    setChanged(true);
    const timer = setTimeout(() => setChanged(false), 2_000);
    return () => clearTimeout(timer);
  }, [text]);
  return changed;
}
