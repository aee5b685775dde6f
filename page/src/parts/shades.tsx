/** Legends of color scales. */

import type { ComponentChildren } from "preact";
import { fixed, percent } from "../format";

interface ShadesOptions {
  /** Colors behind text (cell) or of pixels; for numbers of one sign or both (signed). */
  kind: "cell" | "signed-cell" | "pixel" | "signed-pixel";
  from: string;
  to: string;
  children: ComponentChildren;
}

/** A legend: the color scale between its smallest and largest number. */
export function Shades({ kind, from, to, children }: ShadesOptions) {
  return (
    <p class="shades">
      <span class="nobreak">{from} <i class={kind} aria-hidden="true" /> {to}</span> <span>{children}</span>
    </p>
  );
}

/** The legend of a strip, from -largest to largest, or from 0% for shares. */
export function StripShades({ largest, isShare = false, children }: { largest: number; isShare?: boolean; children: ComponentChildren }) {
  return isShare ? (
    <Shades kind="pixel" from="0%" to={percent(largest)}>{children}</Shades>
  ) : (
    <Shades kind="signed-pixel" from={fixed(-largest)} to={fixed(largest)}>{children}</Shades>
  );
}
