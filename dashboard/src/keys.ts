// The keyboard: each part of the page brings its keys while it is shown; the help lists those that act now.
import { useLayoutEffect, useRef } from "preact/hooks";
import { read } from "./data/session";

export interface Shortcut {
  /** As `KeyboardEvent.key`, with `Ctrl+`, `Shift+`, `Alt+` before it, or two keys with a space between: `g w`. */
  readonly keys: string;
  readonly label: string;
  readonly run: (event: KeyboardEvent) => void;
}
interface Scope {
  readonly name: string;
  shortcuts: readonly Shortcut[];
}

const scopes: Scope[] = [];
const PREFIX_MS = 1_500;
let prefix = "";
let prefixAt = 0;

/** Returns all shortcuts that act now, by scope, the innermost first. */
export const activeScopes = (): readonly Scope[] => [...scopes].reverse();

/** Adds shortcuts for the time that a component is shown. */
export function useKeys(name: string, shortcuts: readonly Shortcut[]): void {
  const scope = useRef<Scope>({ name, shortcuts });
  scope.current.shortcuts = shortcuts;
  // Before the next paint: who sees a view can use its keys.
  useLayoutEffect(() => {
    const mine = scope.current;
    scopes.push(mine);
    return () => void scopes.splice(scopes.indexOf(mine), 1);
  }, []);
}

export const singleKeysOff = (): boolean => read("assay-shortcuts") === "off";

export function startKeys(): void {
  addEventListener("keydown", (event) => {
    if (event.defaultPrevented || event.isComposing) return;
    const typing = isField(event.target);
    const named = nameOf(event);
    if ((typing || document.querySelector("dialog[open]")) && !named.startsWith("Ctrl+")) return;
    if ((named === "Enter" || named === " ") && isControl(event.target)) return;
    if (singleKeysOff() && !named.startsWith("Ctrl+")) return;
    const waiting = Date.now() - prefixAt < PREFIX_MS ? prefix : "";
    prefix = "";
    const found = find(waiting === "" ? named : `${waiting} ${named}`);
    if (found) {
      event.preventDefault();
      found.run(event);
    } else if (isPrefix(named)) {
      prefix = named;
      prefixAt = Date.now();
    }
  });
}

const all = (): readonly Shortcut[] => activeScopes().flatMap((scope) => scope.shortcuts);
const find = (keys: string): Shortcut | undefined => all().find((one) => one.keys === keys);
const isPrefix = (key: string): boolean => all().some((one) => one.keys.startsWith(`${key} `));

function nameOf(event: KeyboardEvent): string {
  const control = event.ctrlKey || event.metaKey ? "Ctrl+" : "";
  const alt = event.altKey ? "Alt+" : "";
  const key = event.key.length === 1 ? event.key.toLowerCase() : event.key;
  const shifted = event.shiftKey && /^([a-z]|Arrow\w+)$/.test(key) ? "Shift+" : "";
  return `${control}${alt}${shifted}${key}`;
}

function isField(target: EventTarget | null): boolean {
  return (
    target instanceof HTMLElement &&
    (target.isContentEditable || /^(INPUT|TEXTAREA|SELECT)$/.test(target.tagName)) &&
    !isBox(target)
  );
}

/** Whether Enter and Space already mean something where the focus is. */
const isControl = (target: EventTarget | null): boolean =>
  target instanceof Element && target.closest("a, button, input, summary, select, [role=tab], [role=tree]") !== null;

const isBox = (target: HTMLElement): boolean =>
  target instanceof HTMLInputElement && ["checkbox", "radio", "button"].includes(target.type);
