/** Bars, strips, maps and curves. Colors come from the style sheet, so that light and dark need no redrawing. */

import { scaleLinear } from "d3-scale";
import type { ComponentChildren } from "preact";
import { useMemo } from "preact/hooks";
import { fixed, percent, short } from "../format";
import { Chart } from "./chart";
import { extent, linePath } from "./drawing";
import { Pixels } from "./pixels";
import { SaveDrawing } from "./save";
import { Shades } from "./shades";

export interface BarRow {
  label: string;
  share: number;
  strong?: boolean;
}

/** Shares as bars from 0 to 100%, in a table that can be read aloud. */
export function Bars({ rows, name, file }: { rows: BarRow[]; name: string; file?: string }) {
  return (
    <>
      <table class="bars" aria-label={name}>
        <tbody>
          {rows.map(({ label, share, strong }) => (
            <tr class={strong ? "strong" : undefined}>
              <th scope="row">{label}</th>
              <td class="bar"><Bar share={share} /></td>
              <td>{percent(share)}</td>
            </tr>
          ))}
        </tbody>
      </table>
      {file && <SaveDrawing name={file} draw={() => <BarsDrawing rows={rows} name={name} />} />}
    </>
  );
}

export function Bar({ share }: { share: number }) {
  return (
    <svg viewBox="0 0 100 8" preserveAspectRatio="none" aria-hidden="true">
      <rect class="track" width={100} height={8} />
      <rect class="fill" width={Math.max(0, 100 * share)} height={8} />
    </svg>
  );
}

/** The table of bars as one SVG. */
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

const LEVELS = 10;

/** Squares of one unit, the stronger the darker: a path for each level of strength, of numbers from 0 to 1. */
export function Squares({ rows }: { rows: ArrayLike<number>[] }) {
  const paths = useMemo(() => {
    const byLevel = Array.from({ length: LEVELS + 1 }, () => "");
    rows.forEach((row, y) =>
      Array.from(row).forEach((weight, x) => {
        // the root shows small weights, too
        byLevel[Math.round(LEVELS * Math.sqrt(weight))] += `M${x} ${y}h1v1h-1z`;
      }),
    );
    return byLevel;
  }, [rows]);
  return <>{paths.map((d, level) => (level && d ? <path class="fill" d={d} opacity={level / LEVELS} /> : null))}</>;
}

/** The size of the largest number of a vector, for its colors. */
export function largestOf(values: ArrayLike<number>): number {
  return Math.max(1e-9, ...extent(values).map(Math.abs));
}

/** A vector as a strip: one color above zero, the other below. */
export function Strip({ values, largest }: { values: ArrayLike<number>; largest?: number }) {
  const rows = useMemo(() => [values], [values]);
  const full = useMemo(() => largest ?? largestOf(values), [values, largest]);
  return <Pixels class="strip" rows={rows} largest={full} />;
}

/** A table of similarities as colored cells. */
export function HeatMap({ names, rows, caption, marks }: { names: string[]; rows: ArrayLike<number>[]; caption: string; marks?: ComponentChildren[] }) {
  const lowest = Math.min(...rows.flatMap((row) => Array.from(row)));
  const strength = (value: number) => Math.round(lowest > 0.9999 ? 100 : (100 * (value - lowest)) / (1 - lowest));
  return (
    <div>
      <Scroll label={caption}>
        <table class="heat" aria-label={caption}>
          <thead>
            <tr><td />{names.map((_, i) => <th scope="col">{i + 1}</th>)}</tr>
          </thead>
          <tbody>
            {rows.map((row, y) => (
              <tr>
                <th scope="row">{marks?.[y]}<b>{y + 1}</b> {names[y]}</th>
                {Array.from(row).map((value) => (
                  <td style={{ "--strength": `${strength(value)}%` }}><span>{fixed(value, 2)}</span></td>
                ))}
              </tr>
            ))}
          </tbody>
        </table>
      </Scroll>
      <Shades kind="cell" from={fixed(lowest, 2)} to="1.00">cosine, from the lowest in this table</Shades>
    </div>
  );
}

export interface Curve {
  steps: number[];
  values: number[];
}
export interface Line {
  kind: string;
  name: string;
  curve: Curve;
}

export interface Mark {
  step: number;
  label: string;
}

const HEIGHT = 190;
const EDGE = { left: 46, right: 10, top: 9, bottom: 22 };
const TIMES_HEIGHT = 16;
const MAX_DOTS = 30;

interface CurvesOptions {
  lines: Line[];
  end: number;
  label: string;
  /** The kind of the lines whose points are shown, if they are few. */
  dotted?: string;
  /** Steps with a dotted vertical line. */
  phases?: number[];
  /** A second scale above. */
  times?: Mark[];
}

/** Curves over steps from 0 to `end`. */
export function Curves({ lines, end, label, dotted = "held-out", phases = [], times = [] }: CurvesOptions) {
  const top = times.length ? EDGE.top + TIMES_HEIGHT : EDGE.top;
  const [low, high] = extent(lines.flatMap((line) => line.curve.values));
  const room = high > low ? [low, high] : high ? [Math.min(0, 2 * high), Math.max(0, 2 * high)] : [-1, 1];
  const y = scaleLinear(room, [HEIGHT - EDGE.bottom, top]).nice(4);
  const draw = (width: number) => {
    const x = scaleLinear([0, end || 1], [EDGE.left, width - EDGE.right]);
    return (
      <>
        {y.ticks(4).map((tick) => (
          <>
            <line class="grid" x1={EDGE.left} x2={width - EDGE.right} y1={y(tick)} y2={y(tick)} />
            <text class="tick" x={EDGE.left - 6} y={y(tick) + 4} text-anchor="end">{short(tick)}</text>
          </>
        ))}
        {x.ticks(4).filter((tick) => Number.isInteger(tick)).map((tick) => (
          <text class="tick" x={x(tick)} y={HEIGHT - 5} text-anchor={tick ? (tick === end ? "end" : "middle") : "start"}>{short(tick)}</text>
        ))}
        {times.map((time) => (
          <>
            <line class="grid" x1={x(time.step)} x2={x(time.step)} y1={top - 4} y2={top} />
            <text class="tick" x={x(time.step)} y={12} text-anchor={x(time.step) > width - 40 ? "end" : "middle"}>{time.label}</text>
          </>
        ))}
        {phases.map((step) => <line class="phase" x1={x(step)} x2={x(step)} y1={top} y2={HEIGHT - EDGE.bottom} />)}
        {lines.map(({ kind, name, curve }) => (
          <path class={`curve ${kind}`} d={linePath(curve.steps.map((step, i) => [x(step), y(curve.values[i])]))}><title>{name}</title></path>
        ))}
        {lines
          .filter(({ kind, curve }) => kind === dotted && curve.steps.length <= MAX_DOTS)
          .flatMap(({ kind, curve }) =>
            curve.steps.map((step, i) => <circle class={`dot ${kind}`} cx={x(step)} cy={y(curve.values[i])} r={2.6} />),
          )}
      </>
    );
  };
  return <Chart height={HEIGHT} label={label}>{draw}</Chart>;
}
