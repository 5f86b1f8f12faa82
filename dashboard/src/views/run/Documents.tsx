import type { RunRecord } from "../../data/records";
import type { Doc } from "../../json/parse";
import { JsonViewer } from "../../json/Viewer";
import { Empty } from "../../parts/Window";
import { FailureCard } from "./FailureCard";
import type { TabProps } from "./tabs";

const documentsOf = (run: RunRecord): readonly (readonly [string, Doc])[] =>
  (
    [
      ["Input", run.input],
      ["Result", run.result],
      ["Search attributes", run.search_attributes],
      ["Memo", run.memo],
      ["Context", run.context],
    ] as const
  ).filter(([, doc]) => doc !== undefined && !doc.isNull);

/** The documents of a run, each as it was written. */
export function Documents({ run }: TabProps) {
  const documents = documentsOf(run);
  return (
    <div class="documents">
      {run.failure !== null && (
        <section>
          <h3>Error</h3>
          <FailureCard failure={run.failure} />
        </section>
      )}
      {documents.map(([name, doc]) => (
        <section key={name} class="card" aria-label={name}>
          <h3>{name}</h3>
          <JsonViewer doc={doc} name={name} tools />
        </section>
      ))}
      {documents.length === 0 && run.failure === null && <Empty title="This run has no documents." />}
    </div>
  );
}
