// Data of the API as signals: shown while it is read again, one request per key at a time, dropped when unused.
import { type Signal, signal } from "@preact/signals";
import { useEffect, useMemo } from "preact/hooks";
import { ApiProblem } from "./client";
import { hidden } from "./clock";

export interface State<T> {
  readonly value: T | undefined;
  readonly error: ApiProblem | null;
  /** When the value was read, in milliseconds; 0 before the first answer. */
  readonly at: number;
  readonly busy: boolean;
  /** When a failed read is tried again, in milliseconds. */
  readonly retryAt: number | null;
}

type Load<T> = (signal: AbortSignal) => Promise<T>;

const DROP_AFTER_MS = 30_000;
const RETRY_MS = [1_000, 2_000, 4_000, 8_000, 15_000];

/** One piece of data, shared by all parts of the page that show it. */
export class Resource<T> {
  readonly state: Signal<State<T>> = signal<State<T>>({
    value: undefined,
    error: null,
    at: 0,
    busy: false,
    retryAt: null,
  });
  readers = 0;
  #again = false;
  #failures = 0;
  #timer: ReturnType<typeof setTimeout> | undefined;
  #abort = new AbortController();

  constructor(
    readonly key: string,
    readonly load: Load<T>,
  ) {}

  /** Reads the data; a call during a read makes one more read after it. */
  async refresh(): Promise<void> {
    if (this.state.peek().busy) {
      this.#again = true;
      return;
    }
    clearTimeout(this.#timer);
    this.#set({ busy: true });
    try {
      const value = await this.load(this.#abort.signal);
      this.#failures = 0;
      this.#set({ value, error: null, at: Date.now(), busy: false, retryAt: null });
    } catch (error) {
      if (this.#abort.signal.aborted) return;
      this.#failed(error);
    }
    if (this.#again) {
      this.#again = false;
      await this.refresh();
    }
  }

  #failed(error: unknown): void {
    if (!(error instanceof ApiProblem)) {
      this.#set({ busy: false });
      throw error;
    }
    let retryAt: number | null = null;
    if (error.isPassing) {
      const step = RETRY_MS[Math.min(this.#failures, RETRY_MS.length - 1)] ?? 15_000;
      const wait = (error.retryAfter ?? 0) * 1_000 || step;
      this.#failures += 1;
      retryAt = Date.now() + wait;
      this.#timer = setTimeout(() => void this.refresh(), wait);
    }
    this.#set({ error, busy: false, retryAt });
  }

  /** Replaces the value, for instance by a record that an action has returned. */
  patch(change: (value: T) => T): void {
    const { value } = this.state.peek();
    if (value !== undefined) this.#set({ value: change(value) });
  }

  stop(): void {
    clearTimeout(this.#timer);
    this.#abort.abort();
  }

  #set(patch: Partial<State<T>>): void {
    this.state.value = { ...this.state.peek(), ...patch };
  }
}

const known = new Map<string, Resource<unknown>>();

function acquire<T>(key: string, load: Load<T>): Resource<T> {
  let found = known.get(key) as Resource<T> | undefined;
  if (!found) {
    found = new Resource(key, load);
    known.set(key, found as Resource<unknown>);
  }
  return found;
}

function release(resource: Resource<unknown>): void {
  resource.readers -= 1;
  setTimeout(() => {
    if (resource.readers > 0 || known.get(resource.key) !== resource) return;
    known.delete(resource.key);
    resource.stop();
  }, DROP_AFTER_MS);
}

/** Returns the data of a key for the time that a component shows it; reads it when the component appears. */
export function useResource<T>(key: string, load: Load<T>): Resource<T> {
  const resource = useMemo(() => acquire(key, load), [key]);
  useEffect(() => {
    resource.readers += 1;
    void resource.refresh();
    return () => release(resource as Resource<unknown>);
  }, [resource]);
  return resource;
}

/** Reads data again every so many milliseconds while the page is visible. */
export function useEvery(resource: Resource<unknown>, milliseconds: number): void {
  useEffect(() => {
    const timer = setInterval(() => hidden.value || void resource.refresh(), milliseconds);
    return () => clearInterval(timer);
  }, [resource, milliseconds]);
}

/** Reads everything on the screen again. */
export function refreshAll(): void {
  for (const resource of known.values()) if (resource.readers > 0) void resource.refresh();
}
