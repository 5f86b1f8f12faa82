import { Icon } from "../../parts/Icon";

/** The pill above the table: new runs wait behind it while the list is being read. */
export const NewRuns = ({ count, onShow }: { readonly count: number; readonly onShow: () => void }) => (
  <div class="pill-row">
    <button
      type="button"
      class="pill"
      aria-label="New runs"
      onClick={() => {
        onShow();
        document.getElementById("content")?.scrollTo({ top: 0 });
      }}
    >
      <Icon name="up" />
      {count === 1 ? "1 new run" : `${count} new runs`}
    </button>
  </div>
);
