import { useResource } from "../../data/resource";
import { listRuns } from "../../data/runs";
import { href, namespace } from "../../router";

/** In place of a run that is not in this namespace: where else its id is known. */
export function NoRun({ id, isPanel }: { readonly id: string; readonly isPanel: boolean }) {
  const found = useResource(JSON.stringify(["elsewhere", id]), (signal) =>
    listRuns({ namespace: "*", workflow_id: id, limit: 50 }, signal),
  );
  const others = [...new Set((found.state.value.value?.rows ?? []).map((run) => run.namespace))].filter(
    (ns) => ns !== namespace.value,
  );
  const Title = isPanel ? "h2" : "h1";
  return (
    <div class="problem" role="alert">
      <Title class="id">{id}</Title>
      <p class="problem-sentence">
        There is no run '{id}' in namespace '{namespace.value}'.
      </p>
      {others.length > 0 && (
        <p>
          It is in{" "}
          {others.map((ns) => (
            <a key={ns} class="button" href={href({ view: "run", id, query: { ns } })}>
              {ns}
            </a>
          ))}
        </p>
      )}
    </div>
  );
}
