import type { ComponentType } from "preact";
import { useEffect, useRef, useState } from "preact/hooks";
import { read, write } from "../data/session";
import { Icon } from "../parts/Icon";
import { here, href, route, setQuery } from "../router";

interface Props {
  readonly id: string;
}
type RunPanel = ComponentType<{ readonly id: string; readonly isPanel: boolean }>;

const WIDTH = "assay-panel-width";
const clamp = (width: number): number => Math.min(Math.max(width, 480), 760);

/** The run beside the list: the same component as the run's own page. */
export function Panel({ id }: Props) {
  const [Run, setRun] = useState<RunPanel | null>(null);
  const [width, setWidth] = useState(clamp(Number(read(WIDTH)) || 620));
  const box = useRef<HTMLElement>(null);
  useEffect(() => {
    void import("../views/run/Run").then((module) => setRun(() => module.Run));
  }, []);
  const drag = (event: PointerEvent): void => {
    const right = box.current?.getBoundingClientRect().right ?? 0;
    const move = (moved: PointerEvent): void => setWidth(clamp(right - moved.clientX));
    const end = (): void => {
      removeEventListener("pointermove", move);
      write(WIDTH, String(width));
    };
    event.preventDefault();
    addEventListener("pointermove", move);
    addEventListener("pointerup", end, { once: true });
  };
  const run = route.value.query["run"];
  return (
    <aside class="panel" aria-label="Run" ref={box} style={{ width: `${width}px` }}>
      <div class="panel-grip" onPointerDown={drag} aria-hidden="true" />
      <div class="panel-bar">
        <a class="button quiet" href={href({ view: "run", id, query: here(run ? { run } : {}) })}>
          Open page
        </a>
        <span class="spacer" />
        <button type="button" class="icon-button" aria-label="Close panel" title="Close (Esc)" onClick={close}>
          <Icon name="close" />
        </button>
      </div>
      {Run && <Run key={id} id={id} isPanel />}
    </aside>
  );
}

const close = (): void => setQuery({ wf: "", run: "", tab: "", event: "" });
