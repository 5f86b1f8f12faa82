import { dismiss, notices } from "../data/notices";
import { Icon } from "../parts/Icon";

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
