import { CopyButton } from "../../parts/Copy";
import { Empty } from "../../parts/Window";
import { namespace } from "../../router";

interface Props {
  readonly isFiltered: boolean;
  readonly hasWorkers: boolean;
  readonly onClear: () => void;
}

const Command = ({ text }: { readonly text: string }) => (
  <p class="command">
    <code>{text}</code>
    <CopyButton text={text} label="Copy" iconOnly />
  </p>
);

/** In place of the table: no run matches, or there is none yet. */
export function NoRuns({ isFiltered, hasWorkers, onClear }: Props) {
  if (isFiltered) {
    return (
      <Empty title="No run matches.">
        <button type="button" class="button" onClick={onClear}>
          Clear filters
        </button>
      </Empty>
    );
  }
  const where = namespace.value === "main" ? "" : ` --namespace ${namespace.value}`;
  return (
    <Empty title="No runs yet.">
      <p class="muted">Start one from a shell, or from code:</p>
      <Command text={`assay${where} workflow start --type Order --input '{"order": 81}'`} />
      {!hasWorkers && (
        <>
          <p class="muted">No worker is known in namespace {namespace.value}. A worker runs the workflows of a file:</p>
          <Command text="assay run workflows.py" />
        </>
      )}
    </Empty>
  );
}
