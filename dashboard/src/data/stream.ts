// Live news: one event stream for all tabs of the browser. The tab that leads reads it and passes the frames on.
import { effect, signal } from "@preact/signals";
import { apiUrl } from "./client";
import { hidden } from "./clock";
import { holdLead } from "./lead";
import type { StreamFrame } from "./records";
import { refreshAll } from "./resource";
import { readFrames } from "./sse";

export type Connection = "connecting" | "connected" | "disconnected";
export interface Wants {
  readonly namespaces: readonly string[];
  /** Whether news of every kind are wanted, as a run's page needs them, or only those that lists show. */
  readonly everything: boolean;
}
type Message =
  | { readonly type: "wants"; readonly tab: string; readonly wants: Wants | null }
  | { readonly type: "frames"; readonly frames: readonly StreamFrame[]; readonly last: string }
  | { readonly type: "state"; readonly state: Connection }
  | { readonly type: "reload" | "signed-out" | "who" };

export const connection = signal<Connection>("connecting");
export const LIST_KINDS = [
  ..."started running completed failed cancelled terminated timed_out continued_as_new"
    .split(" ")
    .map((kind) => `workflow_${kind}`),
  "signal_received",
];

const HIDDEN_MS = 60_000;
const GIVE_UP_MS = 15_000;
const POLL_MS = 5_000;
const QUIET_MS = 2_000;
const channel = new BroadcastChannel("assay-stream");
const tab = String(Math.random());
const listeners = new Set<(frames: readonly StreamFrame[]) => void>();
const others = new Map<string, Wants>();
let mine: Wants | null = null;
let last = "";
let leading = false;
let reader: AbortController | null = null;
let reading = "";

/** Calls back with new frames, at most once per animation frame. */
export function onNews(callback: (frames: readonly StreamFrame[]) => void): () => void {
  listeners.add(callback);
  return () => listeners.delete(callback);
}

/** Tells all tabs of the browser that the session has ended. */
export const announceSignOut = (): void => post({ type: "signed-out" });

let waiting: StreamFrame[] = [];
let scheduled = false;

function deliver(frames: readonly StreamFrame[]): void {
  waiting.push(...frames);
  if (scheduled) return;
  scheduled = true;
  const flush = (): void => {
    if (!scheduled) return;
    scheduled = false;
    const batch = waiting;
    waiting = [];
    for (const listener of listeners) listener(batch);
  };
  requestAnimationFrame(flush);
  setTimeout(flush, 250);
}

function post(message: Message): void {
  channel.postMessage(message);
}

/** Starts the stream; `wants` is read again whenever a signal in it changes. */
export function startStream(wants: () => Wants | null, onSignedOut: () => void): void {
  let asleep = false;
  let timer: ReturnType<typeof setTimeout> | undefined;
  const announce = (): void => {
    mine = asleep ? null : wants();
    post({ type: "wants", tab, wants: mine });
    if (leading) reopen();
  };
  effect(() => {
    wants();
    announce();
  });
  effect(() => {
    clearTimeout(timer);
    if (hidden.value) {
      timer = setTimeout(() => {
        asleep = true;
        announce();
      }, HIDDEN_MS);
    } else if (asleep) {
      asleep = false;
      announce();
      refreshAll();
    }
  });
  channel.onmessage = (event: MessageEvent<Message>) => receive(event.data, announce, onSignedOut);
  post({ type: "who" });
  addEventListener("pagehide", () => post({ type: "wants", tab, wants: null }));
  watchSilence();
  void holdLead(() => {
    leading = true;
    reopen();
  });
}

function receive(message: Message, announce: () => void, onSignedOut: () => void): void {
  if (message.type === "wants") {
    if (message.wants === null) others.delete(message.tab);
    else others.set(message.tab, message.wants);
    if (leading) reopen();
  } else if (message.type === "frames") {
    last = message.last;
    deliver(message.frames);
  } else if (message.type === "state") setState(message.state);
  else if (message.type === "reload") refreshAll();
  else if (message.type === "signed-out") onSignedOut();
  else {
    announce();
    if (leading) post({ type: "state", state: connection.peek() });
  }
}

function setState(state: Connection): void {
  connection.value = state;
}

function merged(): string {
  const all = [...others.values(), ...(mine ? [mine] : [])];
  if (all.length === 0) return "";
  const namespaces = [...new Set(all.flatMap((wants) => wants.namespaces))].sort().join(",");
  const kind = all.some((wants) => wants.everything) ? undefined : LIST_KINDS.join(",");
  return apiUrl(["events", "stream"], { namespace: namespaces, kind });
}

/** Opens the stream that all tabs together want, after the last frame that was received. */
function reopen(): void {
  const url = merged();
  if (url === reading && reader !== null) return;
  reader?.abort();
  reader = null;
  reading = url;
  if (url !== "") {
    reader = new AbortController();
    void follow(url, reader.signal);
  }
}

async function follow(url: string, stop: AbortSignal): Promise<void> {
  let failures = 0;
  const ends: number[] = [];
  while (!stop.aborted) {
    const opened = Date.now();
    const outcome = await readFrames(last === "" ? url : `${url}&last_event_id=${last}`, stop, {
      opened: () => {
        failures = 0;
        share("connected");
      },
      frames: (frames, id) => {
        last = id;
        post({ type: "frames", frames, last });
        deliver(frames);
      },
    });
    if (stop.aborted) return;
    if (outcome === "expired") {
      last = "";
      post({ type: "reload" });
      refreshAll();
      continue;
    }
    share("disconnected");
    ends.push(opened);
    const flooded = ends.filter((at) => at > Date.now() - 10_000).length >= 2 && outcome === "ended";
    await pause(flooded ? QUIET_MS : backoff(failures), stop);
    if (flooded) {
      last = "";
      post({ type: "reload" });
      refreshAll();
    }
    failures += 1;
  }
}

function share(state: Connection): void {
  setState(state);
  post({ type: "state", state });
}

const backoff = (failures: number): number => Math.min(30_000, 1_000 * 2 ** failures) * (0.75 + Math.random() / 2);

const pause = (ms: number, stop: AbortSignal): Promise<void> =>
  new Promise((resolve) => {
    const timer = setTimeout(resolve, ms);
    stop.addEventListener("abort", () => {
      clearTimeout(timer);
      resolve();
    });
  });

/** Reads the view every few seconds while there is no stream. */
function watchSilence(): void {
  let since = Date.now();
  effect(() => {
    if (connection.value === "connected") since = Infinity;
    else if (since === Infinity) since = Date.now();
  });
  setInterval(() => {
    if (Date.now() - since < GIVE_UP_MS || document.hidden) return;
    connection.value = "disconnected";
    refreshAll();
  }, POLL_MS);
  let before: Connection = "connecting";
  effect(() => {
    // What happened while the stream was away may be older than it can resume.
    if (connection.value === "connected" && before === "disconnected") setTimeout(refreshAll);
    before = connection.value;
  });
}
