import { useId } from "preact/hooks";
import { mistakeIn, parseNode, pretty } from "./parse";

interface Props {
  readonly label: string;
  readonly value: string;
  readonly onChange: (text: string) => void;
  readonly placeholder?: string;
  readonly rows?: number;
  /** Whether only an object is right. */
  readonly isObject?: boolean;
}

/** Returns what is wrong with a text that should be JSON; an empty text is right. */
export function jsonProblem(text: string, isObject = false): string | null {
  if (text.trim() === "") return null;
  const found = mistakeIn(text);
  if (found !== null) return `Line ${found.line}, column ${found.column}: ${found.message}`;
  return isObject && !text.trim().startsWith("{") ? "Expected a JSON object" : null;
}

/** A field for JSON, sent as typed. Tab moves the focus; Enter keeps the indentation; Ctrl ] and Ctrl [ indent. */
export function JsonEditor({ label, value, onChange, placeholder, rows = 4, isObject = false }: Props) {
  const id = useId();
  const problem = jsonProblem(value, isObject);
  return (
    <div class="field">
      <div class="field-head">
        <label class="field-label" htmlFor={id}>
          {label}
        </label>
        <button
          type="button"
          class="button quiet"
          disabled={value.trim() === "" || mistakeIn(value) !== null}
          onClick={() => onChange(pretty(parseNode(value)))}
        >
          Format
        </button>
      </div>
      <textarea
        id={id}
        class="mono"
        rows={rows}
        spellcheck={false}
        placeholder={placeholder}
        value={value}
        aria-invalid={problem !== null}
        aria-describedby={`${id}-problem`}
        onInput={(event) => onChange(event.currentTarget.value)}
        onKeyDown={(event) => edit(event, onChange)}
      />
      <span id={`${id}-problem`} class="field-problem">
        {problem}
      </span>
    </div>
  );
}

function edit(event: KeyboardEvent & { currentTarget: HTMLTextAreaElement }, onChange: (text: string) => void): void {
  const area = event.currentTarget;
  const { selectionStart: start, selectionEnd: end, value } = area;
  const lineStart = value.lastIndexOf("\n", start - 1) + 1;
  if (event.key === "Enter" && !event.ctrlKey && !event.metaKey) {
    const indent = /^\s*/.exec(value.slice(lineStart, start))?.[0] ?? "";
    area.setRangeText(`\n${indent}`, start, end, "end");
  } else if (event.ctrlKey && event.key === "]") {
    area.setRangeText("  ", lineStart, lineStart, "preserve");
  } else if (event.ctrlKey && event.key === "[" && value.startsWith("  ", lineStart)) {
    area.setRangeText("", lineStart, lineStart + 2, "preserve");
  } else return;
  event.preventDefault();
  onChange(area.value);
}
