import { useRef } from "preact/hooks";

export interface Tab {
  readonly id: string;
  readonly label: string;
  readonly count?: number | null;
  readonly dim?: boolean;
  /** The value of `data-tab`, where it differs from the id. */
  readonly hook?: string;
}

interface Props {
  readonly label: string;
  readonly tabs: readonly Tab[];
  readonly selected: string;
  readonly onSelect: (id: string) => void;
}

/** Tabs with one stop for the keyboard; arrows, Home and End move between them. */
export function Tabs({ label, tabs, selected, onSelect }: Props) {
  const list = useRef<HTMLDivElement>(null);
  const move = (event: KeyboardEvent): void => {
    const at = tabs.findIndex((tab) => tab.id === selected);
    const to = { ArrowRight: at + 1, ArrowLeft: at - 1, Home: 0, End: tabs.length - 1 }[event.key];
    if (to === undefined) return;
    event.preventDefault();
    const index = (to + tabs.length) % tabs.length;
    onSelect(tabs[index]?.id ?? selected);
    (list.current?.children[index] as HTMLElement | undefined)?.focus();
  };
  return (
    <div class="tabs" role="tablist" aria-label={label} ref={list} onKeyDown={move}>
      {tabs.map((tab) => (
        <button
          key={tab.id}
          type="button"
          role="tab"
          id={`tab-${tab.id}`}
          data-tab={tab.hook ?? tab.id}
          aria-label={tab.label}
          data-count={tab.count ? tab.count.toLocaleString("en") : undefined}
          aria-selected={tab.id === selected}
          aria-controls="tab-panel"
          tabIndex={tab.id === selected ? 0 : -1}
          class={`detail-tab${tab.id === selected ? " active" : ""}${tab.dim ? " dim" : ""}`}
          onClick={() => onSelect(tab.id)}
        >
          {tab.label}
        </button>
      ))}
    </div>
  );
}
