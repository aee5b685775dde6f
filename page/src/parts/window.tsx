/** The part of a long text that a view shows, and the way to the others. */

import { setValues } from "../address";

/** Tokens of the text, without the special ones. */
export interface TextWindow {
  start: number;
  count: number;
  total: number;
}

/** Where the window is, with buttons that move it; nothing where it is the whole text. */
export function WindowBar({ of: { start, count, total } }: { of: TextWindow }) {
  if (count === total) return null;
  const number = (value: number) => value.toLocaleString("en");
  const move = (to: number) =>
    setValues({ start: String(Math.max(0, Math.min(total - count, to))), token: undefined, from: undefined, to: undefined }, true);
  return (
    <p class="examples window">
      <button type="button" class="chip" disabled={start === 0} onClick={() => move(start - count)}>Earlier</button>
      <span>Tokens {number(start + 1)} to {number(start + count)} of {number(total)}, which the model reads alone</span>
      <button type="button" class="chip" disabled={start + count === total} onClick={() => move(start + count)}>Later</button>
    </p>
  );
}
