// What is said of schedules: states, policies, and which fields of a form have changed. Pure.

export const OVERLAPS: readonly (readonly [string, string])[] = [
  ["skip", "skip: leave the fire out while a run is open"],
  ["queue", "queue: start when the open run closes"],
  ["cancel_old", "cancel_old: cancel the open run, then start"],
  ["terminate_old", "terminate_old: terminate the open run, then start"],
  ["allow_all", "allow_all: start beside the open run"],
];
export const MISSED: readonly (readonly [string, string])[] = [
  ["last", "last: catch up with the last missed fire"],
  ["all", "all: catch up with every missed fire"],
  ["skip", "skip: leave missed fires out"],
];
export const DST: readonly (readonly [string, string])[] = [
  ["skip", "skip: a time that does not exist is left out"],
  ["shift", "shift: it fires after the change"],
  ["both", "both: a time that exists twice fires twice"],
];

export const OUTCOME_GLYPHS: Readonly<Record<string, string>> = {
  started: "✓",
  queued: "◔",
  skipped: "·",
  dropped: "⊘",
  missed: "⧖",
  paused: "❚❚",
  failed: "✕",
};

/** Texts of a form, by field. */
export type Form = Readonly<Record<string, string>>;

/** Returns the fields whose text differs from before. */
export function changed(before: Form, after: Form): Form {
  return Object.fromEntries(
    Object.entries(after).filter(([name, text]) => text.trim() !== (before[name] ?? "").trim()),
  );
}

/** Returns a wall-clock time in a zone, as `2026-01-05 02:00:00`. */
export function inZone(time: number, zone: string): string {
  const options: Intl.DateTimeFormatOptions = { timeZone: zone, dateStyle: "short", timeStyle: "medium" };
  try {
    return new Intl.DateTimeFormat("sv-SE", options).format(new Date(time * 1_000));
  } catch {
    return "";
  }
}
