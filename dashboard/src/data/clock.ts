// One clock for the page: it ticks once a second while the page is visible.
import { signal } from "@preact/signals";

/** Now, in seconds since the epoch. */
export const now = signal(Date.now() / 1_000);

export const hidden = signal(document.hidden);

export function startClock(): void {
  const tick = (): void => {
    if (!document.hidden) now.value = Date.now() / 1_000;
  };
  setInterval(tick, 1_000);
  document.addEventListener("visibilitychange", () => {
    hidden.value = document.hidden;
    tick();
  });
}
