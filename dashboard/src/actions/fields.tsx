import type { ComponentChildren } from "preact";
import { useId } from "preact/hooks";

interface TextProps {
  readonly label: string;
  readonly value: string;
  readonly onChange: (text: string) => void;
  readonly placeholder?: string;
  readonly options?: readonly string[];
  readonly isRequired?: boolean;
  readonly problem?: string | null;
  readonly hint?: ComponentChildren;
}

/** A line of text, with suggestions where there are any. */
export function TextField({
  label,
  value,
  onChange,
  placeholder,
  options,
  isRequired = false,
  problem = null,
  hint,
}: TextProps) {
  const id = useId();
  return (
    <div class="field">
      <label class="field-label" htmlFor={id}>
        {label}
      </label>
      <input
        id={id}
        type="text"
        value={value}
        placeholder={placeholder}
        required={isRequired}
        list={options ? `${id}-options` : undefined}
        role={options ? "combobox" : undefined}
        aria-expanded={options ? "false" : undefined}
        aria-controls={options ? `${id}-options` : undefined}
        aria-invalid={problem !== null}
        aria-describedby={`${id}-problem`}
        autocomplete="off"
        spellcheck={false}
        onInput={(event) => onChange(event.currentTarget.value)}
      />
      {options && (
        <datalist id={`${id}-options`}>
          {options.map((option) => (
            <option key={option} value={option} />
          ))}
        </datalist>
      )}
      {hint && <span class="muted hint">{hint}</span>}
      <span id={`${id}-problem`} class="field-problem">
        {problem}
      </span>
    </div>
  );
}

interface SelectProps {
  readonly label: string;
  readonly value: string;
  readonly options: readonly (readonly [string, string])[];
  readonly onChange: (value: string) => void;
}

export function SelectField({ label, value, options, onChange }: SelectProps) {
  const id = useId();
  return (
    <div class="field">
      <label class="field-label" htmlFor={id}>
        {label}
      </label>
      <select id={id} value={value} onChange={(event) => onChange(event.currentTarget.value)}>
        {options.map(([key, text]) => (
          <option key={key} value={key}>
            {text}
          </option>
        ))}
      </select>
    </div>
  );
}

/** Returns a JSON object as text from fields whose values are JSON texts; those that are null are left out. */
export function objectText(fields: Readonly<Record<string, string | null>>): string {
  const given = Object.entries(fields).filter(([, value]) => value !== null);
  return `{${given.map(([name, value]) => `${JSON.stringify(name)}: ${value as string}`).join(", ")}}`;
}

/** Returns a text as JSON, or null for an empty one. */
export const textOrNull = (text: string): string | null => (text.trim() === "" ? null : JSON.stringify(text.trim()));
/** Returns a JSON text as typed, or null for an empty one. */
export const jsonOrNull = (text: string): string | null => (text.trim() === "" ? null : text.trim());

/** A field into which the name or number has to be typed before something that cannot be undone. */
export const Confirm = ({
  word,
  value,
  onChange,
}: {
  readonly word: string;
  readonly value: string;
  readonly onChange: (text: string) => void;
}) => <TextField label={`Type ${word} to confirm`} value={value} onChange={onChange} isRequired />;
