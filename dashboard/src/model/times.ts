// Durations and times in words. Pure: the time now is an argument. All values are seconds since the epoch.

const UNITS = [
  [86_400, "d"],
  [3_600, "h"],
  [60, "min"],
  [1, "s"],
] as const;

/** Returns a duration in whole seconds as the engine's sentences have it: `2 h 3 min`, rounded down or `up`. */
export function span(seconds: number, up = false): string {
  // In whole microseconds, because sums of floating point seconds may miss a full second.
  const micros = Math.round(seconds * 1e6);
  const whole = Math.max(up ? Math.ceil(micros / 1e6) : Math.floor(micros / 1e6), 0);
  for (const [place, [size, unit]] of UNITS.entries()) {
    if (whole < size) continue;
    const [smaller, name] = UNITS[Math.min(place + 1, UNITS.length - 1)] ?? [1, "s"];
    const rest = Math.floor((whole % size) / smaller);
    return `${Math.floor(whole / size)} ${unit}${rest ? ` ${rest} ${name}` : ""}`;
  }
  return "0 s";
}

/** Returns a measured duration: with tenths or milliseconds where it is short. */
export function duration(seconds: number): string {
  if (seconds < 0) return "0 s";
  if (seconds < 0.0995) return `${Math.round(seconds * 1_000)} ms`;
  if (seconds < 9.95) return `${seconds.toFixed(1)} s`;
  return span(seconds);
}

/** Returns a past or coming time as `12 s ago` or `in 12 s`. */
export function relative(time: number, now: number): string {
  if (time > now) return `in ${span(time - now, true)}`;
  return now - time < 1 ? "just now" : `${short(now - time)} ago`;
}

/** Returns a duration in one unit, for narrow columns. */
export function short(seconds: number): string {
  const whole = Math.max(Math.floor(seconds), 0);
  const [size, unit] = UNITS.find(([least]) => whole >= least) ?? [1, "s"];
  return `${Math.floor(whole / size)} ${unit}`;
}

const twoDigits = (value: number): string => String(value).padStart(2, "0");

/** Returns the local time of day, with milliseconds if they are wanted. */
export function clock(time: number, milliseconds = false): string {
  const at = new Date(time * 1_000);
  const text = [at.getHours(), at.getMinutes(), at.getSeconds()].map(twoDigits).join(":");
  return milliseconds ? `${text}.${String(at.getMilliseconds()).padStart(3, "0")}` : text;
}

/** Returns date and time: local with the offset of the zone, or in UTC. */
export function stamp(time: number, utc = false): string {
  const at = new Date(time * 1_000);
  if (Number.isNaN(at.getTime())) return String(time);
  if (utc) return `${at.toISOString().slice(0, 19).replace("T", " ")} UTC`;
  const date = [at.getFullYear(), twoDigits(at.getMonth() + 1), twoDigits(at.getDate())].join("-");
  const minutes = -at.getTimezoneOffset();
  const offset = `${minutes < 0 ? "-" : "+"}${twoDigits(Math.floor(Math.abs(minutes) / 60))}:${twoDigits(Math.abs(minutes) % 60)}`;
  return `${date} ${clock(time)} ${minutes === 0 ? "UTC" : offset}`;
}

export const isoTime = (time: number): string => {
  const at = new Date(time * 1_000);
  return Number.isNaN(at.getTime()) ? "" : at.toISOString();
};

/** Returns the time of day without seconds, with the date unless it is today. */
export function brief(time: number, now: number): string {
  const at = new Date(time * 1_000);
  const day = at.toDateString() === new Date(now * 1_000).toDateString() ? "" : `${stamp(time).slice(0, 10)} `;
  return `${day}${clock(time).slice(0, 5)}`;
}
