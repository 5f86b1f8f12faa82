// Sentences shown for some seconds; screen readers announce them politely.
import { signal } from "@preact/signals";

export interface Notice {
  readonly id: number;
  readonly text: string;
  readonly tone: "plain" | "bad";
  readonly link?: { readonly href: string; readonly label: string };
}

export const notices = signal<readonly Notice[]>([]);
const STAY_MS = 6_000;
let ids = 0;

/** Shows a sentence, with a link where one helps. */
export function notify(text: string, more: Partial<Pick<Notice, "tone" | "link">> = {}): void {
  const notice: Notice = { id: (ids += 1), text, tone: "plain", ...more };
  notices.value = [...notices.value.slice(-3), notice];
  setTimeout(() => dismiss(notice.id), STAY_MS);
}

export const dismiss = (id: number): void => {
  notices.value = notices.value.filter((notice) => notice.id !== id);
};
