/** The script of the file that `cloze corpus audit` writes: histograms of lengths, and counts of tokens by rank. */

import { nice, ticks } from "d3-array";
import { render } from "preact";
import { grouped, short } from "./format";
import { Chart, extent, Levels, linearScale, linePath, range, type Tick } from "./parts/drawing";
import { Figure } from "./parts/save";

interface Lengths {
  title: string;
  /** The unit of the lengths, such as tokens. */
  unit: string;
  /** The items that are counted, such as sentences. */
  counted: string;
  /** The smallest length of each bar. */
  starts: number[];
  counts: number[];
  largest: number;
}

/** Rank and count of tokens, the most frequent first. */
type Ranks = [number, number][];

const HEIGHT = 230;
const EDGE = { left: 62, right: 22, top: 10, bottom: 38 };
const GAP = 0.14; // between bars, as a share of their distance
const MAX_LABELS = 7;
const MAX_POWERS = 6;
const xRange = (width: number): [number, number] => [EDGE.left, width - EDGE.right];
const Y_RANGE: [number, number] = [HEIGHT - EDGE.bottom, EDGE.top];

/** Every n-th value, so that at most `most` are left. */
function thin<T>(values: T[], most: number): T[] {
  const step = Math.ceil(values.length / most);
  return values.filter((_, i) => i % step === 0);
}

function Axes({ width, xLabel, yLabel, xTicks, yTicks }: { width: number; xLabel: string; yLabel: string; xTicks: Tick[]; yTicks: Tick[] }) {
  const middle = (EDGE.top + HEIGHT - EDGE.bottom) / 2;
  return (
    <>
      <Levels ticks={yTicks} left={EDGE.left} right={width - EDGE.right} />
      {xTicks.map(([value, x]) => <text class="tick" x={x} y={HEIGHT - EDGE.bottom + 15} text-anchor="middle">{short(value)}</text>)}
      <text class="tick" x={(EDGE.left + width - EDGE.right) / 2} y={HEIGHT - 5} text-anchor="middle">{xLabel}</text>
      <text class="tick" transform={`translate(12 ${middle}) rotate(-90)`} text-anchor="middle">{yLabel}</text>
    </>
  );
}

/** Bars of equal width; each is labeled with its smallest length. */
function Histogram({ of: { title, unit, counted, starts, counts, largest } }: { of: Lengths }) {
  const [, largestCount] = extent(counts);
  const [, top] = nice(0, largestCount || 1, 5);
  const y = linearScale([0, top], Y_RANGE);
  const lengths = (i: number) => {
    const last = i + 1 < starts.length ? starts[i + 1] - 1 : largest;
    return last > starts[i] ? `${short(starts[i])} to ${short(last)}` : short(starts[i]);
  };
  const most = counts.indexOf(largestCount);
  const draw = (width: number) => {
    const [left, right] = xRange(width);
    const step = (right - left) / (starts.length - GAP);
    const bar = (1 - GAP) * step;
    return (
      <>
        <Axes
          width={width}
          xLabel={unit}
          yLabel={counted}
          xTicks={thin(range(starts.length), MAX_LABELS).map((i) => [starts[i], left + i * step + bar / 2])}
          yTicks={ticks(0, top, 5).filter(Number.isInteger).map((tick) => [tick, y(tick)])}
        />
        {counts.map((count, i) => (
          <rect class="fill" x={left + i * step} width={bar} y={y(count)} height={y(0) - y(count)}>
            <title>{`${lengths(i)} ${unit}: ${grouped(count)} ${counted}`}</title>
          </rect>
        ))}
      </>
    );
  };
  const label = `${title}: from ${short(starts[0])} to ${short(largest)}; most ${counted}, ${short(counts[most])}, have ${lengths(most)} ${unit}`;
  return <Chart height={HEIGHT} label={label}>{draw}</Chart>;
}

/** A logarithmic scale for some numbers, with at most `MAX_POWERS` ticks at powers of ten. */
function powers(values: number[], room: [number, number]) {
  const [low, high] = extent(values).map(Math.log10);
  const [first, last] = [Math.floor(low), Math.max(Math.ceil(high), Math.floor(low) + 1)];
  const scale = linearScale([first, last], room);
  const exponents = thin(range(last - first + 1).map((i) => first + i), MAX_POWERS);
  return { scale: (value: number) => scale(Math.log10(value)), ticks: exponents.map((exponent): Tick => [10 ** exponent, scale(exponent)]) };
}

/** Counts of tokens over their ranks, both on logarithmic scales. */
function CountsByRank({ of: ranks, title }: { of: Ranks; title: string }) {
  const y = powers(ranks.map(([, count]) => count), Y_RANGE);
  const [first, last] = [ranks[0], ranks[ranks.length - 1]];
  const draw = (width: number) => {
    const x = powers(ranks.map(([rank]) => rank), xRange(width));
    const points = ranks.map(([rank, count]): [number, number] => [x.scale(rank), y.scale(count)]);
    return (
      <>
        <Axes width={width} xLabel="rank" yLabel="count" xTicks={x.ticks} yTicks={y.ticks} />
        <path class="curve ranks" d={linePath(points)} />
        {points.map(([x, y], i) => <circle class="fill" cx={x} cy={y} r={2.6}><title>{`rank ${grouped(ranks[i][0])}: ${grouped(ranks[i][1])}`}</title></circle>)}
      </>
    );
  };
  const label = `${title}: ${short(first[1])} at rank ${short(first[0])}, ${short(last[1])} at rank ${short(last[0])}`;
  return <Chart height={HEIGHT} label={label}>{draw}</Chart>;
}

const nameOf = (title: string) => title.toLowerCase().replace(/\W+/g, "-");
const { lengths, ranks }: { lengths: Lengths[]; ranks: Ranks } = JSON.parse(document.getElementById("data")!.textContent!);
const RANKS = "Count of a token by its rank";
render(
  <>
    {lengths.map((of) => <Figure title={of.title} name={nameOf(of.title)}><Histogram of={of} /></Figure>)}
    {ranks.length > 0 && <Figure title={RANKS} name={nameOf(RANKS)}><CountsByRank of={ranks} title={RANKS} /></Figure>}
  </>,
  document.getElementById("app")!,
);
