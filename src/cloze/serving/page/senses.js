// @ts-check
/** One word in several sentences: from one row of a table to as many vectors as there are meanings. */

import { keepBox } from "./address.js";
import { heatMap } from "./charts.js";
import { afterTyping, element, field, percent, svg, textBox } from "./dom.js";
import { answers, ask } from "./server.js";

const SENTENCES = [
  "They sat on the bank of the river.",
  "The bank of the river was covered with grass.",
  "The boat was tied to the left bank.",
  "She works for a bank in the city.",
  "The bank lent him money to buy a house.",
  "He opened an account at the bank.",
];

/**
 * @typedef {object} Found
 * @property {{sentence: number, start: number, end: number}[]} occurrences
 * @property {[number, number][][]} points of each layer, the table first
 * @property {number[]} shares of the variance that the plane shows
 * @property {number[][][]} cosines
 */

/**
 * @param {HTMLElement} body
 * @param {() => import("./models.js").Model} model
 */
export function wordInContext(body, model) {
  const word = textBox("bank");
  const sentences = textBox(SENTENCES.join("\n"), SENTENCES.length);
  keepBox(word, "word");
  keepBox(sentences, "sentences");
  const result = element("div", { class: "card" });
  const show = answers(result);
  const refresh = () =>
    show(async (signal) => {
      const lines = sentences.value.split("\n").map((/** @type {string} */ line) => line.trim()).filter(Boolean);
      const found = await ask("explore/word", { model: model().name, word: word.value.trim(), sentences: lines }, signal);
      return explorer(found, lines);
    });
  for (const box of [word, sentences]) box.addEventListener("input", afterTyping(refresh));
  body.append(
    element("div", { class: "word-and-sentences" }, field("Word", word), field("Sentences, one a line", sentences)),
    result,
  );
  return refresh;
}

/**
 * @param {Found} found
 * @param {string[]} sentences
 */
function explorer(found, sentences) {
  const last = found.points.length - 1;
  const slider = element("input", { type: "range", min: 0, max: last, value: last, id: "layer" });
  const output = element("output", { for: "layer" });
  const stage = plane(found, sentences);
  const alike = element("div");
  const names = found.occurrences.map((occurrence) => sentences[occurrence.sentence]);
  const draw = () => {
    const layer = Number(slider.value);
    const name = layer ? `layer ${layer} of ${last}` : "the lookup table";
    output.textContent = layer
      ? `${name}: the plane shows ${percent(found.shares[layer])} of how they differ`
      : `${name}: one row, one point`;
    slider.setAttribute("aria-valuetext", name);
    stage.move(layer);
    alike.replaceChildren(heatMap(names, found.cosines[layer], `Cosines of the word’s vectors in ${name}`));
  };
  slider.addEventListener("input", draw);
  draw();
  return [
    element("p", { class: "slider" }, element("label", { for: "layer" }, "Layer"), slider, output),
    element("div", { class: "senses" }, stage.picture, alike),
  ];
}

const SIZE = 340;
const ROOM = 26; // for the numbers at the edge

/**
 * The points, which glide to where another layer has them.
 * @param {Found} found
 * @param {string[]} sentences
 */
function plane(found, sentences) {
  const dots = found.occurrences.map((occurrence, number) =>
    svg(
      "g",
      { class: "point" },
      svg("title", {}, sentences[occurrence.sentence]),
      svg("circle", { r: 11 }),
      svg("text", { "text-anchor": "middle", y: 4 }, String(number + 1)),
    ),
  );
  const picture = svg(
    "svg",
    { class: "plane", viewBox: `0 0 ${SIZE} ${SIZE}`, role: "img", "aria-label": "The vectors of the word, in two dimensions" },
    svg("path", { class: "grid", d: `M${SIZE / 2} 8V${SIZE - 8}M8 ${SIZE / 2}H${SIZE - 8}` }),
    ...dots,
  );
  /** @param {number} layer */
  const move = (layer) => {
    const points = found.points[layer];
    const reach = Math.max(1e-9, ...points.flat().map(Math.abs)); // a layer's own scale: they grow upwards
    dots.forEach((dot, number) => {
      const [x, y] = points[number].map((value) => SIZE / 2 + (value / reach) * (SIZE / 2 - ROOM));
      dot.style.transform = `translate(${x.toFixed(1)}px, ${y.toFixed(1)}px)`;
    });
  };
  return { picture, move };
}
