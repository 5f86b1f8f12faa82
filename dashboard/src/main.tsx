// Starts the dashboard: adopt the page, follow the address, render the frame. Read this first.
import { render } from "preact";
import { adoptLinks } from "./config";
import { startClock } from "./data/clock";
import { credentials } from "./data/client";
import { isSignedOut, loadSession } from "./data/session";
import { startStream } from "./data/stream";
import { applySettings, startTheme } from "./data/theme";
import { Frame } from "./frame/Frame";
import { CollapseButton, SidebarViews } from "./frame/Sidebar";
import { goToSignIn } from "./frame/signing";
import { startKeys } from "./keys";
import { namespace, route, startRouter } from "./router";

adoptLinks();
startRouter();
startTheme();
applySettings();
startClock();
startKeys();
credentials.onUnauthorized = goToSignIn;

const place = (id: string): HTMLElement => {
  const found = document.getElementById(id);
  if (found === null) throw new Error(`the page has no #${id}`);
  return found;
};

document.querySelector(".skip")?.addEventListener("click", (event) => {
  event.preventDefault();
  document.getElementById("content")?.focus();
});

void loadSession().then(() => {
  if (isSignedOut.value) goToSignIn();
  const stage = place("stage");
  stage.textContent = "";
  render(<Frame />, stage);
  render(<SidebarViews />, place("sidebar-views"));
  const end = document.createElement("div");
  place("sidebar").append(end);
  render(<CollapseButton />, end);
  startStream(
    () => {
      const { view, query } = route.value;
      if (isSignedOut.value || view === "login") return null;
      return { namespaces: [namespace.value], everything: view === "run" || query["wf"] !== undefined };
    },
    () => void loadSession().then(goToSignIn),
  );
});
