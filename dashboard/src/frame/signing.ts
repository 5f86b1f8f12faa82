// The way to the sign-in page and back.
import { config } from "../config";
import { type Route, go, parse, route } from "../router";
import { hasView } from "../views/table";

/** Shows the sign-in page, which leads back to the current address. */
export function goToSignIn(): void {
  if (route.value.view === "login" || !hasView("login")) return;
  const isList = location.href === config.base;
  go({ view: "login", query: isList ? {} : { next: location.pathname + location.search } }, "replace");
}

/** Returns the route after signing in: `next` if it is below the base, else the list. */
export function routeAfterSignIn(next: string): Route {
  const list: Route = { view: "workflows", query: {} };
  const url = URL.canParse(next, config.base) ? new URL(next, config.base).href : "";
  const found = url.startsWith(config.base) ? parse(url) : list;
  return found.view === "nothing" || found.view === "login" ? list : found;
}
