// The history of a run, loaded in pages and continued by news; shared by the tabs that show it.
import { type Signal, signal } from "@preact/signals";
import { useEffect, useMemo } from "preact/hooks";
import { ApiProblem } from "./client";
import type { EventRecord } from "./records";
import { readEvents } from "./runs";

export interface HistoryState {
  readonly events: readonly EventRecord[];
  readonly total: number;
  readonly isComplete: boolean;
  readonly error: ApiProblem | null;
}

const NOTHING: HistoryState = { events: [], total: 0, isComplete: false, error: null };
const KEPT = 4;

class RunHistory {
  readonly state: Signal<HistoryState> = signal(NOTHING);
  #loading = false;
  #again = false;

  constructor(
    readonly namespace: string,
    readonly id: string,
    readonly runId: string,
  ) {}

  /** Loads all events after the last one that is known. */
  async load(): Promise<void> {
    if (this.#loading) {
      this.#again = true;
      return;
    }
    this.#loading = true;
    try {
      do {
        this.#again = false;
        await this.#pages();
      } while (this.#again);
    } catch (error) {
      if (!(error instanceof ApiProblem)) throw error;
      this.state.value = { ...this.state.peek(), error };
    } finally {
      this.#loading = false;
    }
  }

  async #pages(): Promise<void> {
    for (;;) {
      const { events } = this.state.peek();
      const after = events.at(-1)?.seq ?? 0;
      const page = await readEvents(this.namespace, this.id, this.runId, after);
      const all = page.events.length === 0 ? events : [...events, ...page.events];
      const isComplete = page.events.length === 0 || all.length >= page.total;
      this.state.value = { events: all, total: page.total, isComplete, error: null };
      if (isComplete) return;
    }
  }
}

const known = new Map<string, RunHistory>();

/** Returns the history of a run; it is read again whenever its length or `version` has changed. */
export function useHistory(
  namespace: string,
  id: string,
  runId: string,
  version: number,
): HistoryState & { readonly reload: () => void } {
  const history = useMemo(() => {
    const key = JSON.stringify([namespace, runId]);
    const found = known.get(key) ?? new RunHistory(namespace, id, runId);
    known.delete(key);
    known.set(key, found);
    for (const old of [...known.keys()].slice(0, -KEPT)) known.delete(old);
    return found;
  }, [namespace, id, runId]);
  useEffect(() => void history.load(), [history, version]);
  return { ...history.state.value, reload: () => void history.load() };
}
