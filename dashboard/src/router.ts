// Path and query <-> Route: the only reader and writer of the browser's location.
import { computed, signal } from "@preact/signals";
import { config } from "./config";

export type Query = Readonly<Record<string, string>>;
export type ListView = "failures" | "schedules" | "workers" | "queues" | "batches";
export type Route =
  | { readonly view: "workflows"; readonly query: Query }
  | { readonly view: "run"; readonly id: string; readonly query: Query }
  | { readonly view: ListView; readonly name: string | null; readonly query: Query }
  | { readonly view: "settings" | "login" | "nothing"; readonly query: Query };
export type View = Route["view"];

const LISTS: ReadonlySet<string> = new Set(["failures", "schedules", "workers", "queues", "batches"]);
const basePath = new URL(config.base).pathname;

export const route = signal<Route>(parse(location.href));
export const namespace = computed(() => route.value.query["ns"] ?? config.defaultNamespace);

/** Returns the route of an address below the base. */
export function parse(href: string): Route {
  const url = new URL(href);
  const query = Object.fromEntries(url.searchParams);
  const parts = url.pathname.slice(basePath.length).split("/").map(decoded);
  const [first = "", second] = parts;
  if (parts.length > 2 || parts.some((part) => part === null)) return { view: "nothing", query };
  if (first === "" && second === undefined) return { view: "workflows", query };
  if (first === "workflows" && second) return { view: "run", id: second, query };
  if (LISTS.has(first as string) && second !== "") return { view: first as ListView, name: second ?? null, query };
  if ((first === "settings" || first === "login") && second === undefined) return { view: first, query };
  return { view: "nothing", query };
}

function decoded(part: string): string | null {
  try {
    return decodeURIComponent(part);
  } catch {
    return null;
  }
}

/** Returns the address of a route. */
export function href(to: Route): string {
  const url = new URL(path(to), config.base);
  for (const [name, value] of Object.entries(to.query)) {
    if (value !== "" && !(name === "ns" && value === config.defaultNamespace)) url.searchParams.set(name, value);
  }
  return url.href;
}

function path(to: Route): string {
  if (to.view === "workflows" || to.view === "nothing") return "";
  if (to.view === "run") return `workflows/${encodeURIComponent(to.id)}`;
  if ("name" in to && to.name !== null) return `${to.view}/${encodeURIComponent(to.name)}`;
  return to.view;
}

/** Returns a query with the namespace that is shown now. */
export function here(query: Query = {}): Query {
  const ns = route.value.query["ns"];
  return ns === undefined ? query : { ns, ...query };
}

export const runHref = (id: string, runId?: string | null): string =>
  href({ view: "run", id, query: here(runId ? { run: runId } : {}) });

/** Goes to a route: a new entry of the history, or the current one changed. */
export function go(to: Route, how: "push" | "replace" = "push"): void {
  const address = href(to);
  if (address === location.href && how === "push") return;
  remember();
  if (how === "push") history.pushState({ key: newKey() }, "", address);
  else history.replaceState(history.state ?? { key: newKey() }, "", address);
  route.value = parse(address);
}

/** Changes parameters of the current address; an empty value removes a parameter. */
export function setQuery(patch: Query, how: "push" | "replace" = "push"): void {
  const query = { ...route.value.query, ...patch };
  const kept = Object.fromEntries(Object.entries(query).filter(([, value]) => value !== ""));
  go({ ...route.value, query: kept } as Route, how);
}

// Scroll positions, by entry of the history.

const scrolls = new Map<string, number>();
let keys = 0;

const newKey = (): string => `${performance.timeOrigin}-${(keys += 1)}`;
const entry = (): string => (history.state as { key?: string } | null)?.key ?? "first";
const scroller = (): Element | null => document.getElementById("content");

function remember(): void {
  scrolls.set(entry(), scroller()?.scrollTop ?? 0);
}

/** Returns where the current entry of the history was scrolled to. */
export const rememberedScroll = (): number => scrolls.get(entry()) ?? 0;

/** Starts to follow the location; links of the older form `#ns=N&wf=ID` are rewritten. */
export function startRouter(): void {
  history.scrollRestoration = "manual";
  if (/^#(ns|wf)=/.test(location.hash)) {
    const old = Object.fromEntries(new URLSearchParams(location.hash.slice(1)));
    const url = href({ view: "workflows", query: old });
    history.replaceState(history.state, "", url);
    route.value = parse(url);
  }
  addEventListener("popstate", () => (route.value = parse(location.href)));
  addEventListener("scrollend", remember, true);
  document.addEventListener("click", followLink);
}

/** Opens links of the dashboard without loading the page again. */
function followLink(event: MouseEvent): void {
  if (event.defaultPrevented || event.button !== 0 || event.metaKey || event.ctrlKey || event.shiftKey || event.altKey)
    return;
  const link = (event.target as Element | null)?.closest?.("a");
  if (!link || link.target || link.hasAttribute("download") || !link.href.startsWith(config.base)) return;
  const to = parse(link.href);
  if (to.view === "nothing" || link.getAttribute("href")?.startsWith("#")) return;
  event.preventDefault();
  go(to);
}
