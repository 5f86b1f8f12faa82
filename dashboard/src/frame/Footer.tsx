import { config } from "../config";
import { get } from "../data/client";
import type { QueueStats, WorkerRecord } from "../data/records";
import { useEvery, useResource } from "../data/resource";
import { isSignedOut, session, version } from "../data/session";
import { connection } from "../data/stream";
import { shownTheme, toggleTheme } from "../data/theme";
import { isUnserved } from "../model/queue";
import { Icon } from "../parts/Icon";
import { href, here, namespace, route } from "../router";
import { Account } from "./Account";

const WORDS = { connecting: "Connecting…", connected: "Connected", disconnected: "Disconnected" } as const;
const READ_MS = 15_000;

function useOverview(): { readonly workers: number | null; readonly unserved: number } {
  const ns = namespace.value;
  const found = useResource(`overview ${ns}`, async (signal) => {
    const [workers, queues] = await Promise.all([
      get<WorkerRecord[]>(["workers"], { namespace: ns }, signal),
      get<QueueStats[]>(["queues"], { namespace: ns }, signal),
    ]);
    return { workers: workers.value.length, unserved: queues.value.filter(isUnserved).length };
  });
  useEvery(found, READ_MS);
  return found.state.value.value ?? { workers: null, unserved: 0 };
}

function Overview() {
  const { workers, unserved } = useOverview();
  return (
    <>
      {workers !== null && (
        <a class="footer-item" href={href({ view: "workers", name: null, query: here() })}>
          workers {workers}
        </a>
      )}
      {unserved > 0 && (
        <a class="footer-item tone-yellow" href={href({ view: "queues", name: null, query: here() })}>
          ▲ {unserved === 1 ? "1 queue" : `${unserved} queues`} without a worker
        </a>
      )}
    </>
  );
}

export function Footer() {
  const isDark = shownTheme.value === "dark";
  const name = config.customised ? "Powered by Assay" : "Assay";
  return (
    <footer class="footer">
      <span class="footer-item connection" data-testid="connection" data-state={connection.value}>
        <span class="dot" aria-hidden="true" />
        {WORDS[connection.value]}
      </span>
      <span class="footer-item footer-ns">{namespace.value}</span>
      {!isSignedOut.value && route.value.view !== "login" && <Overview />}
      <span class="spacer" />
      {session.value?.authenticated && session.value.auth !== "none" && <Account />}
      <button
        type="button"
        class="icon-button"
        aria-label="Theme"
        title={isDark ? "Light theme" : "Dark theme"}
        onClick={toggleTheme}
      >
        <Icon name={isDark ? "sun" : "moon"} />
      </button>
      <span class="footer-item muted">
        {name}
        {version.value && (
          <>
            {" v"}
            <span data-testid="engine-version">{version.value.version}</span>
          </>
        )}
      </span>
    </footer>
  );
}
