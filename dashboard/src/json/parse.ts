// JSON as written: documents keep their text, so that digits, `1.0` and the order of keys survive. Pure, no DOM.

/** A document of a user: the text as it came, and readings of it made when they are needed. */
export class Doc {
  #value: { readonly value: unknown } | undefined;
  #node: JsonNode | undefined;

  constructor(readonly text: string) {}

  /** The document as plain values, for code that reads names from it; long integers lose digits here. */
  get value(): unknown {
    this.#value ??= { value: JSON.parse(this.text) };
    return this.#value.value;
  }

  /** The document as nodes with their source text, for showing it. */
  get node(): JsonNode {
    this.#node ??= parseNode(this.text);
    return this.#node;
  }

  get isNull(): boolean {
    return this.text === "null";
  }
}

export type JsonNode =
  | { readonly kind: "object"; readonly text: string; readonly entries: readonly (readonly [string, JsonNode])[] }
  | { readonly kind: "array"; readonly text: string; readonly items: readonly JsonNode[] }
  | { readonly kind: "string"; readonly text: string; readonly value: string }
  | { readonly kind: "number" | "literal"; readonly text: string };

/** Fields of answers whose values are documents of users. */
const DOCUMENTS: ReadonlySet<string> = new Set([
  "input",
  "result",
  "search_attributes",
  "memo",
  "context",
  "priority",
  "payload",
  "state",
  "value",
  "last_completion_result",
  "heartbeat_details",
  "arguments",
]);

/** The mistake in a text that is no JSON, with its place. */
export class JsonMistake extends Error {
  constructor(
    message: string,
    readonly line: number,
    readonly column: number,
  ) {
    super(message);
  }
}

class Reader {
  at = 0;
  constructor(readonly text: string) {}

  fail(what: string): never {
    const before = this.text.slice(0, this.at);
    const line = before.split("\n").length;
    throw new JsonMistake(what, line, this.at - before.lastIndexOf("\n"));
  }

  space(): void {
    for (;;) {
      const code = this.text.charCodeAt(this.at);
      if (code !== 32 && code !== 10 && code !== 13 && code !== 9) return;
      this.at += 1;
    }
  }

  is(character: string): boolean {
    this.space();
    if (this.text[this.at] !== character) return false;
    this.at += 1;
    return true;
  }

  string(): string {
    const start = this.at;
    this.skipString();
    const raw = this.text.slice(start, this.at);
    return raw.includes("\\") ? (JSON.parse(raw) as string) : raw.slice(1, -1);
  }

  skipString(): void {
    for (this.at += 1; ; this.at += 1) {
      const code = this.text.charCodeAt(this.at);
      if (code === 34) break;
      if (code === 92) this.escape();
      else if (Number.isNaN(code)) this.fail("a text is not closed");
      else if (code < 32) this.fail("a line break in a text is written \\n");
    }
    this.at += 1;
  }

  escape(): void {
    const match = /^\\(?:["\\/bfnrt]|u[0-9a-fA-F]{4})/.exec(this.text.slice(this.at, this.at + 6));
    if (!match) this.fail("unknown escape in a text");
    this.at += match[0].length - 1;
  }

  scalar(): string {
    const rest = this.text.slice(this.at, this.at + 400);
    const match = /^(?:-?(?:0|[1-9]\d*)(?:\.\d+)?(?:[eE][+-]?\d+)?|true|false|null)(?![\w.+-])/.exec(rest);
    if (!match) this.fail(this.at >= this.text.length ? "the text ends too early" : "expected a value");
    this.at += match[0].length;
    return match[0];
  }

  members(each: (name: string) => void): void {
    if (this.is("}")) return;
    do {
      this.space();
      if (this.text[this.at] !== '"') this.fail("expected a name in double quotes");
      const name = this.string();
      if (!this.is(":")) this.fail("expected ':' after a name");
      this.space();
      each(name);
    } while (this.is(","));
    if (!this.is("}")) this.fail("expected ',' or '}'");
  }

  items(each: () => void): void {
    if (this.is("]")) return;
    do {
      this.space();
      each();
    } while (this.is(","));
    if (!this.is("]")) this.fail("expected ',' or ']'");
  }

  end(): void {
    this.space();
    if (this.at < this.text.length) this.fail("unexpected text after the value");
  }

  node(): JsonNode {
    const start = this.at;
    const text = (): string => this.text.slice(start, this.at);
    switch (this.text[this.at]) {
      case "{": {
        this.at += 1;
        const entries: (readonly [string, JsonNode])[] = [];
        this.members((name) => entries.push([name, this.node()]));
        return { kind: "object", text: text(), entries };
      }
      case "[": {
        this.at += 1;
        const items: JsonNode[] = [];
        this.items(() => items.push(this.node()));
        return { kind: "array", text: text(), items };
      }
      case '"':
        return { kind: "string", value: this.string(), text: text() };
      default: {
        const found = this.scalar();
        return { kind: /[a-z]/.test(found[0] ?? "") ? "literal" : "number", text: found };
      }
    }
  }

  /** Passes over a value; the text is an answer of the engine, so its syntax is not checked. */
  skip(): void {
    let depth = 0;
    for (; this.at < this.text.length; this.at += 1) {
      const code = this.text.charCodeAt(this.at);
      if (code === 34) {
        this.skipString();
        this.at -= 1;
      } else if (code === 123 || code === 91) depth += 1;
      else if (code === 125 || code === 93) {
        if (depth === 0) return;
        depth -= 1;
      } else if (code === 44 && depth === 0) return;
    }
  }

  record(): unknown {
    switch (this.text[this.at]) {
      case "{": {
        this.at += 1;
        const found: Record<string, unknown> = {};
        this.members((name) => define(found, name, this.isDocument(name) ? this.document() : this.record()));
        return found;
      }
      case "[": {
        this.at += 1;
        const found: unknown[] = [];
        this.items(() => found.push(this.record()));
        return found;
      }
      case '"':
        return this.string();
      default:
        return JSON.parse(this.scalar()) as unknown;
    }
  }

  /** Whether a field holds a document; `state` is also the name of plain words, as of a failure group. */
  isDocument(name: string): boolean {
    return DOCUMENTS.has(name) && (name !== "state" || this.text[this.at] === "{");
  }

  document(): Doc {
    const start = this.at;
    this.skip();
    return new Doc(this.text.slice(start, this.at).trimEnd());
  }
}

function define(target: Record<string, unknown>, name: string, value: unknown): void {
  // A plain assignment of this one name would change the prototype.
  if (name === "__proto__") Object.defineProperty(target, name, { value, enumerable: true, configurable: true });
  else target[name] = value;
}

/** Reads an answer of the engine: records as plain values, documents of users as `Doc`. */
export function parseAnswer(text: string): unknown {
  const reader = new Reader(text);
  reader.space();
  return reader.record();
}

/** Reads one document as nodes; raises `JsonMistake`. */
export function parseNode(text: string): JsonNode {
  const reader = new Reader(text);
  reader.space();
  const found = reader.node();
  reader.end();
  return found;
}

/** Returns the mistake in a text that should be JSON, or null. */
export function mistakeIn(text: string): JsonMistake | null {
  try {
    parseNode(text);
    return null;
  } catch (error) {
    if (error instanceof JsonMistake) return error;
    throw error;
  }
}

/** Returns a document with two spaces of indentation; every number keeps its digits. */
export function pretty(node: JsonNode, indent = ""): string {
  const inner = `${indent}  `;
  if (node.kind === "object" && node.entries.length > 0) {
    const lines = node.entries.map(([name, value]) => `${inner}${JSON.stringify(name)}: ${pretty(value, inner)}`);
    return `{\n${lines.join(",\n")}\n${indent}}`;
  }
  if (node.kind === "array" && node.items.length > 0) {
    return `[\n${node.items.map((item) => inner + pretty(item, inner)).join(",\n")}\n${indent}]`;
  }
  return node.kind === "object" ? "{}" : node.kind === "array" ? "[]" : node.text;
}
