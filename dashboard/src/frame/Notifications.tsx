import { signal } from "@preact/signals";
import { Icon } from "../parts/Icon";

export interface Notice {
  readonly id: number;
  readonly text: string;
  readonly tone: "plain" | "bad";
  readonly link?: { readonly href: string; readonly label: string };
}

const notices = signal<readonly Notice[]>([]);
const STAY_MS = 6_000;
let ids = 0;

/** Shows a sentence for some seconds; screen readers announce it politely. */
export function notify(text: string, more: Partial<Pick<Notice, "tone" | "link">> = {}): void {
  const notice: Notice = { id: (ids += 1), text, tone: "plain", ...more };
  notices.value = [...notices.value.slice(-3), notice];
  setTimeout(() => dismiss(notice.id), STAY_MS);
}

const dismiss = (id: number): void => {
  notices.value = notices.value.filter((notice) => notice.id !== id);
};

export const Notifications = () => (
  <div class="notices" role="status" aria-label="Notifications">
    {notices.value.map((notice) => (
      <div key={notice.id} class={`notice ${notice.tone}`}>
        <span>{notice.text}</span>
        {notice.link && <a href={notice.link.href}>{notice.link.label}</a>}
        <button type="button" class="icon-button" aria-label="Dismiss" onClick={() => dismiss(notice.id)}>
          <Icon name="close" />
        </button>
      </div>
    ))}
  </div>
);
