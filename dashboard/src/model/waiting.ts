// Sentences about what a run waits for. The engine writes them; here their durations go on and their times become local.
import { brief, span } from "./times";

export interface Told {
  readonly summary?: string;
  readonly sentence?: string;
  readonly since?: number | null;
  readonly until?: number | null;
  readonly [field: string]: unknown;
}

const PAST_FIELDS = ["since", "last_seen", "heartbeat_at"] as const;
const NEXT = String.raw`(?=[ .;:,)\]]|$)`;

/** Returns the sentence as of `now`, from the sentence as of `asOf`. */
export function ticked(text: string, told: Told, asOf: number, now: number): string {
  let found = text;
  const { until } = told;
  if (typeof until === "number") {
    found = swap(found, `in ${span(until - asOf, true)}`, `in ${span(until - now, true)}`);
    found = swap(found, `(${utc(until, asOf)})`, `(${brief(until, now)})`);
  }
  for (const field of PAST_FIELDS) {
    const time = told[field];
    if (typeof time === "number") found = swap(found, span(asOf - time), span(now - time));
  }
  return found;
}

function swap(text: string, old: string, fresh: string): string {
  if (old === fresh) return text;
  const escaped = old.replace(/[.*+?^${}()|[\]\\]/g, "\\$&");
  return text.replace(new RegExp(String.raw`(^|[ (])${escaped}${NEXT}`), (_, before: string) => before + fresh);
}

function utc(time: number, now: number): string {
  const [at, today] = [time, now].map((value) => new Date(value * 1_000).toISOString());
  const shown = at?.slice(0, 10) === today?.slice(0, 10) ? at?.slice(11, 16) : at?.slice(0, 16).replace("T", " ");
  return `${shown} UTC`;
}

/** The glyph of an attention, for lists of waits. */
export const ATTENTION_GLYPHS: Readonly<Record<string, string>> = {
  none: "·",
  watch: "◔",
  person: "✋",
  operator: "▲",
};
