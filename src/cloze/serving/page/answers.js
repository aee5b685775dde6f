// @ts-check
/** Answers: a question on a text, the answer marked in it, and the scores it was chosen by. */

import { keepBox } from "./address.js";
import { bars } from "./charts.js";
import { afterTyping, element, examples, field, fixed, part, svg, textBox } from "./dom.js";
import { section } from "./section.js";
import { answers, ask } from "./server.js";

const TEXT =
  "The Amazon rainforest covers most of the Amazon basin of South America. The basin covers 7,000,000 square kilometres, " +
  "of which 5,500,000 are covered by the rainforest. The majority of the forest lies in Brazil, followed by Peru with 13 percent " +
  "and Colombia with 10 percent.";

/** @type {[string, string][]} */
const EXAMPLES = [
  ["Where", "Where does most of the forest lie?"],
  ["How large", "How large is the basin?"],
  ["No answer", "Who wrote the first book on the rainforest?"],
];

/** @type {import("./main.js").View} */
export const answersView = {
  id: "answers",
  title: "Answers",
  build: (models) => [
    section({
      title: "A question on a text",
      lead: "The model gives each token two scores: one for the start of the answer, one for its end. The answer is the span with the largest sum.",
      needs: "answer",
      missing: "No model here answers questions.",
      command: "cloze serve -m RUN, where RUN is of cloze finetune squad_v2",
      models,
      build,
    }),
  ],
};

/**
 * @typedef {{text: string, start: number, end: number, probability: number}} Candidate
 * @typedef {{answer: string, start: number | null, end: number | null, candidates: Candidate[], null_odds?: number, null_threshold?: number}} Answered
 * @typedef {{pieces: string[], offsets: [number, number][], start_logits: number[], end_logits: number[]}} Scores
 */

/**
 * @param {HTMLElement} body
 * @param {() => import("./models.js").Model} model
 */
function build(body, model) {
  const question = textBox(EXAMPLES[0][1]);
  const context = textBox(TEXT, 4);
  keepBox(question, "question");
  keepBox(context, "context");
  const result = element("div", { class: "card" });
  const show = answers(result);
  const refresh = () =>
    show(async (signal) => {
      const asked = { question: question.value, context: context.value };
      const [found, scores] = await Promise.all([
        ask("answer", { model: model().name, inputs: [asked] }, signal),
        ask("explore/span", { model: model().name, ...asked }, signal),
      ]);
      return shown(found[0], scores, asked.context);
    });
  for (const box of [question, context]) box.addEventListener("input", afterTyping(refresh));
  body.append(
    field("Question", question),
    field("Text", context),
    examples(EXAMPLES, (text) => {
      question.value = text;
      refresh();
    }),
    result,
  );
  return refresh;
}

/**
 * @param {Answered} found
 * @param {Scores} scores
 * @param {string} context
 * @returns {Node[]}
 */
function shown(found, scores, context) {
  const { start, end } = found;
  if (!scores.pieces.length) return [element("p", { class: "answer", "aria-live": "polite" }, "There is no text to answer from.")];
  const marked =
    start === null || end === null
      ? [context]
      : [part(context, 0, start), element("mark", {}, part(context, start, end)), part(context, end)];
  const rows = found.candidates.slice(0, 5).map(({ text, probability }) => ({
    label: text || "no answer",
    share: probability,
    strong: text === found.answer,
  }));
  const isAnswer = (/** @type {[number, number]} */ [first, last]) =>
    start !== null && end !== null && first >= start && last <= end;
  const inAnswer = scores.offsets.map(isAnswer);
  const chart = element(
    "div",
    { class: "scroll", tabindex: "0", role: "region", "aria-label": "Start and end scores of each token" },
    spanChart(scores, inAnswer),
  );
  requestAnimationFrame(() => (chart.scrollLeft = inAnswer.indexOf(true) * STEP - chart.clientWidth / 2));
  return [
    element("p", { class: "answer", "aria-live": "polite" }, found.answer || "The text does not say."),
    element("p", { class: "running", dir: "auto" }, ...marked),
    element("h3", {}, "Start and end scores"),
    element(
      "p",
      { class: "note" },
      "Start score of each token ",
      element("span", { class: "key fill-key" }, "upwards"),
      ", end score ",
      element("span", { class: "key below-key" }, "downwards"),
      ".",
    ),
    chart,
    element(
      "div",
      { class: "columns" },
      element("div", { class: "candidates" }, element("h3", {}, "Most probable answers"), bars(rows, "Most probable answers")),
      nullScale(found),
    ),
  ];
}

const STEP = 22;
const TALL = 64;

/**
 * A bar up and a bar down for each token.
 * @param {Scores} scores
 * @param {boolean[]} inAnswer which tokens are the answer
 */
function spanChart({ pieces, start_logits, end_logits }, inAnswer) {
  const heights = (/** @type {number[]} */ logits) => {
    const [low, high] = [Math.min(...logits), Math.max(...logits)];
    return logits.map((logit) => ((logit - low) / (high - low || 1)) * TALL);
  };
  const [up, down] = [heights(start_logits), heights(end_logits)];
  const middle = TALL + 8;
  const names = 9 + 7 * Math.max(...pieces.map((piece) => piece.length));
  const columns = pieces.map((piece, i) =>
    svg(
      "g",
      { class: inAnswer[i] ? "here" : undefined, transform: `translate(${i * STEP} 0)` },
      svg("title", {}, `${piece}: start ${fixed(start_logits[i], 2)}, end ${fixed(end_logits[i], 2)}`),
      svg("rect", { class: "fill", x: 4, width: STEP - 8, y: middle - up[i], height: up[i], rx: 2 }),
      svg("text", { transform: `translate(${STEP / 2 + 4} ${middle + names}) rotate(-90)` }, piece),
      svg("rect", { class: "below", x: 4, width: STEP - 8, y: middle + names + 8, height: down[i], rx: 2 }),
    ),
  );
  const [width, height] = [pieces.length * STEP, middle + names + TALL + 16];
  return svg(
    "svg",
    { class: "spans", width, height, viewBox: `0 0 ${width} ${height}`, role: "img", "aria-label": "Start and end scores" },
    ...columns,
  );
}

/**
 * Where "no answer" stands beside its threshold.
 * @param {Answered} found
 */
function nullScale({ null_odds, null_threshold }) {
  if (null_odds === undefined || null_odds === null) {
    return element("p", { class: "note" }, "This model was trained on questions that all have an answer: it always gives one.");
  }
  const threshold = null_threshold ?? 0;
  const reach = 1.25 * Math.max(1, Math.abs(null_odds - threshold));
  const x = (/** @type {number} */ value) => 150 + (Math.max(-reach, Math.min(reach, value - threshold)) / reach) * 140;
  const none = null_odds > threshold;
  return element(
    "div",
    {},
    element("h3", {}, "Or no answer?"),
    svg(
      "svg",
      { class: "null", viewBox: "0 0 300 64", role: "img", "aria-label": `Odds ${fixed(null_odds, 2)}, threshold ${fixed(threshold, 2)}` },
      svg("line", { class: "grid", x1: 8, x2: 292, y1: 32, y2: 32 }),
      svg("line", { class: "threshold", x1: 150, x2: 150, y1: 18, y2: 46 }),
      svg("circle", { class: "dot", cx: x(null_odds), cy: 32, r: 6 }),
      svg("text", { class: "tick", x: 8, y: 60 }, "an answer"),
      svg("text", { class: "tick", x: 150, y: 12, "text-anchor": "middle" }, `threshold ${fixed(threshold, 2)}`),
      svg("text", { class: "tick", x: 292, y: 60, "text-anchor": "end" }, "no answer"),
    ),
    element(
      "p",
      { class: "note" },
      `No answer scores ${fixed(Math.abs(null_odds), 2)} ${null_odds < 0 ? "less" : "more"} than the best one, `,
      none ? `over the threshold of ${fixed(threshold, 2)}: the model gives none.` : `which is not over the threshold of ${fixed(threshold, 2)}: the model answers.`,
    ),
  );
}
