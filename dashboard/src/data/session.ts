// Who uses the page, what the engine offers, and what one may do.
import { computed, signal } from "@preact/signals";
import { namespace } from "../router";
import { credentials, get, send } from "./client";
import type { Health, SessionRecord, Version } from "./records";

export const session = signal<SessionRecord | null>(null);
export const version = signal<Version | null>(null);
export const health = signal<Health | null>(null);

const RANKS: Readonly<Record<string, number>> = { reader: 1, worker: 1, operator: 2, admin: 3 };

const roles = computed(() => (session.value?.roles ?? {}) as Readonly<Record<string, unknown>>);

function rank(ns: string): number {
  const found = [roles.value[ns], roles.value["*"]].flat().map((role) => RANKS[String(role)] ?? 0);
  return Math.max(0, ...found);
}

/** Why the caller may not act in the shown namespace, or null. */
export const actRefusal = computed(() =>
  rank(namespace.value) >= 2 ? null : `Needs the operator role in ${namespace.value}.`,
);
/** Why the caller may not manage namespaces and keys, or null. */
export const manageRefusal = computed(() => (rank("*") >= 3 ? null : "Needs the admin role in all namespaces."));

export const isSignedOut = computed(() => session.value !== null && !session.value.authenticated);
export const hasFeature = (name: string): boolean => (session.value?.features ?? []).includes(name);

export async function loadSession(): Promise<void> {
  const [mine, engine, state] = await Promise.allSettled([
    get<SessionRecord>(["session"]),
    get<Version>(["version"]),
    get<Health>(["health"]),
  ]);
  if (mine.status === "fulfilled") {
    session.value = mine.value.value;
    credentials.csrf = mine.value.value.csrf;
  }
  if (engine.status === "fulfilled") version.value = engine.value.value;
  if (state.status === "fulfilled") health.value = state.value.value;
}

export async function signIn(key: string): Promise<void> {
  await send("POST", ["session"], { body: JSON.stringify({ api_key: key }) });
  await loadSession();
}

export async function signOut(): Promise<void> {
  await send("DELETE", ["session"]);
  await loadSession();
}

const USER = "assay.user";

/** The name under which step actions are sent: the session's, else a name that was given once. */
export function userName(): string | null {
  return session.value?.user ?? read(USER);
}

export const rememberUser = (name: string): void => write(USER, name);

export function read(key: string): string | null {
  try {
    return localStorage.getItem(key);
  } catch {
    return null;
  }
}

export function write(key: string, value: string): void {
  try {
    localStorage.setItem(key, value);
  } catch {
    // Storage is closed to this page: the choice holds until it is closed.
  }
}
