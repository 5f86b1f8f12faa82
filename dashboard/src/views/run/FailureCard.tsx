import type { ComponentChildren } from "preact";
import type { Failure } from "../../data/records";
import { type FailureInfo, type FrameGroup, chain, frames, title } from "../../model/failure";
import { CopyButton } from "../../parts/Copy";

interface Props {
  readonly failure: Failure;
  readonly actions?: ComponentChildren;
}

/** A failure with all its causes, the outermost first; own frames are open, those of libraries folded. */
export function FailureCard({ failure, actions }: Props) {
  return (
    <section class="failure" aria-label="Failure">
      {chain(failure).map((one, depth) => (
        <Cause key={depth} failure={one} depth={depth} actions={depth === 0 ? actions : undefined} />
      ))}
    </section>
  );
}

interface CauseProps {
  readonly failure: FailureInfo;
  readonly depth: number;
  readonly actions: ComponentChildren;
}

function Cause({ failure, depth, actions }: CauseProps) {
  const text = [`${title(failure)}: ${failure.message}`, failure.stack ?? ""].join("\n").trim();
  return (
    <div class="cause" style={{ marginLeft: `${Math.min(depth, 6) * 16}px` }}>
      <div class="cause-head">
        {depth > 0 && <span class="muted">caused by</span>}
        <b class="cause-type">{title(failure)}</b>
        <span class="badge">{failure.kind}</span>
        {failure.timeout_type !== null && <span class="badge">{failure.timeout_type}</span>}
        {failure.source !== null && <span class="muted">in {failure.source}</span>}
        <span class="spacer" />
        <CopyButton text={text} label="Copy" />
        {actions}
      </div>
      <p class="cause-message">{failure.message}</p>
      {failure.stack !== null && <Trace stack={failure.stack} />}
    </div>
  );
}

function Trace({ stack }: { readonly stack: string }) {
  const groups = frames(stack);
  if (groups.length === 0) return <pre class="code">{stack}</pre>;
  return (
    <div class="trace">
      {groups.map((group, index) => (
        <Frames key={index} group={group} />
      ))}
    </div>
  );
}

function Frames({ group }: { readonly group: FrameGroup }) {
  const [first] = group.frames;
  const name = group.own
    ? (first?.place ?? "")
    : group.frames.length === 1
      ? "1 library frame"
      : `${group.frames.length} library frames`;
  return (
    <details class={group.own ? "own" : "library"} open={group.own}>
      <summary>{name}</summary>
      {group.frames.map((frame) => (
        <div key={frame.place}>
          {!group.own && <p class="muted mono">{frame.place}</p>}
          {frame.code !== "" && <pre class="code">{frame.code}</pre>}
        </div>
      ))}
    </details>
  );
}
