import type { ComponentChildren } from "preact";
import { useLayoutEffect, useRef, useState } from "preact/hooks";

export interface Range {
  readonly from: number;
  readonly to: number;
}

/** Returns which of many rows of one height are in view of a scrolling element, with some beyond its edges. */
export function useWindow(
  count: number,
  rowHeight: number,
  least = 200,
): { readonly ref: { current: HTMLDivElement | null }; readonly range: Range } {
  const ref = useRef<HTMLDivElement>(null);
  const [range, setRange] = useState<Range>({ from: 0, to: Math.min(count, 60) });
  useLayoutEffect(() => {
    const box = ref.current;
    if (box === null || count <= least) return;
    const measure = (): void => {
      const from = Math.max(0, Math.floor(box.scrollTop / rowHeight) - 10);
      const to = Math.min(count, Math.ceil((box.scrollTop + box.clientHeight) / rowHeight) + 10);
      setRange((old) => (old.from === from && old.to === to ? old : { from, to }));
    };
    measure();
    box.addEventListener("scroll", measure, { passive: true });
    const watch = new ResizeObserver(measure);
    watch.observe(box);
    return () => {
      box.removeEventListener("scroll", measure);
      watch.disconnect();
    };
  }, [count, rowHeight]);
  return { ref, range: count <= least ? { from: 0, to: count } : { from: range.from, to: Math.min(range.to, count) } };
}

/** Empty space in place of rows out of view. */
export const Gap = ({
  rows,
  rowHeight,
  columns,
}: {
  readonly rows: number;
  readonly rowHeight: number;
  readonly columns: number;
}) =>
  rows > 0 ? (
    <tr aria-hidden="true" class="gap">
      <td colSpan={columns} style={{ height: `${rows * rowHeight}px`, padding: 0, border: 0 }} />
    </tr>
  ) : null;

export function Empty({ title, children }: { readonly title: string; readonly children?: ComponentChildren }) {
  return (
    <div class="empty">
      <p class="empty-title">{title}</p>
      {children}
    </div>
  );
}
