import { signal } from "@preact/signals";
import type { ComponentChildren } from "preact";
import { config } from "../config";
import { get } from "../data/client";
import type { NamespaceRecord } from "../data/records";
import { useResource } from "../data/resource";
import { hasFeature, isSignedOut, write } from "../data/session";
import { Icon, type IconName } from "../parts/Icon";
import { type Route, type View, go, here, href, namespace, route } from "../router";
import { hasView } from "../views/table";

const collapsed = signal(document.documentElement.classList.contains("collapsed"));
const more = signal(false);

interface Entry {
  readonly view: View;
  readonly icon: IconName;
  readonly label: string;
}
const ENTRIES: readonly Entry[] = [
  { view: "workflows", icon: "workflows", label: "Workflows" },
  { view: "failures", icon: "failures", label: "Failures" },
  { view: "schedules", icon: "schedules", label: "Schedules" },
  { view: "workers", icon: "workers", label: "Workers" },
  { view: "queues", icon: "queues", label: "Queues" },
  { view: "settings", icon: "settings", label: "Settings" },
];

/** Returns where a link of the sidebar leads; failures are a filter of the list where the engine has no groups. */
export function entryRoute(view: View): Route {
  if (view === "failures" && !(hasFeature("failures") && hasView("failures")))
    return { view: "workflows", query: here({ status: "FAILED,TIMED_OUT" }) };
  if (view === "workflows" || view === "settings") return { view, query: here() };
  return { view: view as "workers", name: null, query: here() };
}

const isCurrent = (entry: Entry): boolean => {
  const { view } = route.value;
  return view === entry.view || (view === "run" && entry.view === "workflows");
};

function NavLink({ entry }: { readonly entry: Entry }) {
  return (
    <a
      class="nav-link"
      href={href(entryRoute(entry.view))}
      aria-current={isCurrent(entry) ? "page" : undefined}
      title={collapsed.value ? entry.label : undefined}
      onClick={() => (more.value = false)}
    >
      <Icon name={entry.icon} />
      <span class="nav-label">{entry.label}</span>
    </a>
  );
}

function NamespaceSelect() {
  const known = useResource(
    "namespaces",
    async (signal) => (await get<NamespaceRecord[]>(["namespaces"], {}, signal)).value,
  );
  const names = [
    ...new Set([...(known.state.value.value ?? []).map((one) => one.name), config.defaultNamespace, namespace.value]),
  ].sort();
  return (
    <label class="namespace">
      <span class="visually-hidden">Namespace</span>
      <select
        id="namespace"
        value={namespace.value}
        onChange={(event) => go({ ...entryRoute(sameList()), query: { ns: event.currentTarget.value } } as Route)}
        onFocus={() => void known.refresh()}
      >
        {names.map((name) => (
          <option key={name} value={name}>
            {name}
          </option>
        ))}
      </select>
    </label>
  );
}

/** A run or schedule of one namespace means nothing in another: its list is shown. */
const sameList = (): View =>
  ["run", "login", "nothing", "batches"].includes(route.value.view) ? "workflows" : route.value.view;

export function SidebarViews(): ComponentChildren {
  document.getElementById("sidebar")?.classList.toggle("more-open", more.value);
  return (
    <>
      {!isSignedOut.value && route.value.view !== "login" && <NamespaceSelect />}
      <div class="nav-links">
        {ENTRIES.filter((entry) => entry.view === "failures" || hasView(entry.view)).map((entry) => (
          <NavLink key={entry.view} entry={entry} />
        ))}
        <button
          type="button"
          class="nav-link nav-more"
          aria-expanded={more.value}
          onClick={() => (more.value = !more.value)}
        >
          <Icon name="more" />
          <span class="nav-label">More</span>
        </button>
      </div>
    </>
  );
}

export const CollapseButton = () => (
  <button
    type="button"
    class="nav-link collapse"
    aria-label="Collapse sidebar"
    aria-pressed={collapsed.value}
    title="Collapse sidebar"
    onClick={() => {
      collapsed.value = !collapsed.value;
      document.documentElement.classList.toggle("collapsed", collapsed.value);
      write("assay-sidebar-collapsed", String(collapsed.value));
    }}
  >
    <Icon name="collapse" />
    <span class="nav-label">Collapse</span>
  </button>
);
