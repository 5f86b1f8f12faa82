import { useState } from "preact/hooks";
import { Icon } from "./Icon";

/** Copies a text; where the clipboard is closed to the page, the text is selected in a field instead. */
export async function copyText(text: string): Promise<boolean> {
  try {
    await navigator.clipboard.writeText(text);
    return true;
  } catch {
    prompt("Copy this text:", text);
    return false;
  }
}

interface Props {
  readonly text: string;
  readonly label: string;
  readonly iconOnly?: boolean;
}

export function CopyButton({ text, label, iconOnly = false }: Props) {
  const [done, setDone] = useState(false);
  const copy = async (): Promise<void> => {
    if (!(await copyText(text))) return;
    setDone(true);
    setTimeout(() => setDone(false), 1_500);
  };
  return (
    <button
      type="button"
      class={iconOnly ? "icon-button" : "button quiet"}
      title={iconOnly ? label : undefined}
      aria-label={iconOnly ? label : undefined}
      onClick={() => void copy()}
    >
      <Icon name={done ? "check" : "copy"} />
      {!iconOnly && label}
    </button>
  );
}
