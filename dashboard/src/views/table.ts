// All views: a new one has a folder beside this file, and a line here. Each is a chunk of its own.
import type { ComponentType } from "preact";
import type { View } from "../router";

type Loader = () => Promise<{ readonly View: ComponentType }>;

const VIEWS: Partial<Record<View, Loader>> = {
  workflows: () => import("./workflows/Workflows"),
  run: () => import("./run/Run"),
  workers: () => import("./workers/Workers"),
  queues: () => import("./queues/Queues"),
  schedules: () => import("./schedules/Schedules"),
  settings: () => import("./settings/Settings"),
  login: () => import("./login/Login"),
  failures: () => import("./failures/Failures"),
  nothing: () => import("./nothing/Nothing"),
};

export const hasView = (view: View): boolean => view in VIEWS;

export async function loadView(view: View): Promise<ComponentType> {
  const load = VIEWS[view] ?? VIEWS.nothing;
  if (load === undefined) throw new Error("there is no view");
  return (await load()).View;
}
