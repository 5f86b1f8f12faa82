import type { ComponentChildren } from "preact";
import { useId, useLayoutEffect, useRef } from "preact/hooks";
import { Icon } from "./Icon";

interface Props {
  readonly title: string;
  readonly onClose: () => void;
  /** While true, the dialog cannot be closed. */
  readonly busy?: boolean;
  readonly wide?: boolean;
  readonly children: ComponentChildren;
}

/** A modal dialog of the browser: it holds the focus, and gives it back to where it came from. */
export function Dialog({ title, onClose, busy = false, wide = false, children }: Props) {
  const box = useRef<HTMLDialogElement>(null);
  const name = useId();
  useLayoutEffect(() => {
    const dialog = box.current;
    const before = document.activeElement;
    dialog?.showModal();
    dialog?.querySelector<HTMLElement>("[data-first], input, textarea, select, .dialog-end .button")?.focus();
    return () => {
      dialog?.close();
      if (before instanceof HTMLElement && before.isConnected) before.focus({ preventScroll: true });
    };
  }, []);
  return (
    <dialog
      ref={box}
      class={`dialog${wide ? " wide" : ""}`}
      aria-labelledby={name}
      onCancel={(event) => {
        event.preventDefault();
        if (!busy) onClose();
      }}
      onClick={(event) => event.stopPropagation()}
    >
      <header class="dialog-head">
        <h2 id={name}>{title}</h2>
        <button type="button" class="icon-button" aria-label="Close" disabled={busy} onClick={onClose}>
          <Icon name="close" />
        </button>
      </header>
      {children}
    </dialog>
  );
}
