// @ts-check
/** Why: the contribution of each word to a classifier's prediction, by integrated gradients. */

import { keepBox } from "./address.js";
import { afterTyping, element, examples, field, fixed, part, svg, textBox } from "./dom.js";
import { section } from "./section.js";
import { answers, ask } from "./server.js";

/** @type {[string, [string, string]][]} */
const EXAMPLES = [
  ["Praise", ["The film is not perfect, but it is warm, funny and beautifully acted.", ""]],
  ["Blame", ["A dull story that wastes a wonderful cast.", ""]],
];

/** @type {import("./main.js").View} */
export const whyView = {
  id: "why",
  title: "Why",
  build: (models) => [
    section({
      title: "Why this prediction?",
      lead: "The contribution of each word to the score of the predicted class, by integrated gradients from a text of [MASK] tokens to yours. The contributions sum to the difference of the two scores.",
      needs: "explain",
      missing: "No model here classifies texts.",
      command: "cloze serve -m RUN, where RUN is of cloze finetune classification",
      models,
      build,
    }),
  ],
};

/**
 * @typedef {{word: string, segment: string, start: number, end: number, attribution: number}} Word
 * @typedef {{explained: string, output: number, baseline_output: number, convergence_gap: number, steps: number, words: Word[]}} Explanation
 */

/**
 * @param {HTMLElement} body
 * @param {() => import("./models.js").Model} model
 */
function build(body, model) {
  const boxes = EXAMPLES[0][1].map((text) => textBox(text));
  boxes.forEach((box, number) => keepBox(box, number ? "pair" : "text"));
  const result = element("div", { class: "card", "aria-live": "polite" });
  const show = answers(result);
  const refresh = () =>
    show(async (signal) => {
      const texts = boxes.map((box) => box.value);
      const inputs = [texts[1] ? texts : texts[0]];
      const [found] = await ask("explain", { model: model().name, inputs }, signal);
      return explained(found, texts);
    });
  for (const box of boxes) box.addEventListener("input", afterTyping(refresh));
  body.append(
    element("div", { class: "text-and-pair" }, field("Text", boxes[0]), field("Second text, if there is one", boxes[1])),
    examples(EXAMPLES, (texts) => {
      boxes.forEach((box, number) => (box.value = texts[number]));
      refresh();
    }),
    result,
  );
  return refresh;
}

/**
 * @param {Explanation} found
 * @param {string[]} texts
 */
function explained(found, texts) {
  const strongest = Math.max(1e-9, ...found.words.map(({ attribution }) => Math.abs(attribution)));
  const shown = texts.flatMap((text, number) => {
    if (!text) return [];
    const words = found.words.filter(({ segment }) => segment === "AB"[number]);
    return [element("p", { class: "running", dir: "auto" }, ...shaded(text, words, strongest))];
  });
  const ranked = [...found.words].sort((a, b) => Math.abs(b.attribution) - Math.abs(a.attribution)).slice(0, 8);
  return [
    element("p", { class: "answer" }, `It says “${found.explained}”`),
    ...shown,
    element(
      "p",
      { class: "note" },
      "A word ",
      element("span", { class: "key fill-key" }, "for"),
      " it raises the score, one ",
      element("span", { class: "key below-key" }, "against"),
      " it lowers it.",
    ),
    element("h3", { class: "later" }, "What weighs most"),
    weights(ranked, strongest),
    element(
      "p",
      { class: "remark" },
      `A text of masks scores ${fixed(found.baseline_output)}, the words add ${fixed(found.output - found.baseline_output)}: ${fixed(found.output)}. `,
      `${found.steps} steps, off by ${fixed(Math.abs(found.convergence_gap), 4)}.`,
    ),
  ];
}

/**
 * @param {string} text
 * @param {Word[]} words
 * @param {number} strongest
 */
function shaded(text, words, strongest) {
  let end = 0;
  const parts = words.flatMap((word) => {
    const before = part(text, end, word.start);
    end = word.end;
    const mark = element("mark", { class: word.attribution < 0 ? "against" : "for", title: fixed(word.attribution) }, part(text, word.start, end));
    mark.style.setProperty("--strength", `${Math.round((100 * Math.abs(word.attribution)) / strongest)}%`);
    return [before, mark];
  });
  return [...parts, part(text, end)];
}

/**
 * Bars to both sides.
 * @param {Word[]} words
 * @param {number} strongest
 */
function weights(words, strongest) {
  const lines = words.map(({ word, attribution }) => {
    const width = (50 * Math.abs(attribution)) / strongest;
    const picture = svg(
      "svg",
      { viewBox: "0 0 100 8", preserveAspectRatio: "none", "aria-hidden": "true" },
      svg("rect", { class: attribution < 0 ? "below" : "fill", x: attribution < 0 ? 50 - width : 50, width, height: 8 }),
      svg("rect", { class: "zero", x: 49.9, width: 0.2, height: 8 }),
    );
    return element(
      "tr",
      {},
      element("th", { scope: "row" }, word),
      element("td", { class: "bar" }, picture),
      element("td", {}, (attribution > 0 ? "+" : "") + fixed(attribution)),
    );
  });
  return element("table", { class: "bars", "aria-label": "What weighs most" }, element("tbody", {}, ...lines));
}
