import { useEffect, useRef } from "preact/hooks";
import { shownTheme } from "../../data/theme";
import type { Item } from "../../model/items";
import type { Range } from "../../model/timeline";

interface Props {
  readonly items: readonly Item[];
  readonly whole: Range;
  readonly range: Range;
  readonly onRange: (range: Range | null) => void;
}

const WIDTH = 280;
const HEIGHT = 28;
const COLOURS: Readonly<Record<string, string>> = {
  completed: "--green",
  failed: "--red",
  timed_out: "--orange",
  cancelled: "--text-muted",
  running: "--accent",
  retrying: "--orange",
};

/** All items in a small picture; dragging over it chooses a range. */
export function Overview({ items, whole, range, onRange }: Props) {
  const canvas = useRef<HTMLCanvasElement>(null);
  const share = (time: number): number => (time - whole.from) / Math.max(whole.to - whole.from, 1e-9);
  useEffect(() => {
    const context = canvas.current?.getContext("2d");
    if (!context) return;
    const style = getComputedStyle(document.documentElement);
    context.clearRect(0, 0, WIDTH, HEIGHT);
    for (const [index, item] of items.entries()) {
      const x = share(item.from) * WIDTH;
      context.fillStyle = style.getPropertyValue(COLOURS[item.status] ?? "--accent");
      context.fillRect(
        x,
        (index / Math.max(items.length, 10)) * HEIGHT,
        Math.max(1, share(item.to ?? whole.to) * WIDTH - x),
        Math.max(1, HEIGHT / Math.max(items.length, 10) - 0.5),
      );
    }
  }, [items, Math.floor(whole.to), shownTheme.value]);
  const drag = (event: PointerEvent & { currentTarget: HTMLElement }): void => {
    const box = event.currentTarget.getBoundingClientRect();
    const timeAt = (x: number): number =>
      whole.from + Math.min(Math.max((x - box.left) / box.width, 0), 1) * (whole.to - whole.from);
    const start = timeAt(event.clientX);
    const end = (up: PointerEvent): void => {
      const to = timeAt(up.clientX);
      onRange(
        Math.abs(share(to) - share(start)) < 0.01 ? null : { from: Math.min(start, to), to: Math.max(start, to) },
      );
    };
    addEventListener("pointerup", end, { once: true });
  };
  const left = Math.max(0, share(range.from)) * 100;
  const right = Math.min(1, share(range.to)) * 100;
  return (
    <div class="overview" onPointerDown={drag}>
      <canvas ref={canvas} width={WIDTH} height={HEIGHT} role="img" aria-label="Overview" />
      <span class="overview-range" style={{ left: `${left}%`, width: `${right - left}%` }} />
    </div>
  );
}
