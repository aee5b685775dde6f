/** Ranges and scales of numbers, colors, paths of lines, links and symbols, and SVG at the width of its container. */

import type { ComponentChildren, RefObject } from "preact";
import { useLayoutEffect, useRef, useState } from "preact/hooks";
import { range } from "d3-array";
import { short } from "../format";

type Point = readonly [number, number];

export { range };

/** Map one interval to another; an interval of one number to the start. */
export function linearScale([from, to]: readonly [number, number], [low, high]: readonly [number, number]): (value: number) => number {
  return (value) => low + ((value - from) / (to - from || 1)) * (high - low);
}

/** The smallest and the largest number; 0 and 1 if there are none. */
export function extent(values: ArrayLike<number>): [number, number] {
  if (!values.length) return [0, 1];
  return Array.from(values).reduce(([low, high], value) => [Math.min(low, value), Math.max(high, value)], [values[0], values[0]]);
}

/** The largest absolute value of a vector, which has the full color. */
export function largestOf(values: ArrayLike<number>): number {
  return Math.max(1e-9, ...extent(values).map(Math.abs));
}

function formatted(points: Point[]): string {
  return points.map(([x, y]) => `${x.toFixed(2)},${y.toFixed(2)}`).join("L");
}

/** A line through points; a point alone is a dot of a round line. */
export function linePath(points: Point[]): string {
  return points.length === 1 ? `M${formatted(points)}h.1` : `M${formatted(points)}`;
}

/** A curve that leaves one point and reaches another horizontally. */
export function linkPath([x, y]: Point, [toX, toY]: Point): string {
  const middle = (x + toX) / 2;
  return `M${x},${y}C${middle},${y} ${middle},${toY} ${toX},${toY}`;
}

/** Number of corners, the radii that they take in turn, and a rotation in degrees; the first corner is at the top. */
const SYMBOLS = [
  [60, [1], 0],
  [4, [1], 45],
  [3, [1], 0],
  [4, [1, 0.58], 0],
  [10, [1, 0.38], 0],
] as const;
export const SYMBOL_COUNT = SYMBOLS.length;

/** A circle, square, triangle, diamond or star around the origin, of this many units of area. */
export function symbolPath(number: number, area: number): string {
  const [corners, radii, turn] = SYMBOLS[number];
  const angle = (2 * Math.PI) / corners;
  const size = Math.sqrt(area / ((corners / 2) * radii[0] * radii[radii.length - 1] * Math.sin(angle)));
  const points = range(corners).map((i): Point => {
    const [radius, at] = [size * radii[i % radii.length], i * angle - Math.PI / 2 + (turn * Math.PI) / 180];
    return [radius * Math.cos(at), radius * Math.sin(at)];
  });
  return `M${formatted(points)}Z`;
}

export function strengthOf(share: number): Record<string, string> {
  return { "--strength": `${Math.round(100 * share)}%` };
}

/** The value of a color variable of the style sheet, as rgb(…). */
export function colorOf(variable: string): string {
  const probe = document.createElement("span");
  probe.style.color = `var(${variable})`;
  document.body.append(probe);
  const { color } = getComputedStyle(probe);
  probe.remove();
  return color;
}

export type Tick = [value: number, place: number];

/** The lines of a y axis with their numbers. */
export function Levels({ ticks, left, right }: { ticks: Tick[]; left: number; right: number }) {
  return (
    <>
      {ticks.map(([value, y]) => (
        <>
          <line class="grid" x1={left} x2={right} y1={y} y2={y} />
          <text class="tick" x={left - 6} y={y + 4} text-anchor="end">{short(value)}</text>
        </>
      ))}
    </>
  );
}

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

/** An SVG of the width of its container, so that text has the same size in all charts; `children` draws it. */
export function Chart({ height, label, class: css, children: draw }: { height: number; label: string; class?: string; children: (width: number) => ComponentChildren }) {
  const [container, width] = useWidth();
  return (
    <div class={css} ref={container}>
      <svg viewBox={`0 0 ${width} ${height}`} role="img" aria-label={label}>{draw(width)}</svg>
    </div>
  );
}
