import { useState } from "preact/hooks";
import { CopyButton } from "../parts/Copy";
import { Icon } from "../parts/Icon";
import { useWindow } from "../parts/Window";
import { type Doc, type JsonNode, pretty } from "./parse";
import { type JsonRow, preview, rowsOf } from "./rows";

interface Props {
  readonly doc: Doc;
  readonly name: string;
  /** Whether search, raw text and download are offered. */
  readonly tools?: boolean;
}

const ROW = 22;
const LONG_TEXT = 300;
const LARGE = 1_000_000;

/** A document of a user, as a tree that folds. Large ones are parsed only when asked for. */
export function JsonViewer({ doc, name, tools = false }: Props) {
  const [wanted, setWanted] = useState(doc.text.length <= LARGE);
  const [raw, setRaw] = useState(false);
  if (!wanted) {
    return (
      <button type="button" class="button" onClick={() => setWanted(true)}>
        {(doc.text.length / 1e6).toFixed(1)} MB: load
      </button>
    );
  }
  return (
    <div class="json-box">
      {tools && (
        <div class="json-tools">
          <span class="muted digits">{bytes(doc.text)}</span>
          <button type="button" class="button quiet" aria-pressed={raw} onClick={() => setRaw(!raw)}>
            Raw
          </button>
          <CopyButton text={doc.text} label="Copy" />
          <button type="button" class="button quiet" onClick={() => download(doc.text, name)}>
            <Icon name="download" /> Download
          </button>
        </div>
      )}
      {raw ? <pre class="code">{doc.text}</pre> : <Tree root={doc.node} name={name} />}
    </div>
  );
}

const bytes = (text: string): string => {
  const size = new Blob([text]).size;
  return size < 1_024 ? `${size} bytes` : `${(size / 1_024).toFixed(1)} KiB`;
};

/** Saves a text as a file; the name is cleaned of everything that a path could use. */
export function download(text: string, name: string): void {
  const link = document.createElement("a");
  link.href = URL.createObjectURL(new Blob([text], { type: "application/json" }));
  link.download = `${name.replace(/[^\w.-]+/g, "-").slice(0, 100)}.json`;
  link.click();
  setTimeout(() => URL.revokeObjectURL(link.href), 1_000);
}

function Tree({ root, name }: { readonly root: JsonNode; readonly name: string }) {
  const [toggled, setToggled] = useState<ReadonlySet<string>>(new Set());
  const [focus, setFocus] = useState(0);
  const rows = rowsOf(root, toggled);
  const { ref, range } = useWindow(rows.length, ROW);
  const toggle = (row: JsonRow): void => {
    const next = new Set(toggled);
    if (!next.delete(row.path)) next.add(row.path);
    setToggled(next);
  };
  const move = (event: KeyboardEvent): void => {
    const row = rows[focus];
    const to = { ArrowDown: focus + 1, ArrowUp: focus - 1, Home: 0, End: rows.length - 1 }[event.key];
    if (to !== undefined) setFocus(Math.min(Math.max(to, 0), rows.length - 1));
    else if (
      row &&
      row.size > 0 &&
      ((event.key === "ArrowRight" && row.isFolded) ||
        (event.key === "ArrowLeft" && !row.isFolded) ||
        event.key === "Enter")
    )
      toggle(row);
    else return;
    event.preventDefault();
    event.stopPropagation();
  };
  const before = range.from * ROW;
  const after = (rows.length - range.to) * ROW;
  return (
    <div class="json" role="tree" aria-label={name} tabIndex={0} ref={ref} onKeyDown={move}>
      <div role="presentation" style={{ height: `${before}px` }} />
      {rows.slice(range.from, range.to).map((row, index) => (
        <Row key={row.path} row={row} isFocused={range.from + index === focus} onToggle={() => toggle(row)} />
      ))}
      <div role="presentation" style={{ height: `${after}px` }} />
    </div>
  );
}

interface RowProps {
  readonly row: JsonRow;
  readonly isFocused: boolean;
  readonly onToggle: () => void;
}

function Row({ row, isFocused, onToggle }: RowProps) {
  const isBranch = row.size > 0;
  return (
    <div
      role="treeitem"
      aria-level={row.depth + 1}
      aria-expanded={isBranch ? !row.isFolded : undefined}
      aria-selected={isFocused}
      class={`json-row${isFocused ? " focus" : ""}`}
      style={{ paddingLeft: `${row.depth * 16 + 18}px` }}
      onClick={() => isBranch && !getSelection()?.toString() && onToggle()}
    >
      {isBranch && <span class={`json-fold${row.isFolded ? "" : " open"}`} aria-hidden="true" />}
      {row.name !== null && <span class="json-name">{row.name}: </span>}
      <Value row={row} />
    </div>
  );
}

function Value({ row: { node, isFolded, size } }: { readonly row: JsonRow }) {
  const [whole, setWhole] = useState(false);
  if (node.kind === "object" || node.kind === "array") {
    if (isFolded || size === 0) return <span class="json-folded">{preview(node)}</span>;
    return <span class="json-folded">{node.kind === "array" ? `[${size}]` : ""}</span>;
  }
  if (node.kind === "string" && node.text.length > LONG_TEXT && !whole) {
    return (
      <span class="json-string">
        {node.text.slice(0, LONG_TEXT)}…{" "}
        <button type="button" class="button quiet" onClick={() => setWhole(true)}>
          all {node.text.length.toLocaleString("en")} characters
        </button>
      </span>
    );
  }
  return <span class={`json-${node.kind}`}>{node.text}</span>;
}

/** Returns a document indented, for fields that edit it. */
export const indented = (doc: Doc): string => pretty(doc.node);
