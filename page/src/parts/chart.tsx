/** Pictures that are drawn as wide as their place. */

import type { ComponentChildren, RefObject } from "preact";
import { useLayoutEffect, useRef, useState } from "preact/hooks";

/** A place, and how wide it is: text in a picture of this width has the same size everywhere. */
export function useWidth(): [RefObject<HTMLDivElement | null>, number] {
  const place = useRef<HTMLDivElement>(null);
  const [width, setWidth] = useState(400);
  useLayoutEffect(() => {
    const measure = () => setWidth((before) => place.current?.getBoundingClientRect().width || before); // 0 if hidden
    const observer = new ResizeObserver(measure);
    observer.observe(place.current!);
    measure();
    return () => observer.disconnect();
  }, []);
  return [place, width];
}

/** A picture that is drawn as wide as its place. */
export function Chart({ height, label, class: css, children: draw }: { height: number; label: string; class?: string; children: (width: number) => ComponentChildren }) {
  const [place, width] = useWidth();
  return (
    <div class={css} ref={place}>
      <svg viewBox={`0 0 ${width} ${height}`} role="img" aria-label={label}>{draw(width)}</svg>
    </div>
  );
}
