/** Curves over the steps of a run. */

import { nice, ticks } from "d3-array";
import { short } from "../format";
import { Chart, extent, linearScale, linePath } from "./drawing";

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
  /** Steps with a dotted vertical line. */
  phases?: number[];
  /** Times at the top of the chart. */
  times?: Mark[];
}

/** Curves over steps 0 to `end`. */
export function Curves({ lines, end, label, phases = [], times = [] }: CurvesOptions) {
  const edge = times.length ? EDGE.top + TIMES_HEIGHT : EDGE.top;
  const [low, high] = extent(lines.flatMap((line) => line.curve.values));
  const [bottom, top] = high > low ? [low, high] : high ? [Math.min(0, 2 * high), Math.max(0, 2 * high)] : [-1, 1];
  const [lowest, highest] = nice(bottom, top, 4);
  const y = linearScale([lowest, highest], [HEIGHT - EDGE.bottom, edge]);
  const draw = (width: number) => {
    const x = linearScale([0, end || 1], [EDGE.left, width - EDGE.right]);
    return (
      <>
        {ticks(lowest, highest, 4).map((tick) => (
          <>
            <line class="grid" x1={EDGE.left} x2={width - EDGE.right} y1={y(tick)} y2={y(tick)} />
            <text class="tick" x={EDGE.left - 6} y={y(tick) + 4} text-anchor="end">{short(tick)}</text>
          </>
        ))}
        {ticks(0, end || 1, 4).filter(Number.isInteger).map((tick) => (
          <text class="tick" x={x(tick)} y={HEIGHT - 5} text-anchor={tick ? (tick === end ? "end" : "middle") : "start"}>{short(tick)}</text>
        ))}
        <text class="tick" x={EDGE.left - 6} y={HEIGHT - 5} text-anchor="end">step</text>
        {times.map((time) => (
          <>
            <line class="grid" x1={x(time.step)} x2={x(time.step)} y1={edge - 4} y2={edge} />
            <text class="tick" x={x(time.step)} y={12} text-anchor={x(time.step) > width - 40 ? "end" : "middle"}>{time.label}</text>
          </>
        ))}
        {phases.map((step) => <line class="phase" x1={x(step)} x2={x(step)} y1={edge} y2={HEIGHT - EDGE.bottom} />)}
        {lines.map(({ kind, name, curve }) => (
          <path class={`curve ${kind}`} d={linePath(curve.steps.map((step, i) => [x(step), y(curve.values[i])]))}><title>{name}</title></path>
        ))}
        {lines
          .filter(({ kind, curve }) => kind === "held-out" && curve.steps.length <= MAX_DOTS)
          .flatMap(({ kind, curve }) =>
            curve.steps.map((step, i) => <circle class={`dot ${kind}`} cx={x(step)} cy={y(curve.values[i])} r={2.6} />),
          )}
      </>
    );
  };
  return <Chart height={HEIGHT} label={label}>{draw}</Chart>;
}
