/** The window on a long text that a view shows. */

import { setValues } from "../address";
import { grouped, within } from "../format";

/** Numbers of tokens, without the special ones. */
export interface TextWindow {
  start: number;
  count: number;
  total: number;
}

/** The position of the window, with buttons that move it; nothing if it is the whole text. */
export function WindowBar({ of: { start, count, total } }: { of: TextWindow }) {
  if (count === total) return null;
  const move = (to: number) =>
    setValues({ start: String(within(to, total - count + 1)), token: undefined, from: undefined, to: undefined }, true);
  return (
    <p class="examples window">
      <button type="button" class="chip" disabled={start === 0} onClick={() => move(start - count)}>Earlier</button>
      <span>Tokens {grouped(start + 1)} to {grouped(start + count)} of {grouped(total)}, which the model reads alone</span>
      <button type="button" class="chip" disabled={start + count === total} onClick={() => move(start + count)}>Later</button>
    </p>
  );
}
