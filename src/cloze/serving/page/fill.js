// @ts-check
/** Fill: hide words of a sentence, and see what the model would put there, from both sides or from the left alone. */

import { bars } from "./charts.js";
import { afterTyping, element, examples, field, percent, textBox } from "./dom.js";
import { section } from "./section.js";
import { answers, ask } from "./server.js";

const MASK = "[MASK]";
const WORD = /\[MASK\]|[\p{L}\p{N}][\p{L}\p{M}\p{N}]*|[^\s]/gu;
const TOP = 8;

/** @type {[string, string][]} */
const EXAMPLES = [
  ["Born in", "She was [MASK] in London in 1850 and studied at Cambridge."],
  ["United", "The film was directed by a woman and released in the United [MASK] in 1998."],
  ["Two at once", "It is located on the [MASK] bank of the [MASK], near the town."],
  ["Capital", "The capital of France is [MASK]."],
];

/** @type {import("./main.js").View} */
export const fillView = {
  id: "fill",
  title: "Fill",
  build: (models) => [
    section({
      title: "Fill in the blank",
      lead: "BERT learned language from one game: say which word is hidden, from the words on both sides. Click a word to hide it, or to show it again.",
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
      const [full, ...cut] = await ask("fill", { model: model().name, inputs: texts, top_k: TOP }, signal);
      const largest = Math.max(...[...full, ...cut.flat()].map(([best]) => best.probability));
      return hidden.map((word, number) => card(word, number, full[number], cut[number]?.[number], largest));
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
      element("label", { for: "left-only" }, "Hide the words on the right of each blank, too"),
    ),
    result,
  );
  read();
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
 * The sentence as the model gets it, up to a place.
 * @param {string} text
 * @param {Word[]} words
 * @param {number} [until]
 */
function withMasks(text, words, until = text.length) {
  let end = 0;
  const parts = words.flatMap((word) => {
    if (word.start >= until) return [];
    const part = text.slice(end, word.start) + (word.hidden ? MASK : word.text);
    end = word.end;
    return [part];
  });
  return parts.join("") + text.slice(end, until);
}

/** @typedef {{token: string, probability: number}} Candidate */

/**
 * The candidates for one blank.
 * @param {Word} word
 * @param {number} number
 * @param {Candidate[]} full
 * @param {Candidate[] | undefined} left
 * @param {number} largest share of all, for the longest bar
 */
function card(word, number, full, left, largest) {
  const hid = word.text === MASK ? "" : ` · you hid “${word.text}”`;
  const rows = (/** @type {Candidate[]} */ found) =>
    found.map(({ token, probability }) => ({
      label: token,
      share: probability,
      strong: token.toLowerCase() === word.text.toLowerCase(),
    }));
  const title = element("h3", {}, `Blank ${number + 1}${hid}`);
  if (!left) return element("div", { class: "card" }, title, bars(rows(full), `Blank ${number + 1}`, largest));
  const side = (/** @type {string} */ name, /** @type {Candidate[]} */ found) =>
    element("div", {}, element("p", { class: "note" }, name), bars(rows(found), name, largest));
  const [both, alone] = [full[0], left[0]];
  const same = both.token === alone.token;
  const remark = same
    ? `Both ways “${both.token}” comes first: ${percent(both.probability)} with the words on the right, ${percent(alone.probability)} without.`
    : `The words on the right turn “${alone.token}” (${percent(alone.probability)}) into “${both.token}” (${percent(both.probability)}).`;
  return element(
    "div",
    { class: "card wide" },
    title,
    element("div", { class: "columns" }, side("Reading both sides", full), side("Reading the left side only", left)),
    element("p", { class: "remark" }, remark),
  );
}
