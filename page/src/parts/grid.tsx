/** A grid of buttons by layer, the first layer at the bottom: one stop of the Tab key, on which the arrow keys move. */

import type { ComponentChildren, CSSProperties } from "preact";
import { arrow } from "../format";
import { range } from "./drawing";

interface Cell {
  name: string;
  isChosen: boolean;
  children: ComponentChildren;
  style?: CSSProperties;
  class?: string;
  choose: () => void;
}

interface CellGridProps {
  name: string;
  class: string;
  /** Numbers of the rows, the lowest first. */
  rows: number[];
  columns: number;
  /** Of a row and of a column; with `choose` a button. */
  heads: (row: number | null, column: number | null) => { name: ComponentChildren; class?: string; label?: string; choose?: () => void };
  cell: (row: number, column: number) => Cell;
  /** Whether moving to a cell chooses it. */
  follows?: boolean;
}

export function CellGrid({ name, class: css, rows, columns, heads, cell, follows = false }: CellGridProps) {
  const all = rows.map((row) => range(columns).map((column) => cell(row, column)));
  const chosen = all.flatMap((cells, y) => cells.flatMap(({ isChosen }, x) => (isChosen ? [`${y}.${x}`] : [])))[0] ?? `${rows.length - 1}.0`;
  const head = (row: number | null, column: number | null, at: string) => {
    const { name, label, choose } = heads(row, column);
    return choose ? <button type="button" class="axis-number" data-cell={at} tabIndex={-1} aria-label={label} title={label} onClick={choose}>{name}</button> : name;
  };
  return (
    <div class="scroll">
      <table class={`cells ${css}`} aria-label={name} style={{ "--columns": columns }} onKeyDown={(event) => moveCell(event, follows)} onFocusIn={stopHere}>
        <tbody>
          {all.map((cells, y) => (
            <tr>
              <th scope="row">{head(rows[y], null, `${y}.-1`)}</th>
              {cells.map((shown, x) => (
                <td class={shown.class} style={shown.style}>
                  <button
                    type="button"
                    class="cell"
                    data-cell={`${y}.${x}`}
                    tabIndex={`${y}.${x}` === chosen ? 0 : -1}
                    aria-label={shown.name}
                    title={shown.name}
                    aria-pressed={shown.isChosen}
                    onClick={shown.choose}
                  >
                    {shown.children}
                  </button>
                </td>
              ))}
            </tr>
          )).reverse()}
        </tbody>
        <tfoot>
          <tr><td />{range(columns).map((x) => <th scope="col" class={heads(null, x).class}>{head(null, x, `-1.${x}`)}</th>)}</tr>
        </tfoot>
      </table>
    </div>
  );
}

function moveCell(event: KeyboardEvent & { currentTarget: HTMLElement }, follows: boolean): void {
  const here = document.activeElement as HTMLElement;
  const [down, right] = here.dataset.cell ? arrow(event) : [0, 0];
  if (!down && !right) return;
  const [y, x] = here.dataset.cell!.split(".").map(Number);
  const row = [...event.currentTarget.querySelectorAll<HTMLElement>(`[data-cell^="${y - down}."]`)];
  const to = Number.isFinite(right) ? row.find(({ dataset }) => dataset.cell!.endsWith(`.${x + right}`)) : row.at(right < 0 ? 0 : -1);
  to?.focus();
  if (follows && to?.ariaPressed) to.click();
}

/** Make the focused button the stop of the Tab key. */
function stopHere({ currentTarget, target }: FocusEvent & { currentTarget: HTMLElement }): void {
  for (const stop of currentTarget.querySelectorAll<HTMLElement>('[tabindex="0"]')) stop.tabIndex = -1;
  (target as HTMLElement).tabIndex = 0;
}
