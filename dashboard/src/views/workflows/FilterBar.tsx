import { useEffect, useRef, useState } from "preact/hooks";
import { mistakeIn } from "../../json/parse";
import { type Filter, SINCE, chips, isFiltered, words } from "../../model/filter";
import { STATUS_WORDS } from "../../model/run";
import { Icon } from "../../parts/Icon";

type Query = Readonly<Record<string, string>>;

interface Props {
  readonly filter: Filter;
  readonly types: readonly string[];
  readonly queues: readonly string[];
  readonly counts: Readonly<Record<string, string>>;
  readonly canFilterByAttention: boolean;
  readonly onChange: (patch: Query, how?: "push" | "replace") => void;
  readonly onClear: () => void;
}

const TYPING_MS = 250;

/** Returns the text of a field that follows the address, but not while it is being typed into. */
function useTyped(value: string): [string, (text: string) => void, { current: HTMLInputElement | null }] {
  const [text, setText] = useState(value);
  const field = useRef<HTMLInputElement>(null);
  useEffect(() => {
    if (document.activeElement !== field.current) setText(value);
  }, [value]);
  return [text, setText, field];
}

function Search({ filter, onChange }: Pick<Props, "filter" | "onChange">) {
  const [text, setText, field] = useTyped(filter.text);
  const timer = useRef<ReturnType<typeof setTimeout> | undefined>(undefined);
  const apply = (value: string): void => {
    clearTimeout(timer.current);
    const found = words(value, filter);
    if (Object.keys(found.patch).length > 0) setText(found.text);
    onChange({ ...found.patch, q: found.text }, "replace");
  };
  return (
    <div class="search">
      <Icon name="search" />
      <input
        ref={field}
        type="search"
        aria-label="Search workflows"
        placeholder="Search id or type…"
        value={text}
        onInput={(event) => {
          const { value } = event.currentTarget;
          setText(value);
          clearTimeout(timer.current);
          timer.current = setTimeout(() => apply(value), TYPING_MS);
        }}
        onKeyDown={(event) => {
          if (event.key === "Enter") apply(text);
          if (event.key === "Escape") field.current?.blur();
        }}
      />
    </div>
  );
}

interface ChoiceProps {
  readonly label: string;
  readonly value: string;
  readonly options: readonly string[];
  readonly onChange: (value: string) => void;
}

/** A field with suggestions; any other text may be typed, too. */
function Choice({ label, value, options, onChange }: ChoiceProps) {
  const [text, setText, field] = useTyped(value);
  const id = `options-${label.toLowerCase()}`;
  const timer = useRef<ReturnType<typeof setTimeout> | undefined>(undefined);
  return (
    <>
      <input
        ref={field}
        class="choice"
        role="combobox"
        aria-label={label}
        aria-expanded="false"
        aria-controls={id}
        placeholder={label}
        list={id}
        value={text}
        onInput={(event) => {
          const next = event.currentTarget.value;
          setText(next);
          clearTimeout(timer.current);
          timer.current = setTimeout(() => onChange(next.trim()), options.includes(next) ? 0 : TYPING_MS);
        }}
      />
      <datalist id={id}>
        {options.map((option) => (
          <option key={option} value={option} />
        ))}
      </datalist>
    </>
  );
}

function Attributes({ filter, onChange }: Pick<Props, "filter" | "onChange">) {
  const [text, setText, field] = useTyped(filter.attributes);
  const problem = attributesProblem(text);
  return (
    <span class="attributes">
      <input
        ref={field}
        type="text"
        class="mono"
        aria-label="Search attributes"
        placeholder='{"env": "prod"}'
        aria-invalid={problem !== null}
        aria-describedby="attributes-problem"
        value={text}
        onInput={(event) => {
          const { value } = event.currentTarget;
          setText(value);
          if (attributesProblem(value) === null) onChange({ attrs: value.trim() }, "replace");
        }}
      />
      <span id="attributes-problem" class="field-problem">
        {problem}
      </span>
    </span>
  );
}

function attributesProblem(text: string): string | null {
  if (text.trim() === "") return null;
  const found = mistakeIn(text);
  if (found !== null) return `Line ${found.line}, column ${found.column}: ${found.message}`;
  return text.trim().startsWith("{") ? null : "Expected a JSON object";
}

function StatusButtons({ filter, counts, canFilterByAttention, onChange }: Props) {
  const toggle = (status: string): void => {
    const chosen = filter.statuses.includes(status)
      ? filter.statuses.filter((one) => one !== status)
      : [...filter.statuses, status];
    onChange({ status: chosen.join(",") });
  };
  const attention = (value: string): void => onChange({ attention: filter.attention === value ? "" : value });
  const button = (label: string, pressed: boolean, press: () => void, count?: string) => (
    <button
      key={label}
      type="button"
      class="chip"
      aria-pressed={pressed}
      aria-label={label}
      data-count={count}
      onClick={press}
    >
      {label}
    </button>
  );
  const none = filter.statuses.length === 0 && filter.attention === "";
  return (
    <div class="chips" role="group" aria-label="Status">
      {button("All", none, () => onChange({ status: "", attention: "" }), counts["all"])}
      {STATUS_WORDS.map(([status, word]) =>
        button(word, filter.statuses.includes(status), () => toggle(status), counts[status]),
      )}
      {canFilterByAttention &&
        button("Blocked", filter.attention === "operator", () => attention("operator"), counts["operator"])}
      {canFilterByAttention &&
        button("Needs a person", filter.attention === "person", () => attention("person"), counts["person"])}
    </div>
  );
}

export function FilterBar(props: Props) {
  const { filter, onChange } = props;
  return (
    <div class="filters" role="search">
      <div class="filter-fields">
        <Search filter={filter} onChange={onChange} />
        <Choice
          label="Type"
          value={filter.type}
          options={props.types}
          onChange={(type) => onChange({ type }, "replace")}
        />
        <Choice
          label="Queue"
          value={filter.queue}
          options={props.queues}
          onChange={(queue) => onChange({ queue }, "replace")}
        />
        <Attributes filter={filter} onChange={onChange} />
        <select
          aria-label="Started"
          value={filter.since}
          onChange={(event) => onChange({ since: event.currentTarget.value, from: "", to: "" })}
        >
          <option value="">Any time</option>
          {SINCE.map(([value, label]) => (
            <option key={value} value={value}>
              {label}
            </option>
          ))}
        </select>
      </div>
      <div class="filter-chips">
        <StatusButtons {...props} />
        {chips(filter).map((chip) => (
          <button key={chip.label} type="button" class="chip removable" onClick={() => onChange(chip.without)}>
            {chip.label} <Icon name="close" />
          </button>
        ))}
        {isFiltered(filter) && (
          <button type="button" class="button quiet" onClick={props.onClear}>
            Clear filters
          </button>
        )}
      </div>
    </div>
  );
}
