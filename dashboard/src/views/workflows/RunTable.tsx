import type { ComponentChildren } from "preact";
import { useEffect, useRef } from "preact/hooks";
import type { RunRecord } from "../../data/records";
import { firstLine } from "../../model/failure";
import { badgeOf, isOpen } from "../../model/run";
import { Status } from "../../parts/Status";
import { Lasted, Time } from "../../parts/Time";
import { Sentence } from "../../parts/Why";
import { runHref } from "../../router";

interface Props {
  readonly rows: readonly RunRecord[];
  readonly isOld: boolean;
  readonly selected: ReadonlySet<string>;
  readonly current: string | null;
  readonly focused: number;
  readonly onOpen: (run: RunRecord) => void;
  readonly onSelect: (runs: readonly RunRecord[], on: boolean) => void;
  readonly actions: (run: RunRecord) => ComponentChildren;
}

const HEADERS = ["Status", "ID", "Type", "Now", "Queue", "Created", "Duration", "Actions"];

export function RunTable(props: Props) {
  const { rows, selected, isOld } = props;
  const all = rows.length > 0 && rows.every((row) => selected.has(row.run_id));
  return (
    <table class={`table runs${isOld ? " old" : ""}`} aria-label="Workflows" aria-busy={isOld}>
      <thead>
        <tr>
          <th class="select">
            <input type="checkbox" aria-label="Select page" checked={all} onChange={() => props.onSelect(rows, !all)} />
          </th>
          {HEADERS.map((header) => (
            <th key={header} scope="col" class={`col-${header.toLowerCase()}`}>
              {header}
            </th>
          ))}
        </tr>
      </thead>
      <tbody>
        {rows.map((row, index) => (
          <Row key={row.run_id} {...props} run={row} isFocused={index === props.focused} />
        ))}
      </tbody>
    </table>
  );
}

interface RowProps extends Props {
  readonly run: RunRecord;
  readonly isFocused: boolean;
}

function Row({ run, isFocused, selected, current, onOpen, onSelect, actions }: RowProps) {
  const row = useRef<HTMLTableRowElement>(null);
  const badge = badgeOf(run);
  const flash = useFlash(badge.key);
  useEffect(() => {
    if (isFocused) row.current?.scrollIntoView({ block: "nearest" });
  }, [isFocused]);
  const click = (event: MouseEvent): void => {
    if ((event.target as Element).closest("a, button, input, label") || getSelection()?.toString()) return;
    onOpen(run);
  };
  return (
    <tr
      ref={row}
      data-testid="run-row"
      data-id={run.workflow_id}
      data-run={run.run_id}
      data-status={run.status}
      class={`edge-${badge.shape === "edge" ? badge.tone : "none"}${isFocused ? " focused" : ""}${current === run.workflow_id ? " current" : ""}${selected.has(run.run_id) ? " selected" : ""}`}
      onClick={click}
    >
      <td class="select">
        <input
          type="checkbox"
          aria-label={`Select ${run.workflow_id}`}
          checked={selected.has(run.run_id)}
          onChange={(event) => onSelect([run], event.currentTarget.checked)}
        />
      </td>
      <td data-label="Status" class={`col-status ${flash}`}>
        <Status run={run} />
      </td>
      <td data-label="ID" class="col-id">
        <a class="id" href={runHref(run.workflow_id, run.run_id)} title={run.workflow_id}>
          {run.workflow_id}
        </a>
      </td>
      <td data-label="Type" class="mono col-type" title={run.workflow_type}>
        {run.workflow_type}
      </td>
      <td data-label="Now" class="col-now">
        <Now run={run} />
      </td>
      <td data-label="Queue" class="mono col-queue" title={run.task_queue}>
        {run.task_queue}
      </td>
      <td data-label="Created" class="col-created digits">
        <Time at={run.created_at} as="short" />
      </td>
      <td data-label="Duration" class="col-duration">
        <Lasted from={run.created_at} to={run.completed_at} />
      </td>
      <td data-label="Actions" class="col-actions">
        <div class="row-actions">{actions(run)}</div>
      </td>
    </tr>
  );
}

/** Returns a class for a moment after a value has changed. */
function useFlash(value: string): string {
  const before = useRef(value);
  const count = useRef(0);
  if (before.current !== value) {
    before.current = value;
    count.current += 1;
  }
  return count.current === 0 ? "" : `flash-${count.current % 2}`;
}

/** What happens to a run now, in one sentence. */
export function Now({ run }: { readonly run: RunRecord }) {
  const waiting = run.waiting_on;
  if (isOpen(run)) {
    if (waiting?.summary !== undefined) {
      return (
        <span class="sentence" title={waiting.summary}>
          <Sentence text={waiting.summary} told={waiting} />
        </span>
      );
    }
    if (run.stuck) return <span class="sentence">{run.stuck.message}</span>;
    return waiting?.signal ? <span class="sentence">Waits for signal '{waiting.signal}'.</span> : null;
  }
  if (run.close_reason === "continued_as_new" && run.next_run_id) {
    return (
      <span class="sentence muted">
        Continued as run <a href={runHref(run.workflow_id, run.next_run_id)}>{run.next_run_id}</a>
      </span>
    );
  }
  const error = run.error === null ? "" : firstLine(run.error);
  if (error !== "") {
    return (
      <span class="sentence" title={run.error ?? ""}>
        {run.failure?.type && !error.startsWith(run.failure.type) ? `${run.failure.type}: ${error}` : error}
      </span>
    );
  }
  return run.schedule === null ? null : <span class="sentence muted">by schedule {run.schedule}</span>;
}
