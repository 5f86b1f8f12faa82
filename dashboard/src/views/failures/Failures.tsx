import { ApiProblem, get, send } from "../../data/client";
import { notify } from "../../data/notices";
import type { FailureGroup } from "../../data/records";
import { useEvery, useResource } from "../../data/resource";
import { actRefusal } from "../../data/session";
import { useView } from "../../frame/view";
import { firstLine } from "../../model/failure";
import { Problem, Stale } from "../../parts/Problem";
import { Spark } from "../../parts/Spark";
import { Time } from "../../parts/Time";
import { Empty } from "../../parts/Window";
import { here, href, namespace, route, setQuery } from "../../router";
import { FailurePage } from "./FailurePage";

const READ_MS = 5_000;
const STATES = ["open", "muted", "resolved"] as const;
const SOURCES = [
  ["run", "Failed runs"],
  ["blocked", "Blocked"],
  ["attempt", "Failing now"],
] as const;
const HEADERS = ["Last 24 h", "Failure", "Runs", "First seen", "Last seen", "Actions"];

export function View() {
  const { value } = route;
  const fingerprint = value.view === "failures" ? value.name : null;
  return fingerprint === null ? <FailureList /> : <FailurePage key={fingerprint} fingerprint={fingerprint} />;
}

function FailureList() {
  const ns = namespace.value;
  const { state = "open", source = "" } = route.value.query;
  const found = useResource(JSON.stringify(["failures", ns, state, source]), async (signal) => {
    const query = { namespace: ns, state: source === "attempt" ? undefined : state, source };
    return (await get<FailureGroup[]>(["failures"], query, signal)).value;
  });
  useEvery(found, READ_MS);
  const { value: groups, error, at, retryAt } = found.state.value;
  useView("Failures", groups === undefined ? (error ? "error" : "loading") : groups.length === 0 ? "empty" : "ready");
  return (
    <section class="page">
      <header class="page-head">
        <h1>Failures</h1>
      </header>
      <div class="filter-chips">
        <Choices
          label="State"
          options={STATES.map((one) => [one, one.charAt(0).toUpperCase() + one.slice(1)] as const)}
          value={state}
          onChange={(next) => setQuery({ state: next })}
        />
        <Choices
          label="Source"
          options={SOURCES}
          value={source}
          onChange={(next) => setQuery({ source: next === source ? "" : next })}
        />
      </div>
      {error && groups && <Stale at={at} retryAt={retryAt} />}
      {error && !groups && <Problem problem={error} retry={() => void found.refresh()} />}
      {groups?.length === 0 && <Empty title={state === "open" ? "Nothing has failed." : `No group is ${state}.`} />}
      {groups && groups.length > 0 && <FailureTable groups={groups} onDone={() => void found.refresh()} />}
    </section>
  );
}

interface ChoicesProps {
  readonly label: string;
  readonly options: readonly (readonly [string, string])[];
  readonly value: string;
  readonly onChange: (value: string) => void;
}

const Choices = ({ label, options, value, onChange }: ChoicesProps) => (
  <div class="chips" role="group" aria-label={label}>
    {options.map(([key, text]) => (
      <button key={key} type="button" class="chip" aria-pressed={key === value} onClick={() => onChange(key)}>
        {text}
      </button>
    ))}
  </div>
);

function FailureTable({ groups, onDone }: { readonly groups: readonly FailureGroup[]; readonly onDone: () => void }) {
  return (
    <div class="table-box">
      <table class="table cards failures" aria-label="Failures">
        <thead>
          <tr>
            {HEADERS.map((header) => (
              <th key={header} scope="col">
                {header}
              </th>
            ))}
          </tr>
        </thead>
        <tbody>
          {groups.map((group) => (
            <tr
              key={`${group.source} ${group.fingerprint}`}
              data-testid="failure-row"
              data-fingerprint={group.fingerprint}
              data-state={group.state}
            >
              <td data-label="Last 24 h">
                <Spark
                  values={group.per_hour}
                  label={`Failures of the last 24 hours: ${group.per_hour.reduce((sum, one) => sum + one, 0)}`}
                />
              </td>
              <td data-label="Failure" class="failure-cell">
                <a class="id" href={href({ view: "failures", name: group.fingerprint, query: here() })}>
                  {group.source === "blocked" && "▲ "}
                  {group.type ?? group.kind} in {group.where} · {group.workflow_type}
                </a>
                <span class="muted"> {firstLine(group.message)}</span>
                {group.regressed && <span class="badge">regressed</span>}
              </td>
              <td data-label="Runs" class="digits">
                {group.count} {group.count === 1 ? "run" : "runs"}
              </td>
              <td data-label="First seen">
                <Time at={group.first_seen} />
              </td>
              <td data-label="Last seen">
                <Time at={group.last_seen} />
              </td>
              <td data-label="Actions">
                <GroupActions group={group} onDone={onDone} />
              </td>
            </tr>
          ))}
        </tbody>
      </table>
    </div>
  );
}

/** Changes what people say about a group; it opens again by itself when it recurs. */
async function setState(group: FailureGroup, state: string, onDone: () => void): Promise<void> {
  try {
    const body = JSON.stringify({ state });
    await send("PATCH", ["failures", group.fingerprint], { query: { namespace: namespace.value }, body });
    notify(`The group is ${state}.`);
    onDone();
  } catch (error) {
    if (!(error instanceof ApiProblem)) throw error;
    notify(error.message, { tone: "bad" });
  }
}

export function GroupActions({ group, onDone }: { readonly group: FailureGroup; readonly onDone: () => void }) {
  const button = (label: string, state: string) => (
    <button
      key={label}
      type="button"
      class="button quiet"
      disabled={actRefusal.value !== null}
      title={actRefusal.value ?? undefined}
      onClick={() => void setState(group, state, onDone)}
    >
      {label}
    </button>
  );
  return (
    <span class="row">
      {group.source !== "attempt" && (
        <a class="button quiet" href={href({ view: "workflows", query: here({ failure: group.fingerprint }) })}>
          Show runs
        </a>
      )}
      {group.source !== "attempt" && group.state === "open" && [button("Mute", "muted"), button("Resolve", "resolved")]}
      {group.source !== "attempt" && group.state !== "open" && button("Open again", "open")}
    </span>
  );
}
