import { type BulkVerb, askAbout } from "../../actions/bulk";
import type { RunRecord } from "../../data/records";
import { actRefusal } from "../../data/session";

interface Props {
  readonly runs: readonly RunRecord[];
  readonly onClear: () => void;
  readonly onDone: () => void;
}

const VERBS: readonly BulkVerb[] = ["Retry", "Signal", "Cancel", "Terminate"];

/** What can be done with all selected runs; it stays in view at the bottom. */
export function SelectionBar({ runs, onClear, onDone }: Props) {
  if (runs.length === 0) return null;
  return (
    <div class="selection" role="region" aria-label="Selection">
      <b class="digits">{runs.length} selected</b>
      <span class="spacer" />
      {VERBS.map((verb) => (
        <button
          key={verb}
          type="button"
          class="button"
          aria-label={`${verb} selected`}
          disabled={actRefusal.value !== null}
          title={actRefusal.value ?? undefined}
          onClick={() => askAbout({ verb, runs, onDone })}
        >
          {verb}…
        </button>
      ))}
      <button type="button" class="button quiet" onClick={onClear}>
        Clear
      </button>
    </div>
  );
}
