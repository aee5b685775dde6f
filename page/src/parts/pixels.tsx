/** Matrices drawn as pixels of a canvas, with one color for positive numbers and another for negative ones. */

import { memo } from "preact/compat";
import { useLayoutEffect, useRef } from "preact/hooks";
import { colorOf } from "./drawing";

const painters = new Set<() => void>();
let colors: { above: number[]; below: number[] } | null = null; // in the current color scheme

function channelsOf(variable: string): number[] {
  return colorOf(variable).match(/[\d.]+/g)!.map(Number);
}

function repaint(): void {
  colors = null;
  painters.forEach((paint) => paint());
}

window.matchMedia("(prefers-color-scheme: dark)").addEventListener("change", repaint);
new MutationObserver(repaint).observe(document.documentElement, { attributeFilter: ["data-theme"] });

/** A pixel for each number of a matrix; numbers of the size of `largest` and more have the full color. */
export const Pixels = memo(function Pixels({ rows, largest, class: css }: { rows: ArrayLike<number>[]; largest: number; class?: string }) {
  const canvas = useRef<HTMLCanvasElement>(null);
  const width = rows[0]?.length ?? 1;
  useLayoutEffect(() => {
    const paint = () => {
      colors ??= { above: channelsOf("--accent"), below: channelsOf("--below") };
      const context = canvas.current!.getContext("2d")!;
      const image = context.createImageData(width, rows.length);
      rows.forEach((row, y) => {
        for (let x = 0; x < width; x++) {
          // the root shows small numbers, too
          const strength = 255 * Math.min(1, Math.sqrt(Math.abs(row[x]) / largest));
          const [red, green, blue] = row[x] < 0 ? colors!.below : colors!.above;
          const at = 4 * (y * width + x);
          image.data[at] = red;
          image.data[at + 1] = green;
          image.data[at + 2] = blue;
          image.data[at + 3] = strength;
        }
      });
      context.putImageData(image, 0, 0);
    };
    paint();
    painters.add(paint);
    return () => void painters.delete(paint);
  }, [rows, largest]);
  return <canvas ref={canvas} class={css} width={width} height={rows.length} aria-hidden="true" />;
});
