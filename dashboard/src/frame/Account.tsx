import { useEffect, useRef, useState } from "preact/hooks";
import { session, signOut } from "../data/session";
import { announceSignOut } from "../data/stream";
import { Icon } from "../parts/Icon";
import { goToSignIn } from "./signing";

/** The menu of the signed-in user. */
export function Account() {
  const [open, setOpen] = useState(false);
  const box = useRef<HTMLDivElement>(null);
  useEffect(() => {
    if (!open) return;
    box.current?.querySelector<HTMLElement>('[role="menuitem"]')?.focus();
    const close = (event: Event): void => {
      if (!box.current?.contains(event.target as Node)) setOpen(false);
    };
    addEventListener("pointerdown", close);
    return () => removeEventListener("pointerdown", close);
  }, [open]);
  const escape = (event: KeyboardEvent): void => {
    if (event.key !== "Escape" || !open) return;
    event.stopPropagation();
    setOpen(false);
    box.current?.querySelector("button")?.focus();
  };
  const roles = Object.entries((session.value?.roles ?? {}) as Record<string, unknown>);
  return (
    <div class="account" ref={box} onKeyDown={escape}>
      <button
        type="button"
        class="button quiet"
        aria-label="Account"
        aria-haspopup="menu"
        aria-expanded={open}
        onClick={() => setOpen(!open)}
      >
        <Icon name="user" />
        {session.value?.user ?? "signed in"}
      </button>
      {open && (
        <div class="menu" role="menu" aria-label="Account">
          <p class="muted" role="presentation">
            {roles.map(([ns, role]) => `${String(role)} in ${ns === "*" ? "all namespaces" : ns}`).join(", ")}
          </p>
          <button type="button" role="menuitem" class="menu-item" onClick={() => void leave()}>
            Sign out
          </button>
        </div>
      )}
    </div>
  );
}

async function leave(): Promise<void> {
  await signOut();
  announceSignOut();
  goToSignIn();
}
