/** Bars, strips, tables of shaded cells and the legends of colors. Colors are variables of the style sheet: light and dark need no redrawing. */

import { type ComponentChildren, isValidElement, type VNode } from "preact";
import { useMemo } from "preact/hooks";
import { fixed, type moveFocus, percent } from "../format";
import { largestOf, strengthOf } from "./drawing";
import type { Candidate } from "./models";
import { Pixels } from "./pixels";
import { SaveDrawing } from "./save";

interface Line {
  cells: ComponentChildren[];
  strong?: boolean;
  class?: string;
}

/** Wrap content in a cell, unless it is a td or th. */
function cell(content: ComponentChildren, wrap: (content: ComponentChildren) => VNode) {
  return isValidElement(content) && (content.type === "td" || content.type === "th") ? content : wrap(content);
}

/** A table whose first column names its rows. */
export function Table({ name, head, rows, foot, ...more }: { name: string; class: string; head?: ComponentChildren[]; rows: Line[]; foot?: ComponentChildren[]; onKeyDown?: typeof moveFocus }) {
  const line = ({ cells: [first, ...others], strong, class: css = strong ? "strong" : undefined }: Line) => (
    <tr class={css}>
      {cell(first, (name) => <th scope="row" dir="auto">{name}</th>)}
      {others.map((content) => cell(content, (content) => <td>{content}</td>))}
    </tr>
  );
  return (
    <table aria-label={name} {...more}>
      {head && <thead><tr>{head.map((content) => cell(content, (title) => <th scope="col">{title}</th>))}</tr></thead>}
      <tbody>{rows.map(line)}</tbody>
      {foot && <tfoot>{line({ cells: foot })}</tfoot>}
    </table>
  );
}

export interface BarRow {
  label: string;
  share: number;
  /** The share as text; by default in percent. */
  shown?: string;
  strong?: boolean;
  /** A share to mark on the bar. */
  tick?: number;
}

/** Bars from 0 to 100%, as a table for screen readers. */
export function Bars({ rows, name, file, class: css }: { rows: BarRow[]; name: string; file?: string; class?: string }) {
  return (
    <>
      <Table
        class={css ? `bars ${css}` : "bars"}
        name={name}
        rows={rows.map(({ label, share, shown, strong, tick }) => ({ strong, cells: [label, barCell(share, tick), shown ?? percent(share)] }))}
      />
      {file && <SaveDrawing name={file} draw={() => <BarsDrawing rows={rows} name={name} />} />}
    </>
  );
}

/** Candidates as bars, some in bold. */
export function candidateRows(candidates: Candidate[], isStrong: (token: string) => boolean = () => false): BarRow[] {
  return candidates.map(({ token, probability }) => ({ label: token, share: probability, strong: isStrong(token) }));
}

export function nextSentenceRows(isNext: number): BarRow[] {
  return [{ label: "B follows A", share: isNext }, { label: "B does not", share: 1 - isNext }];
}

/** A cell with a bar, and a tick on it. */
export function barCell(share: number, tick?: number) {
  return (
    <td class="bar" title={tick === undefined ? undefined : `predicted above ${percent(tick)}`}>
      <svg viewBox="0 0 100 8" preserveAspectRatio="none" aria-hidden="true">
        <rect class="track" width={100} height={8} />
        <rect class="fill" width={Math.max(0, 100 * share)} height={8} />
        {tick !== undefined && <rect class="tick" x={100 * tick} width={0.6} height={8} />}
      </svg>
    </td>
  );
}

function BarsDrawing({ rows, name }: { rows: BarRow[]; name: string }) {
  const [left, width, step] = [150, 320, 26];
  return (
    <svg viewBox={`0 0 560 ${rows.length * step + 40}`}>
      <text x={12} y={24} class="title">{name}</text>
      {rows.map(({ label, share, strong }, i) => (
        <g transform={`translate(0 ${i * step + 38})`} class={strong ? "strong" : undefined}>
          <text x={left - 10} y={12} text-anchor="end">{label}</text>
          <rect class="track" x={left} y={3} width={width} height={10} rx={2} />
          <rect class="fill" x={left} y={3} width={width * share} height={10} rx={2} />
          <text x={left + width + 10} y={12}>{percent(share)}</text>
        </g>
      ))}
    </svg>
  );
}

/** A table that scrolls sideways, with a shade where more of it is hidden. */
export function Scroll({ label, class: css = "", children }: { label: string; class?: string; children: ComponentChildren }) {
  return <div class={`scroll ${css}`} tabIndex={0} role="region" aria-label={label}>{children}</div>;
}

/** A vector as a strip: one color above zero, the other below. */
export function Strip({ values, largest }: { values: ArrayLike<number>; largest?: number }) {
  const rows = useMemo(() => [values], [values]);
  return <Pixels class="strip" rows={rows} largest={largest ?? largestOf(values)} />;
}

/** A table of similarities as colored cells. */
export function HeatMap({ names, rows, caption, marks }: { names: string[]; rows: ArrayLike<number>[]; caption: string; marks?: ComponentChildren[] }) {
  const lowest = Math.min(...rows.flatMap((row) => Array.from(row)));
  const strength = (value: number) => (lowest > 0.9999 ? 1 : (value - lowest) / (1 - lowest));
  return (
    <div>
      <Scroll label={caption}>
        <Table
          class="heat"
          name={caption}
          head={[<td />, ...names.map((_, i) => i + 1)]}
          rows={rows.map((row, y) => ({
            cells: [
              <>{marks?.[y]}<b>{y + 1}</b> {names[y]}</>,
              ...Array.from(row, (value) => <td style={strengthOf(strength(value))}><span>{fixed(value, 2)}</span></td>),
            ],
          }))}
        />
      </Scroll>
      <Shades kind="cell" from={fixed(lowest, 2)} to="1.00">cosine, from the lowest in this table</Shades>
    </div>
  );
}

/** A legend: the color scale between its smallest and largest number; of colors behind text (cell) or of pixels, for one sign or both. */
export function Shades({ kind, from, to, children }: { kind: `${"" | "signed-"}${"cell" | "pixel"}`; from: string; to: string; children: ComponentChildren }) {
  return (
    <p class="shades">
      <span class="nobreak">{from} <i class={kind} aria-hidden="true" /> {to}</span> <span>{children}</span>
    </p>
  );
}

/** The legend of a strip, from -largest to largest, or from 0% for shares. */
export function StripShades({ largest, isShare = false, children }: { largest: number; isShare?: boolean; children: ComponentChildren }) {
  if (isShare) return <Shades kind="pixel" from="0%" to={percent(largest)}>{children}</Shades>;
  return <Shades kind="signed-pixel" from={fixed(-largest)} to={fixed(largest)}>{children}</Shades>;
}
