// A document as rows of a tree: which nodes are shown, given which are folded. Pure.
import type { JsonNode } from "./parse";

export interface JsonRow {
  readonly path: string;
  readonly depth: number;
  /** The name in its object, or the index in its array; null for the root. */
  readonly name: string | null;
  readonly node: JsonNode;
  readonly isFolded: boolean;
  readonly size: number;
}

const OPEN_DEPTH = 2;
const OPEN_ENTRIES = 20;

export const sizeOf = (node: JsonNode): number =>
  node.kind === "object" ? node.entries.length : node.kind === "array" ? node.items.length : 0;

const opensByItself = (node: JsonNode, depth: number): boolean =>
  depth === 0 || (depth < OPEN_DEPTH && sizeOf(node) <= OPEN_ENTRIES);

/** Returns the rows of a document; `toggled` are the paths that are open against the rule, or folded against it. */
export function rowsOf(root: JsonNode, toggled: ReadonlySet<string>, openAll = false): readonly JsonRow[] {
  const rows: JsonRow[] = [];
  const visit = (node: JsonNode, path: string, depth: number, name: string | null): void => {
    const size = sizeOf(node);
    const isFolded = size > 0 && (openAll || opensByItself(node, depth)) === toggled.has(path);
    // An open root would be a row with nothing to read: its entries stand for it.
    if (name !== null || isFolded || size === 0)
      rows.push({ path, depth: Math.max(depth - 1, 0), name, node, isFolded, size });
    if (isFolded) return;
    if (node.kind === "object")
      for (const [key, value] of node.entries) visit(value, `${path}${step(key)}`, depth + 1, key);
    if (node.kind === "array")
      for (const [index, item] of node.items.entries()) visit(item, `${path}[${index}]`, depth + 1, String(index));
  };
  visit(root, "$", 0, null);
  return rows;
}

const step = (key: string): string => (/^[A-Za-z_]\w*$/.test(key) ? `.${key}` : `[${JSON.stringify(key)}]`);

/** Returns a short text for a folded node. */
export function preview(node: JsonNode): string {
  if (node.kind === "object") {
    const inner = node.entries.slice(0, 3).map(([key, value]) => `${key}: ${brief(value)}`);
    return node.entries.length === 0 ? "{}" : `{${inner.join(", ")}${node.entries.length > 3 ? ", …" : ""}}`;
  }
  if (node.kind === "array") return node.items.length === 0 ? "[]" : `[${node.items.length}]`;
  return node.text;
}

const brief = (node: JsonNode): string =>
  node.kind === "object" ? "{…}" : node.kind === "array" ? `[${node.items.length}]` : node.text.slice(0, 40);
