// @ts-check
/** Fill: hide words of a sentence, and see what the model would put there, from both sides or from the left alone. */

import { keep, keepBox } from "./address.js";
import { bars } from "./charts.js";
import { afterTyping, element, examples, field, percent, textBox } from "./dom.js";
import { section } from "./section.js";
import { answers, ask } from "./server.js";

const MASK = "[MASK]";
const WORD = /\[MASK\]|[\p{L}\p{N}][\p{L}\p{M}\p{N}]*|[^\s]/gu;
const TOP = 8;

/** @type {[string, string][]} the bundled model is right about them: tests/serving/test_page_examples.py */
const EXAMPLES = [
  ["Born in", "She was [MASK] in London in 1850 and studied at Cambridge."],
  ["United", "The film was directed by a woman and released in the United [MASK] in 1998."],
  ["President", "He was elected [MASK] of the United States in 1860."],
  ["Two at once", "He [MASK] born in Paris and studied law at the [MASK] of Oxford."],
  ["Published", "The book was [MASK] in 1925 by a small press in New York."],
];

/** @type {import("./main.js").View} */
export const fillView = {
  id: "fill",
  title: "Fill",
  build: (models) => [
    section({
      title: "Fill in the blank",
      lead: "BERT was pre-trained on one task: name the hidden word from the words on both sides. Click a word to hide it, or to show it again.",
      needs: "fill",
      missing: "No model here fills in words.",
      command: "cloze serve -m DIR, where DIR is a pre-trained checkpoint or run",
      models,
      build,
    }),
  ],
};

/** @typedef {{text: string, start: number, end: number, hidden: boolean}} Word */

/**
 * @param {HTMLElement} body
 * @param {() => import("./models.js").Model} model
 */
function build(body, model) {
  /** @type {Word[]} */
  let words = [];
  const box = textBox(EXAMPLES[0][1]);
  const sentence = element("div", { class: "sentence", dir: "auto", role: "group", "aria-label": "The sentence, word by word" });
  const leftOnly = element("input", { type: "checkbox", id: "left-only", change: () => refresh() });
  const result = element("div", { class: "masks", "aria-live": "polite" });
  const show = answers(result);

  const refresh = () =>
    show(async (signal) => {
      const hidden = words.filter((word) => word.hidden);
      if (!hidden.length) return [element("p", { class: "muted" }, "Nothing is hidden. Click a word above.")];
      const whole = withMasks(box.value, words);
      const texts = [whole, ...(leftOnly.checked ? hidden.map((word) => withMasks(box.value, words, word.end)) : [])];
      const [full, ...left] = await ask("fill", { model: model().name, inputs: texts, top_k: TOP }, signal);
      return hidden.map((word, number) => card(word, number, full[number], left[number]?.[number]));
    });

  const read = () => {
    words = [...box.value.matchAll(WORD)].map((match) => ({
      text: match[0],
      start: match.index,
      end: match.index + match[0].length,
      hidden: match[0] === MASK,
    }));
    let end = 0;
    const parts = words.flatMap((word) => {
      const before = box.value.slice(end, word.start);
      end = word.end;
      const button = element("button", { type: "button", class: "word" });
      label(button, word);
      button.addEventListener("click", () => {
        word.hidden = word.text === MASK || !word.hidden; // a blank has nothing to show
        label(button, word);
        refresh();
      });
      return [before, button];
    });
    sentence.replaceChildren(...parts);
  };
  keepBox(box, "text");
  const refreshSoon = afterTyping(refresh);
  box.addEventListener("input", () => {
    read(); // at once: a click means a word that the box still has
    refreshSoon();
  });
  body.append(
    sentence,
    field("Your own sentence", box),
    examples(EXAMPLES, (text) => {
      box.value = text;
      read();
      refresh();
    }),
    element(
      "p",
      { class: "switch" },
      leftOnly,
      element("label", { for: "left-only" }, "Also mask the words on the right of each blank"),
    ),
    result,
  );
  read();
  keep(
    "hide",
    () => words.flatMap((word, i) => (word.hidden && word.text !== MASK ? [i] : [])).join(","),
    (value) => {
      const hidden = new Set(value.split(",").map(Number));
      words.forEach((word, i) => (word.hidden ||= hidden.has(i)));
      sentence.querySelectorAll(".word").forEach((button, i) => label(button, words[i]));
    },
  );
  keep(
    "left",
    () => (leftOnly.checked ? "1" : ""),
    (value) => (leftOnly.checked = value === "1"),
  );
  return refresh;
}

/**
 * @param {HTMLElement} button
 * @param {Word} word
 */
function label(button, word) {
  button.textContent = word.hidden && word.text === MASK ? "\u2003\u2003" : word.text;
  button.setAttribute("aria-pressed", String(word.hidden));
  button.setAttribute("aria-label", word.text === MASK ? "a blank" : word.text);
  button.title = word.hidden ? "Show this word" : "Hide this word";
}

/**
 * The sentence as the model gets it. Words from a place on are hidden, not removed: the sentence keeps its length.
 * @param {string} text
 * @param {Word[]} words
 * @param {number} [from]
 */
function withMasks(text, words, from = text.length) {
  let end = 0;
  const parts = words.map((word) => {
    const part = text.slice(end, word.start) + (word.hidden || word.start >= from ? MASK : word.text);
    end = word.end;
    return part;
  });
  return parts.join("") + text.slice(end);
}

/** @typedef {{token: string, probability: number}} Candidate */

/**
 * The candidates for one blank.
 * @param {Word} word
 * @param {number} number
 * @param {Candidate[]} full
 * @param {Candidate[] | undefined} left
 */
function card(word, number, full, left) {
  const hid = word.text === MASK ? "" : ` · you hid “${word.text}”`;
  const rows = (/** @type {Candidate[]} */ found) =>
    found.map(({ token, probability }) => ({
      label: token,
      share: probability,
      strong: token.toLowerCase() === word.text.toLowerCase(),
    }));
  const title = element("h3", {}, `Blank ${number + 1}${hid}`);
  if (!left) return element("div", { class: "card" }, title, bars(rows(full), `Blank ${number + 1}`));
  const side = (/** @type {string} */ name, /** @type {Candidate[]} */ found) =>
    element("div", {}, element("p", { class: "note" }, name), bars(rows(found), name));
  const [both, alone] = [full[0], left[0]];
  const same = both.token === alone.token;
  const remark = same
    ? `“${both.token}” is first both ways: ${percent(both.probability)} with the words on the right, ${percent(alone.probability)} without.`
    : `The words on the right change the first guess from “${alone.token}” (${percent(alone.probability)}) to “${both.token}” (${percent(both.probability)}).`;
  return element(
    "div",
    { class: "card wide" },
    title,
    element("div", { class: "columns" }, side("With the words on both sides", full), side("With the words on the left only", left)),
    element("p", { class: "remark" }, remark),
    element("p", { class: "note" }, "Each word on the right is replaced by a mask. BERT was trained with 15% of the words masked, so a long run of masks is unusual for it."),
  );
}
