/** The script of the file that `cloze report` writes: the curves of a run. */

import { nice, ticks } from "d3-array";
import { render } from "preact";
import { short } from "./format";
import { Chart, extent, Levels, linearScale, linePath } from "./parts/drawing";
import { Figure } from "./parts/save";

interface Line {
  kind: string;
  name: string;
  curve: { steps: number[]; values: number[] };
}

const HEIGHT = 190;
const EDGE = { left: 46, right: 10, top: 9, bottom: 22 };
const TIMES_HEIGHT = 16;
const MAX_DOTS = 30;

interface Run {
  end: number;
  /** Steps at which the later phases start. */
  phases: number[];
  times: { step: number; label: string }[];
}

/** Curves over steps 0 to `end`, with dotted lines at the steps of phases, and times at the top. */
function Curves({ lines, label, run: { end, phases, times } }: { lines: Line[]; label: string; run: Run }) {
  const edge = times.length ? EDGE.top + TIMES_HEIGHT : EDGE.top;
  const [low, high] = extent(lines.flatMap((line) => line.curve.values));
  const [bottom, top] = high > low ? [low, high] : high ? [Math.min(0, 2 * high), Math.max(0, 2 * high)] : [-1, 1];
  const [lowest, highest] = nice(bottom, top, 4);
  const y = linearScale([lowest, highest], [HEIGHT - EDGE.bottom, edge]);
  const dotted = lines.flatMap(({ kind, curve }) => (kind === "held-out" && curve.steps.length <= MAX_DOTS ? [curve] : []));
  const draw = (width: number) => {
    const x = linearScale([0, end || 1], [EDGE.left, width - EDGE.right]);
    return (
      <>
        <Levels ticks={ticks(lowest, highest, 4).map((tick) => [tick, y(tick)])} left={EDGE.left} right={width - EDGE.right} />
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
        {dotted.map(({ steps, values }) => steps.map((step, i) => <circle class="dot held-out" cx={x(step)} cy={y(values[i])} r={2.6} />))}
      </>
    );
  };
  return <Chart height={HEIGHT} label={label}>{draw}</Chart>;
}

const { measures, ...run }: Run & { measures: { name: string; title: string; lines: Line[] }[] } = JSON.parse(document.getElementById("data")!.textContent!);
render(
  <>
    {measures.map(({ name, title, lines }) => {
      const lasts = lines.map((line) => `${line.name} ${short(line.curve.values[line.curve.values.length - 1])}`);
      const legend = <span class="legend">{lines.map((line, i) => <span class={line.kind}>{lasts[i]}</span>)}</span>;
      return (
        <Figure key={name} name={name} title={title} legend={legend}>
          <Curves lines={lines} run={run} label={`${title} over ${run.end} steps: ${lasts.join(", ")}`} />
        </Figure>
      );
    })}
  </>,
  document.getElementById("app")!,
);
