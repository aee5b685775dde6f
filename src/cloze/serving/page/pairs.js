// @ts-check
/** Pairs: the predictions of a model for two texts, or for many side by side. */

import { keepBox } from "./address.js";
import { bars, heatMap } from "./charts.js";
import { afterTyping, element, examples, field, fixed, textBox } from "./dom.js";
import { section } from "./section.js";
import { wordInContext } from "./senses.js";
import { answers, ask } from "./server.js";

/** @typedef {() => import("./models.js").Model} Chosen */

/** @type {import("./main.js").View} */
export const pairsView = {
  id: "pairs",
  title: "Pairs",
  build: (models) => [
    section({
      title: "Next sentence or not?",
      lead: "BERT’s second pre-training task: does sentence B follow sentence A in the text, or is it from another document?",
      needs: "next-sentence",
      missing: "No model here says whether a sentence follows another.",
      command: "cloze serve -m DIR, where DIR is a checkpoint pre-trained with pairs",
      models,
      build: nextSentence,
    }),
    section({
      title: "One word in several contexts",
      lead: "The embedding table has one vector for a word. BERT computes another one in each context. Move the slider from the table through the layers, and the meanings separate.",
      needs: "encode",
      missing: "No model here has an encoder.",
      command: "cloze serve -m DIR, where DIR is any checkpoint or run",
      models,
      build: wordInContext,
    }),
    section({
      title: "Similarity of sentences",
      lead: "The cosine of the vectors of each two sentences; 1 is the same direction.",
      needs: "embed",
      missing: "No model here makes vectors of texts.",
      command: "cloze serve -m DIR, where DIR is any checkpoint or a sentence-transformers model",
      models,
      build: similarity,
    }),
    section({
      title: "Classification",
      lead: "The classes of one text or of a pair of texts.",
      needs: "predict",
      missing: "No classifier is served here.",
      command: "cloze serve -m RUN, where RUN is of cloze finetune classification",
      models,
      build: classify,
    }),
  ],
};

/** @type {[string, [string, string]][]} */
const NEXT = [
  ["It follows", ["He was born in London in 1850.", "He studied at Cambridge and became a lawyer."]],
  ["It does not", ["He was born in London in 1850.", "The enzyme is found in the cells of the liver."]],
];

/**
 * @param {HTMLElement} body
 * @param {Chosen} model
 */
function nextSentence(body, model) {
  const result = element("div", { class: "card", "aria-live": "polite" });
  const show = answers(result);
  return twoTexts(body, result, { labels: ["Sentence A", "Sentence B"], keys: ["a", "b"], all: NEXT, kind: "columns" }, (a, b) =>
    show(async (signal) => {
      const [share] = await ask("next-sentence", { model: model().name, inputs: [[a, b]] }, signal);
      return [bars([{ label: "B follows A", share }, { label: "B is from elsewhere", share: 1 - share }], "Next sentence")];
    }),
  );
}

/** @type {[string, [string, string]][]} */
const CLASSES = [
  ["Praise", ["A warm, funny and beautifully acted film.", ""]],
  ["Blame", ["The plot is a mess, and the jokes are worse.", ""]],
  ["Two texts", ["A man plays the guitar.", "A man is making music."]],
];

/**
 * @param {HTMLElement} body
 * @param {Chosen} model
 */
function classify(body, model) {
  const result = element("div", { class: "card", "aria-live": "polite" });
  const show = answers(result);
  return twoTexts(body, result, { labels: ["Text", "Second text, if there is one"], keys: ["text", "pair"], all: CLASSES, kind: "text-and-pair" }, (a, b) =>
    show(async (signal) => {
      const inputs = [b ? [a, b] : [a]];
      const [found] = await ask("predict", { model: model().name, inputs }, signal);
      const rows = found.map((/** @type {{label: string, score: number}} */ each) => ({ label: each.label, share: each.score }));
      // of a regression there is one number, on a scale of its own
      return rows.length > 1 ? [bars(rows, "Classes")] : [element("p", {}, `${rows[0].label}: ${fixed(rows[0].share)}`)];
    }),
  );
}

/**
 * Two boxes that ask again when they change.
 * @param {HTMLElement} body
 * @param {HTMLElement} result
 * @param {{labels: [string, string], keys: [string, string], all: [string, [string, string]][], kind: string}} texts
 * @param {(a: string, b: string) => void} work
 */
function twoTexts(body, result, { labels, keys, all, kind }, work) {
  const boxes = all[0][1].map((text) => textBox(text));
  boxes.forEach((box, number) => keepBox(box, keys[number]));
  const refresh = () => work(boxes[0].value, boxes[1].value);
  for (const box of boxes) box.addEventListener("input", afterTyping(refresh));
  const pick = examples(all, (texts) => {
    boxes.forEach((box, number) => (box.value = texts[number]));
    refresh();
  });
  body.append(
    element("div", { class: kind }, field(labels[0], boxes[0]), field(labels[1], boxes[1])),
    pick,
    result,
  );
  return refresh;
}

const SENTENCES = [
  "A man is playing a guitar.",
  "Someone plays music on the street.",
  "The stock market fell sharply today.",
  "Shares lost a tenth of their value.",
  "A dog runs across the field.",
  "A puppy is racing over the grass.",
];

/**
 * @param {HTMLElement} body
 * @param {Chosen} model
 */
function similarity(body, model) {
  const box = textBox(SENTENCES.join("\n"), SENTENCES.length);
  keepBox(box, "texts");
  const result = element("div", { class: "card" });
  const show = answers(result);
  const refresh = () =>
    show(async (signal) => {
      const inputs = box.value.split("\n").map((/** @type {string} */ line) => line.trim()).filter(Boolean);
      if (inputs.length < 2) return [element("p", { class: "muted" }, "Give two sentences or more, each on a line of its own.")];
      /** @type {number[][]} */
      const vectors = await ask("embed", { model: model().name, inputs, normalize: true }, signal);
      const cosines = vectors.map((a) => vectors.map((b) => dot(a, b)));
      return [heatMap(inputs, cosines, "Cosines of sentences"), closest(inputs, cosines)];
    });
  box.addEventListener("input", afterTyping(refresh));
  body.append(field("Sentences, one a line", box), result);
  return refresh;
}

/**
 * @param {number[]} a
 * @param {number[]} b
 */
function dot(a, b) {
  return a.reduce((sum, value, i) => sum + value * b[i], 0);
}

/**
 * @param {string[]} names
 * @param {number[][]} cosines
 */
function closest(names, cosines) {
  const pairs = names.flatMap((_, a) => names.slice(0, a).map((_, b) => ({ a: b, b: a, cosine: cosines[a][b] })));
  const best = pairs.reduce((first, second) => (second.cosine > first.cosine ? second : first));
  const text = `Closest: ${best.a + 1} and ${best.b + 1}, with a cosine of ${best.cosine.toFixed(2)}.`;
  return element("p", { class: "remark", "aria-live": "polite" }, text);
}
