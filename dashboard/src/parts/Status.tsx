import { type RunState, badgeOf } from "../model/run";

/** The state of a run: glyph, word and colour. */
export function Status({ run, testId = false }: { readonly run: RunState; readonly testId?: boolean }) {
  const badge = badgeOf(run);
  return (
    <span
      class={`status tone-${badge.tone} shape-${badge.shape}`}
      data-status={run.status}
      data-badge={badge.key}
      {...(testId ? { "data-testid": "status" } : {})}
    >
      <span class="status-glyph" aria-hidden="true" data-glyph={badge.key === "running" ? "" : badge.glyph}>
        {badge.key === "running" && <Ring />}
      </span>
      {badge.word}
    </span>
  );
}

/** A ring that turns; it stands still where motion is reduced. */
export const Ring = ({ name = "ring" }: { readonly name?: string }) => (
  <svg class={name} viewBox="0 0 16 16" aria-hidden="true">
    <circle
      cx="8"
      cy="8"
      r="5.5"
      fill="none"
      stroke="currentColor"
      stroke-width="2"
      stroke-dasharray="26 9"
      stroke-linecap="round"
    />
  </svg>
);
