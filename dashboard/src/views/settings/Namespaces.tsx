import { ask } from "../../actions/Action";
import { CreateNamespaceDialog, DeleteNamespaceDialog } from "../../actions/namespaces";
import { get } from "../../data/client";
import type { NamespaceRecord, NamespaceStats } from "../../data/records";
import { useResource } from "../../data/resource";
import { manageRefusal } from "../../data/session";
import { Icon } from "../../parts/Icon";
import { Problem } from "../../parts/Problem";
import { Time } from "../../parts/Time";
import { href } from "../../router";

const HEADERS = ["Name", "Running", "Failed", "Schedules", "Workers", "Created", "Actions"];

export function Namespaces() {
  const found = useResource(
    "namespaces",
    async (signal) => (await get<NamespaceRecord[]>(["namespaces"], {}, signal)).value,
  );
  const { value, error } = found.state.value;
  const again = (): void => void found.refresh();
  return (
    <section aria-label="Namespaces">
      <div class="page-head">
        <h2>Namespaces</h2>
        <span class="spacer" />
        <button
          type="button"
          class="button"
          disabled={manageRefusal.value !== null}
          title={manageRefusal.value ?? undefined}
          onClick={() => ask(<CreateNamespaceDialog onDone={again} />)}
        >
          <Icon name="plus" />
          Create namespace
        </button>
      </div>
      {error && !value && <Problem problem={error} retry={again} />}
      <div class="table-box">
        <table class="table cards" aria-label="Namespaces">
          <thead>
            <tr>
              {HEADERS.map((header) => (
                <th key={header} scope="col">
                  {header}
                </th>
              ))}
            </tr>
          </thead>
          <tbody>
            {(value ?? []).map((one) => (
              <Row key={one.name} space={one} onDone={again} />
            ))}
          </tbody>
        </table>
      </div>
    </section>
  );
}

function Row({ space, onDone }: { readonly space: NamespaceRecord; readonly onDone: () => void }) {
  const { name } = space;
  const stats = useResource(
    `namespace ${name}`,
    async (signal) => (await get<NamespaceStats>(["namespaces", name], {}, signal)).value,
  );
  const counts = stats.state.value.value;
  const refusal = manageRefusal.value ?? (name === "main" ? "The namespace main cannot be deleted." : null);
  return (
    <tr data-testid="namespace-row" data-name={name}>
      <td data-label="Name" class="mono">
        <a class="id" href={href({ view: "workflows", query: { ns: name } })}>
          {name}
        </a>
      </td>
      <td data-label="Running" class="digits">
        {counts?.running ?? "…"}
      </td>
      <td data-label="Failed" class="digits">
        {counts?.failed ?? "…"}
      </td>
      <td data-label="Schedules" class="digits">
        {counts?.schedules ?? "…"}
      </td>
      <td data-label="Workers" class="digits">
        {counts?.workers ?? "…"}
      </td>
      <td data-label="Created">
        <Time at={space.created_at} />
      </td>
      <td data-label="Actions">
        <button
          type="button"
          class="icon-button"
          aria-label={`Delete namespace ${name}`}
          disabled={refusal !== null}
          title={refusal ?? "Delete"}
          onClick={() => ask(<DeleteNamespaceDialog name={name} onDone={onDone} />)}
        >
          <Icon name="trash" />
        </button>
      </td>
    </tr>
  );
}
