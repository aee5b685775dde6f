/** Legends of shaded cells. */

import type { ComponentChildren } from "preact";
import { fixed, percent } from "../format";

interface ShadesOptions {
  /** Of cells behind numbers, of pixels, or of both signs of each. */
  kind: "cell" | "signed-cell" | "pixel" | "signed-pixel";
  from: string;
  to: string;
  children: ComponentChildren;
}

/** The legend of shaded cells: the palest and the strongest color with their numbers. */
export function Shades({ kind, from, to, children }: ShadesOptions) {
  return (
    <p class="shades">
      <span class="nobreak">{from} <i class={kind} aria-hidden="true" /> {to}</span> <span>{children}</span>
    </p>
  );
}

/** The legend of strips whose full color is a number, or its negative; of shares without a sign. */
export function StripShades({ largest, isShare = false, children }: { largest: number; isShare?: boolean; children: ComponentChildren }) {
  return isShare ? (
    <Shades kind="pixel" from="0%" to={percent(largest)}>{children}</Shades>
  ) : (
    <Shades kind="signed-pixel" from={fixed(-largest)} to={fixed(largest)}>{children}</Shades>
  );
}
