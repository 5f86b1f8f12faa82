import { now } from "../data/clock";
import { brief, duration, isoTime, relative, short, stamp } from "../model/times";

interface Props {
  readonly at: number;
  /** `ago`: `12 s ago`; `short`: `12 s`; `brief`: time of day; `stamp`: date and time. */
  readonly as?: "ago" | "short" | "brief" | "stamp";
}

/** A time: relative in lists, absolute with its zone on hover and focus. */
export function Time({ at, as = "ago" }: Props) {
  const current = now.value;
  const text = {
    ago: relative,
    brief,
    short: (time: number) => shortOf(time, current),
    stamp: (time: number) => stamp(time),
  }[as];
  return (
    <time dateTime={isoTime(at)} title={`${stamp(at)}\n${stamp(at, true)}`}>
      {text(at, current)}
    </time>
  );
}

const shortOf = (time: number, current: number): string =>
  time > current ? `in ${short(time - current)}` : short(current - time);

/** How long something took, or takes until now. */
export function Lasted({ from, to }: { readonly from: number; readonly to: number | null }) {
  return <span class="digits">{duration((to ?? Math.max(now.value, from)) - from)}</span>;
}
