/** SVG drawn at the width of its container, so that text has the same size in all charts. */

import type { ComponentChildren, RefObject } from "preact";
import { useLayoutEffect, useRef, useState } from "preact/hooks";

/** A ref for an element, and its width in pixels. */
export function useWidth(): [RefObject<HTMLDivElement | null>, number] {
  const container = useRef<HTMLDivElement>(null);
  const [width, setWidth] = useState(400);
  useLayoutEffect(() => {
    const measure = () => setWidth((before) => container.current?.getBoundingClientRect().width || before); // 0 if hidden
    const observer = new ResizeObserver(measure);
    observer.observe(container.current!);
    measure();
    return () => observer.disconnect();
  }, []);
  return [container, width];
}

/** An SVG of the width of its container; `children` draws it. */
export function Chart({ height, label, class: css, children: draw }: { height: number; label: string; class?: string; children: (width: number) => ComponentChildren }) {
  const [container, width] = useWidth();
  return (
    <div class={css} ref={container}>
      <svg viewBox={`0 0 ${width} ${height}`} role="img" aria-label={label}>{draw(width)}</svg>
    </div>
  );
}
