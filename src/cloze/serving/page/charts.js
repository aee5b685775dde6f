// @ts-check
/** Pictures: bars, maps, curves, points. Colors come from the style sheet, so that light and dark need no redrawing. */

import { element, svg, percent } from "./dom.js";

/**
 * Shares as bars, in a table that can be read aloud.
 * @param {{label: string, share: number, strong?: boolean}[]} rows
 * @param {string} name
 * @param {number} [full] the share of a full bar
 */
export function bars(rows, name, full = 1) {
  const lines = rows.map(({ label, share, strong }) =>
    element(
      "tr",
      { class: strong ? "strong" : undefined },
      element("th", { scope: "row" }, label),
      element("td", { class: "bar" }, bar(share / full)),
      element("td", {}, percent(share)),
    ),
  );
  return element(
    "table",
    { class: "bars", "aria-label": name },
    element("tbody", {}, ...lines),
  );
}

/** @param {number} share 0 to 1 */
export function bar(share) {
  return svg(
    "svg",
    { viewBox: "0 0 100 8", preserveAspectRatio: "none", "aria-hidden": "true" },
    svg("rect", { class: "track", width: 100, height: 8 }),
    svg("rect", { class: "fill", width: Math.max(0, 100 * share), height: 8 }),
  );
}

const LEVELS = 10;

/**
 * A matrix of weights as squares of one unit, the stronger the darker: a path for each level of strength.
 * @param {ArrayLike<number>[]} rows numbers from 0 to 1
 */
export function squares(rows) {
  const paths = Array.from({ length: LEVELS + 1 }, () => "");
  rows.forEach((row, y) =>
    Array.from(row).forEach((weight, x) => {
      // the root shows small weights, too
      paths[Math.round(LEVELS * Math.sqrt(weight))] += `M${x} ${y}h1v1h-1z`;
    }),
  );
  return paths.flatMap((d, level) => (level && d ? [svg("path", { class: "fill", d, opacity: level / LEVELS })] : []));
}

/**
 * The first numbers of a vector as a strip: one color above zero, the other below.
 * @param {ArrayLike<number>} values
 * @param {number} largest the value with the full color
 */
export function strip(values, largest) {
  const cells = Array.from(values).map((value, x) =>
    svg("rect", {
      class: value < 0 ? "below" : "fill",
      x,
      width: 1,
      height: 1,
      opacity: Math.min(1, Math.sqrt(Math.abs(value) / (largest || 1))).toFixed(2),
    }),
  );
  return svg(
    "svg",
    { class: "strip", viewBox: `0 0 ${values.length} 1`, preserveAspectRatio: "none", "aria-hidden": "true" },
    ...cells,
  );
}

/**
 * A table of similarities as colored cells.
 * @param {string[]} names of rows and columns
 * @param {ArrayLike<number>[]} rows cosines
 * @param {string} caption read aloud
 */
export function heatMap(names, rows, caption) {
  const lowest = Math.min(...rows.flatMap((row) => Array.from(row)));
  const numbers = names.map((_, number) => element("th", { scope: "col" }, String(number + 1)));
  const lines = rows.map((row, y) =>
    element(
      "tr",
      {},
      element("th", { scope: "row" }, element("b", {}, String(y + 1)), ` ${names[y]}`),
      ...Array.from(row).map((value) =>
        element(
          "td",
          { "--strength": `${Math.round(lowest > 0.9999 ? 100 : (100 * (value - lowest)) / (1 - lowest))}%` },
          element("span", {}, value.toFixed(2).replace("-", "−")),
        ),
      ),
    ),
  );
  return element(
    "div",
    { class: "scroll", tabindex: "0", role: "region", "aria-label": caption },
    element(
      "table",
      { class: "heat", "aria-label": caption },
      element("thead", {}, element("tr", {}, element("td"), ...numbers)),
      element("tbody", {}, ...lines),
    ),
  );
}

/**
 * @typedef {{steps: number[], values: number[]}} Curve
 * @typedef {{kind: "train" | "held-out" | "baseline", name: string, curve: Curve}} Line
 */

const WIDTH = 400;
const HEIGHT = 190;
const EDGE = { left: 46, right: 8, top: 8, bottom: 22 };

/**
 * Curves over the steps of a run.
 * @param {Line[]} lines
 * @param {number} end the last step of the run
 * @param {string} label
 */
export function curves(lines, end, label) {
  const all = lines.flatMap((line) => line.curve.values);
  const ticks = roundTicks(Math.min(...all), Math.max(...all), 4);
  const [low, high] = [ticks[0], ticks[ticks.length - 1]];
  const x = (/** @type {number} */ step) => EDGE.left + (step / end) * (WIDTH - EDGE.left - EDGE.right);
  const y = (/** @type {number} */ value) =>
    HEIGHT - EDGE.bottom - ((value - low) / (high - low)) * (HEIGHT - EDGE.top - EDGE.bottom);
  const horizontal = ticks.flatMap((tick) => [
    svg("line", { class: "grid", x1: EDGE.left, x2: WIDTH - EDGE.right, y1: y(tick), y2: y(tick) }),
    svg("text", { class: "tick", x: EDGE.left - 6, y: y(tick) + 4, "text-anchor": "end" }, short(tick)),
  ]);
  const vertical = roundTicks(0, end, 4)
    .filter((step) => step <= end)
    .map((step) =>
      svg("text", { class: "tick", x: x(step), y: HEIGHT - 5, "text-anchor": step ? "middle" : "start" }, short(step)),
    );
  const drawn = lines.map(({ kind, curve }) => {
    const path = curve.steps.map((step, i) => `${i ? "L" : "M"}${x(step).toFixed(1)} ${y(curve.values[i]).toFixed(1)}`);
    return svg("path", { class: `curve ${kind}`, d: path.join("") + (path.length === 1 ? "h.1" : "") });
  });
  const dots = lines
    .filter(({ kind, curve }) => kind === "held-out" && curve.steps.length <= 30)
    .flatMap(({ curve }) =>
      curve.steps.map((step, i) => svg("circle", { class: "dot held-out", cx: x(step), cy: y(curve.values[i]), r: 2.6 })),
    );
  return svg(
    "svg",
    { viewBox: `0 0 ${WIDTH} ${HEIGHT}`, role: "img", "aria-label": label },
    ...horizontal,
    ...vertical,
    ...drawn,
    ...dots,
  );
}

/**
 * Round numbers around a range.
 * @param {number} low
 * @param {number} high
 * @param {number} count
 */
export function roundTicks(low, high, count) {
  const span = high - low || Math.abs(high) || 1;
  const power = 10 ** Math.floor(Math.log10(span / count));
  const size = [1, 2, 2.5, 5, 10].map((step) => step * power).find((step) => span / step <= count) ?? 10 * power;
  const first = Math.floor(low / size + 1e-9);
  const last = Math.max(first + 1, Math.ceil(high / size - 1e-9));
  return Array.from({ length: last - first + 1 }, (_, i) => Number(((first + i) * size).toPrecision(12)));
}

/** @param {number} value */
export function short(value) {
  const size = Math.abs(value);
  if (size >= 1e6) return `${Number((value / 1e6).toPrecision(3))}M`;
  if (size >= 1e5) return `${Number((value / 1e3).toPrecision(3))}k`;
  if (size > 0 && size < 1e-3) return Number(value.toPrecision(3)).toExponential().replace("-", "−");
  if (size >= 1e3) return Math.round(value).toLocaleString("en").replace("-", "−");
  return String(Number(value.toPrecision(4))).replace("-", "−");
}
