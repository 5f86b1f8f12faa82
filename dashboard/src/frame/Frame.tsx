import { ActionHost } from "../actions/Action";
import type { ComponentType } from "preact";
import { useEffect, useState } from "preact/hooks";
import { refreshAll } from "../data/resource";
import { health } from "../data/session";
import { toggleTheme } from "../data/theme";
import { useKeys } from "../keys";
import { type View, go, route, setQuery } from "../router";
import { loadView } from "../views/table";
import { Footer } from "./Footer";
import { Notifications } from "./Notifications";
import { Panel } from "./Panel";
import { Shortcuts, helpOpen } from "./Shortcuts";
import { entryRoute } from "./Sidebar";
import { announcement, viewState } from "./view";

interface Shown {
  readonly view: View;
  readonly Component: ComponentType;
}

/** Loads the chunk of the current view; the view before stays until it is there. */
function useShownView(): Shown | null {
  const [shown, setShown] = useState<Shown | null>(null);
  const { view } = route.value;
  useEffect(() => {
    let wanted = true;
    viewState.value = "loading";
    void loadView(view).then((Component) => wanted && setShown({ view, Component }));
    return () => {
      wanted = false;
    };
  }, [view]);
  return shown?.view === view ? shown : null;
}

const GO: readonly (readonly [string, View, string])[] = [
  ["g w", "workflows", "Go to Workflows"],
  ["g f", "failures", "Go to Failures"],
  ["g s", "schedules", "Go to Schedules"],
  ["g k", "workers", "Go to Workers"],
  ["g q", "queues", "Go to Queues"],
  ["g ,", "settings", "Go to Settings"],
];

function useFrameKeys(): void {
  useKeys("Everywhere", [
    { keys: "/", label: "Search", run: () => document.querySelector<HTMLElement>('input[type="search"]')?.focus() },
    ...GO.map(([keys, view, label]) => ({ keys, label, run: () => go(entryRoute(view)) })),
    { keys: "n", label: "Choose the namespace", run: () => document.getElementById("namespace")?.focus() },
    { keys: "t", label: "Switch the theme", run: toggleTheme },
    { keys: "r", label: "Read everything again", run: refreshAll },
    { keys: "?", label: "Show the keys", run: () => (helpOpen.value = true) },
    {
      keys: "Escape",
      label: "Close the topmost thing",
      run: () => route.value.query["wf"] && setQuery({ wf: "", run: "", tab: "" }),
    },
  ]);
}

export function Frame() {
  const shown = useShownView();
  useFrameKeys();
  const { view } = route.value;
  return (
    <>
      {health.value?.auth === "none" && (
        <p class="banner" role="note">
          Anyone who can reach this server can do everything (no auth).
        </p>
      )}
      <div class="stage-body">
        <main
          id="content"
          tabIndex={-1}
          data-view={view}
          data-state={viewState.value}
          aria-busy={viewState.value === "loading"}
        >
          {shown && <shown.Component />}
        </main>
        {view === "workflows" && route.value.query["wf"] && <Panel id={route.value.query["wf"]} />}
      </div>
      <Footer />
      <ActionHost />
      <Notifications />
      <Shortcuts />
      <div class="visually-hidden" aria-live="polite">
        {announcement.value}
      </div>
    </>
  );
}
