import type { ComponentChildren } from "preact";
import { now } from "../data/clock";
import type { WaitingOn } from "../data/records";
import { ticked } from "../model/waiting";

/** A sentence of the engine, with names in quotes set apart and durations that go on. */
export function Sentence({ text, told }: { readonly text: string; readonly told: WaitingOn }) {
  const shown =
    told.as_of === undefined ? text : ticked(text, { ...told }, told.as_of, Math.max(now.value, told.as_of));
  return <>{styled(shown)}</>;
}

/** Marks the parts in quotes; the text itself stays as it is. */
export function styled(text: string): ComponentChildren {
  return text.split(/('[^']+')/).map((part, index) => (index % 2 === 1 ? <b class="name">{part}</b> : part));
}
