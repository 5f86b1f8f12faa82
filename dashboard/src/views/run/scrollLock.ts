// A log that follows its end, unless the reader holds it.
import { useLayoutEffect, useRef, useState } from "preact/hooks";

export interface ScrollLock {
  readonly isLocked: boolean;
  /** Lines that came while the log was held. */
  readonly unseen: number;
  readonly toggle: () => void;
  /** Goes to the end, and follows it again. */
  readonly release: () => void;
}

export function useScrollLock(box: { current: HTMLElement | null }, lines: number): ScrollLock {
  const [isLocked, setLocked] = useState(false);
  const seen = useRef(lines);
  const toEnd = (): void => void box.current?.scrollTo({ top: box.current.scrollHeight });
  useLayoutEffect(() => {
    if (isLocked) return;
    seen.current = lines;
    toEnd();
  }, [lines, isLocked]);
  return {
    isLocked,
    unseen: Math.max(0, lines - seen.current),
    toggle: () => setLocked(!isLocked),
    release: () => {
      setLocked(false);
      toEnd();
    },
  };
}
