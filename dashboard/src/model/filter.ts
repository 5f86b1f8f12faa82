// The filter of the list of runs: words of the search box, parameters of the address, parameters of the API.

export interface Filter {
  readonly text: string;
  readonly statuses: readonly string[];
  readonly type: string;
  readonly queue: string;
  readonly attributes: string;
  readonly since: string;
  readonly from: string;
  readonly to: string;
  readonly attention: string;
  readonly waiting: string;
  readonly failure: string;
  readonly schedule: string;
  readonly parent: string;
  readonly roots: boolean;
}

export const SINCE: readonly (readonly [string, string, number])[] = [
  ["15m", "Last 15 minutes", 900],
  ["1h", "Last hour", 3_600],
  ["24h", "Last 24 hours", 86_400],
  ["7d", "Last 7 days", 604_800],
  ["30d", "Last 30 days", 2_592_000],
];

type Query = Readonly<Record<string, string>>;

export function filterOf(query: Query): Filter {
  const at = (name: string): string => query[name] ?? "";
  return {
    text: at("q"),
    statuses: at("status").split(",").filter(Boolean),
    type: at("type"),
    queue: at("queue"),
    attributes: at("attrs"),
    since: at("since"),
    from: at("from"),
    to: at("to"),
    attention: at("attention"),
    waiting: at("waiting"),
    failure: at("failure"),
    schedule: at("schedule"),
    parent: at("parent"),
    roots: at("roots") === "1",
  };
}

/** The parameters of the address that belong to the filter, all empty. */
export const NO_FILTER: Query = Object.fromEntries(
  "q status type queue attrs since from to attention waiting failure schedule parent roots cursor before"
    .split(" ")
    .map((name) => [name, ""]),
);

export const isFiltered = (filter: Filter): boolean =>
  Object.values(filter).some((value) => (Array.isArray(value) ? value.length > 0 : Boolean(value)));

/** Returns the parameters of a list request; `now` in seconds is rounded, so that equal filters have equal requests. */
export function parameters(filter: Filter, now: number): Record<string, string> {
  const seconds = SINCE.find(([name]) => name === filter.since)?.[2];
  const wanted: Record<string, string> = {
    text: filter.text,
    status: filter.statuses.join(","),
    type: filter.type,
    queue: filter.queue,
    search_attrs: filter.attributes,
    created_after: seconds === undefined ? filter.from : String(Math.floor(now - seconds)),
    created_before: filter.to,
    attention: filter.attention,
    waiting: filter.waiting,
    failure: filter.failure,
    schedule: filter.schedule,
    parent_id: filter.parent,
    roots: filter.roots ? "true" : "",
  };
  return Object.fromEntries(Object.entries(wanted).filter(([, value]) => value !== ""));
}

const WORDS = /(?:^|\s)(status|type|queue|since|waiting|is|attr\.[^\s:]+):("[^"]*"|\S+)/g;

/** Takes the words with a meaning out of a search text: `status:failed order` filters by status and text. */
export function words(text: string, known: Filter): { readonly text: string; readonly patch: Query } {
  const patch: Record<string, string> = {};
  const attributes: Record<string, unknown> = {};
  const rest = text.replace(WORDS, (whole: string, name: string, raw: string) => {
    const value = raw.replace(/^"|"$/g, "");
    if (name === "status") patch["status"] = [...known.statuses, value.toUpperCase().replace(" ", "_")].join(",");
    else if (name === "is" && value === "blocked") patch["attention"] = "operator";
    else if (name.startsWith("attr.")) attributes[name.slice(5)] = literal(raw);
    else if (name === "is") return whole;
    else patch[name] = value;
    return "";
  });
  if (Object.keys(attributes).length > 0) {
    const before = known.attributes === "" ? {} : (JSON.parse(known.attributes) as object);
    patch["attrs"] = JSON.stringify({ ...before, ...attributes });
  }
  return { text: rest.trim(), patch };
}

function literal(raw: string): unknown {
  try {
    return JSON.parse(raw) as unknown;
  } catch {
    return raw;
  }
}

export interface Chip {
  readonly label: string;
  /** The parameters that remove it. */
  readonly without: Query;
}

/** Returns the filters that no control of the view shows. */
export function chips(filter: Filter): readonly Chip[] {
  const found: Chip[] = [];
  const add = (name: string, value: string, label = `${name}: ${value}`): void => {
    if (value !== "") found.push({ label, without: { [name]: "" } });
  };
  add("from", filter.from, `started after ${filter.from}`);
  add("to", filter.to, `started before ${filter.to}`);
  add("waiting", filter.waiting);
  add("failure", filter.failure);
  add("schedule", filter.schedule);
  add("parent", filter.parent);
  add("roots", filter.roots ? "1" : "", "without children");
  return found;
}
