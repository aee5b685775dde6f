// @ts-check
/** Training: the curves of a run, while it runs. */

import { curves, short } from "./charts.js";
import { element } from "./dom.js";
import { answers, ask } from "./server.js";

const EVERY_MS = 2000;
const BOOKKEEPING = new Set(["kind", "step", "phase", "epoch", "tokens", "seconds"]);
const BASELINES = ["unigram", "majority"];
const MOST_POINTS = 160;

/** @typedef {Record<string, any> & {kind: string, step: number}} Row a line of metrics.jsonl */

/** @type {import("./main.js").View} */
export const trainingView = {
  id: "training",
  title: "Training",
  build: () => {
    const body = element("div", { class: "part-body" });
    const chooser = element("span");
    answers(body)(async (signal) => {
      /** @type {string[]} */
      const names = await ask("explore/runs", undefined, signal);
      if (!names.length) {
        return [element("p", { class: "missing" }, "The server watches no run. Watch one: ", element("code", {}, "cloze serve -m DIR --watch RUN"))];
      }
      const select = element("select", { "aria-label": "Run" }, ...names.map((name) => element("option", { value: name }, name)));
      const place = element("div");
      let stop = watch(names[0], place);
      select.addEventListener("change", () => {
        stop();
        stop = watch(select.value, place);
      });
      chooser.replaceChildren(names.length > 1 ? select : element("span", { class: "model" }, names[0]));
      return [place];
    });
    return [
      element(
        "section",
        { class: "part" },
        element("div", { class: "part-head" }, element("h2", {}, "A training run"), chooser),
        element("p", { class: "lead" }, "Losses, scores, learning rate and throughput from metrics.jsonl, updated while the run trains."),
        body,
      ),
    ];
  },
};

/**
 * Follow a run until told to stop; while nobody looks, the server is left alone.
 * @param {string} name
 * @param {HTMLElement} place
 */
function watch(name, place) {
  /** @type {Row[]} */
  const rows = [];
  let after = "";
  let stopped = false;
  let changed = 0;
  const show = answers(place);
  const poll = async () => {
    if (stopped) return;
    if ((place.isConnected && !document.hidden) || !rows.length) {
      await show(async (signal) => {
        let found;
        do {
          found = await ask(`explore/runs/${encodeURIComponent(name)}?after=${after}`, undefined, signal);
          if (found.is_anew) rows.length = 0;
          rows.push(...found.rows);
          after = found.place;
          if (found.rows.length) changed = Date.now();
        } while (found.more);
        return picture(rows, found.seconds_since_change);
      });
    }
    setTimeout(poll, EVERY_MS);
  };
  poll();
  return () => (stopped = true);
}

/**
 * @param {Row[]} rows
 * @param {number} idle seconds since the file grew
 */
function picture(rows, idle) {
  if (!rows.length) return [element("p", { class: "muted" }, "The run has not written any metrics yet.")];
  const last = rows.reduce((first, second) => ({ ...first, ...second }));
  const end = rows.reduce((most, { step }) => Math.max(most, step), 0); // too many for the arguments of a call
  const tiles = [
    ["Step", end.toLocaleString("en")],
    ["Time", clock(last.seconds)],
    ["Tokens", last.tokens === undefined ? undefined : short(last.tokens)],
    ["Tokens a second", last.tokens_per_second === undefined ? undefined : short(last.tokens_per_second)],
  ].filter(([, value]) => value !== undefined);
  const state = idle < 60 ? "live" : `quiet for ${clock(idle)}`;
  const charts = measures(rows).map(({ name, lines }) => {
    const values = lines.map((line) => `${line.name} ${short(line.curve.values[line.curve.values.length - 1])}`);
    return element(
      "figure",
      { class: "card" },
      element(
        "figcaption",
        {},
        element("b", {}, words(name)),
        element("span", { class: "legend" }, ...lines.map((line, i) => element("span", { class: line.kind }, values[i]))),
      ),
      curves(lines, end, `${words(name)} over ${end} steps: ${values.join(", ")}`),
    );
  });
  return [
    element(
      "dl",
      { class: "tiles" },
      ...tiles.map(([label, value]) => element("div", {}, element("dt", {}, label ?? ""), element("dd", {}, value ?? ""))),
      element("div", {}, element("dt", {}, "State"), element("dd", { class: idle < 60 ? "live" : "" }, state)),
    ),
    element("div", { class: "figures" }, ...charts),
  ];
}

/**
 * The curves of a run: losses first, then scores, then how the training went.
 * @param {Row[]} rows
 * @returns {{name: string, lines: import("./charts.js").Line[]}[]}
 */
export function measures(rows) {
  const names = new Set(
    rows.flatMap((row) => Object.keys(row).filter((name) => !BOOKKEEPING.has(name) && typeof row[name] === "number")),
  );
  const rank = (/** @type {string} */ name) =>
    name === "loss" ? 0 : name.endsWith("loss") ? 1 : ["learning_rate", "gradient_norm", "tokens_per_second"].includes(name) ? 3 : 2;
  const isBaseline = (/** @type {string} */ name) => BASELINES.some((baseline) => name.split("_").includes(baseline));
  return [...names]
    .filter((name) => !isBaseline(name))
    .sort((a, b) => rank(a) - rank(b))
    .map((name) => {
      const beside = [...names].find((other) => isBaseline(other) && withoutBaseline(other) === name);
      /** @type {import("./charts.js").Line[]} */
      const lines = [
        { kind: "baseline", name: beside?.split("_").find((word) => BASELINES.includes(word)) ?? "", curve: curve(rows, "validation", beside) },
        { kind: "train", name: "training", curve: curve(rows, "train", name) },
        { kind: "held-out", name: "held out", curve: curve(rows, "validation", name) },
      ];
      return { name, lines: lines.filter((line) => line.curve.values.length) };
    })
    .filter(({ lines }) => lines.length);
}

/** @param {string} name */
function withoutBaseline(name) {
  return name.split("_").filter((word) => !BASELINES.includes(word)).join("_");
}

/**
 * Means over neighbors, so that a long run draws no more points than a short one.
 * @param {Row[]} rows
 * @param {string} kind
 * @param {string | undefined} name
 * @returns {import("./charts.js").Curve}
 */
function curve(rows, kind, name) {
  const own = name === undefined ? [] : rows.filter((row) => row.kind === kind && Number.isFinite(row[name]));
  const size = Math.max(1, Math.ceil(own.length / MOST_POINTS));
  const groups = Array.from({ length: Math.ceil(own.length / size) }, (_, i) => own.slice(i * size, (i + 1) * size));
  return {
    steps: groups.map((group) => group[group.length - 1].step),
    values: groups.map((group) => group.reduce((sum, row) => sum + row[name ?? ""], 0) / group.length),
  };
}

/** @param {string} name */
function words(name) {
  const text = name.replaceAll("_", " ").replace("masked lm", "masked LM");
  return text[0].toUpperCase() + text.slice(1);
}

/** @param {number | undefined} seconds */
function clock(seconds) {
  if (seconds === undefined) return undefined;
  const whole = Math.round(seconds);
  const [h, m, s] = [Math.floor(whole / 3600), Math.floor(whole / 60) % 60, whole % 60];
  return h ? `${h} h ${m} min` : m ? `${m} min ${s} s` : `${s} s`;
}
