import { useState } from "preact/hooks";
import { RowActions } from "../../actions/RunActions";
import type { RunRecord } from "../../data/records";
import { useResource } from "../../data/resource";
import { readChildren, readRun } from "../../data/runs";
import { type Branch, branchesOf } from "../../model/tree";
import { Status } from "../../parts/Status";
import { Lasted } from "../../parts/Time";
import { namespace, runHref } from "../../router";
import { Now } from "../workflows/RunTable";
import type { TabProps } from "./tabs";

const DEPTH = 3;

/** The family of a run: its parent, itself, and its children with theirs. */
export function Tree({ run }: TabProps) {
  const ns = namespace.value;
  const parent = useResource(JSON.stringify(["parent", run.run_id]), async (signal) =>
    run.parent_id === null ? null : readRun(ns, run.parent_id, run.parent_run_id, signal),
  ).state.value.value;
  return (
    <div class="tree card" role="tree" aria-label="Tree">
      {parent && <Node run={parent} level={1} />}
      <Node run={run} level={parent ? 2 : 1} isSelf />
      <Children run={run} level={parent ? 3 : 2} left={DEPTH} />
    </div>
  );
}

interface NodeProps {
  readonly run: RunRecord;
  readonly level: number;
  readonly isSelf?: boolean;
}

function Node({ run, level, isSelf = false }: NodeProps) {
  return (
    <div
      class={`tree-row${isSelf ? " current" : ""}`}
      role="treeitem"
      aria-level={level}
      aria-current={isSelf ? "true" : undefined}
      aria-selected={isSelf}
      data-id={run.workflow_id}
      data-run={run.run_id}
      data-status={run.status}
      style={{ paddingLeft: `${level * 20}px` }}
    >
      <Status run={run} />
      <a class="id mono" href={runHref(run.workflow_id, run.run_id)}>
        {run.workflow_id}
      </a>
      <span class="mono muted">{run.workflow_type}</span>
      <Lasted from={run.created_at} to={run.completed_at} />
      <span class="tree-why">
        <Now run={run} />
      </span>
      <span class="row-actions">
        <RowActions run={run} />
      </span>
    </div>
  );
}

interface ChildrenProps {
  readonly run: RunRecord;
  readonly level: number;
  readonly left: number;
}

function Children({ run, level, left }: ChildrenProps) {
  const ns = namespace.value;
  const key = JSON.stringify(["children", ns, run.run_id, run.history_length]);
  const found = useResource(key, (signal) => readChildren(ns, run.workflow_id, run.run_id, signal)).state.value.value;
  if (!found) return null;
  if (found.runs.length === 0) {
    return left === DEPTH ? (
      <p class="muted tree-none" style={{ paddingLeft: `${level * 20}px` }}>
        No children.
      </p>
    ) : null;
  }
  return (
    <>
      {branchesOf(found.runs).map((branch) => (
        <BranchView key={branch.key} branch={branch} level={level} left={left} />
      ))}
    </>
  );
}

interface BranchProps {
  readonly branch: Branch<RunRecord>;
  readonly level: number;
  readonly left: number;
}

/** One child, or closed children of one status folded to a count. */
function BranchView({ branch, level, left }: BranchProps) {
  const [isOpen, setOpen] = useState(branch.word === null);
  return (
    <>
      {branch.word !== null && (
        <div
          class="tree-row"
          role="treeitem"
          aria-level={level}
          aria-expanded={isOpen}
          aria-selected={false}
          style={{ paddingLeft: `${level * 20}px` }}
        >
          <button type="button" class="button quiet" onClick={() => setOpen(!isOpen)}>
            {isOpen ? "▾" : "▸"} {branch.runs.length} {branch.word.toLowerCase()}
          </button>
        </div>
      )}
      {isOpen &&
        branch.runs.map((run) => (
          <div key={run.run_id} role="presentation">
            <Node run={run} level={level + (branch.word === null ? 0 : 1)} />
            {left > 1 && <Children run={run} level={level + (branch.word === null ? 1 : 2)} left={left - 1} />}
          </div>
        ))}
    </>
  );
}
