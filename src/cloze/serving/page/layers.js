// @ts-check
/** Layers: one token on its way through the encoder, step by step, and what the model would predict after each layer. */

import { keep, keepBox } from "./address.js";
import { bar, strip } from "./charts.js";
import { afterTyping, element, examples, field, fixed, percent, textBox } from "./dom.js";
import { section } from "./section.js";
import { answers, ask } from "./server.js";

const SECONDS_PER_STEP = 0.9;

/** @type {[string, string][]} */
const EXAMPLES = [
  ["Born in", "She was [MASK] in London in 1850 and studied at Cambridge."],
  ["President", "He was elected [MASK] of the United States in 1860."],
  ["Bank", "They sat on the bank of the river."],
];

/** The steps of a layer, in their order: name, what is computed, and what it is for. */
const STEPS = /** @type {const} */ ([
  ["context", "Heads", "softmax(query · key / √head size) · value", "Each head takes a weighted mean of the values of all tokens. The outputs of the heads are put side by side."],
  ["attended", "Attention output", "dense(heads)", "A dense layer mixes the outputs of the heads."],
  ["attention_sum", "Residual", "input + attention output", "The input of the layer is added: the layer changes the vector, it does not replace it."],
  ["attention_normalized", "LayerNorm", "LayerNorm(residual)", "Mean 0 and variance 1, then a learned scale and shift of each number."],
  ["intermediate", "Feed-forward", "activation(dense(LayerNorm))", "Four times as many numbers in BERT. Each is one pattern that the token may match."],
  ["output", "Feed-forward output", "dense(feed-forward)", "Back to the size of the vector."],
  ["output_sum", "Residual", "LayerNorm + feed-forward output", "The second residual connection."],
  ["normalized", "LayerNorm", "LayerNorm(residual)", "The output of this layer is the input of the next one."],
]);

/** @type {import("./main.js").View} */
export const layersView = {
  id: "layers",
  title: "Layers",
  build: (models) => [
    section({
      title: "One token, layer by layer",
      lead: "Each layer changes the vector of a token a little. Choose a token, move through the layers, and click a step to see its numbers.",
      needs: "encode",
      missing: "No model here has an encoder.",
      command: "cloze serve -m DIR, where DIR is any checkpoint or run",
      models,
      build,
    }),
  ],
};

/**
 * @typedef {{size: number, norm: number, first: number[]}} Vector
 * @typedef {{steps: Record<string, Vector>, heads: [number, number][][], movements: number[]}} Layer
 * @typedef {{token: string, probability: number}} Candidate
 * @typedef {{tokens: string[], size: number, embeddings: Vector, layers: Layer[], predictions: Candidate[][] | null}} Trace
 */

/**
 * @param {HTMLElement} body
 * @param {() => import("./models.js").Model} model
 */
function build(body, model) {
  const box = textBox(EXAMPLES[0][1]);
  /** @type {number | null} the chosen token; null for the first [MASK], else the middle one */
  let token = null;
  const result = element("div");
  const show = answers(result);
  /** @type {{stop: () => void} | undefined} */
  let player;
  const refresh = () =>
    show(async (signal) => {
      player?.stop();
      const request = { model: model().name, text: box.value };
      if (token === null) {
        const { tokens } = await ask("explore/layers", { ...request, token: 0 }, signal);
        const mask = tokens.indexOf("[MASK]");
        token = mask < 0 ? Math.floor(tokens.length / 2) : mask;
      }
      const trace = await ask("explore/layers", { ...request, token }, signal);
      const walk = walkThrough(trace, token, (chosen) => {
        token = chosen;
        refresh();
      });
      player = walk.player;
      return walk.nodes;
    });
  keepBox(box, "text");
  keep(
    "token",
    () => (token === null ? "" : String(token)),
    (value) => (token = value === "" ? null : Number(value)),
  );
  box.addEventListener("input", () => (token = null));
  box.addEventListener("input", afterTyping(refresh));
  body.append(
    field("Text; [MASK] hides a word", box),
    examples(EXAMPLES, (text) => {
      box.value = text;
      token = null;
      refresh();
    }),
    result,
  );
  return refresh;
}

/**
 * @param {Trace} trace
 * @param {number} token
 * @param {(token: number) => void} chooseToken
 */
function walkThrough(trace, token, chooseToken) {
  const { tokens, layers } = trace;
  const at = { layer: 0, step: 0 };
  const slider = element("input", { type: "range", min: 1, max: layers.length, value: 1, id: "walk-layer", input: () => go(Number(slider.value) - 1, 0) });
  const output = element("output", { for: "walk-layer" });
  const tokenButtons = tokens.map((text, number) =>
    element(
      "button",
      { type: "button", class: "piece", "aria-pressed": String(number === token), click: () => chooseToken(number) },
      text,
      element("small"),
    ),
  );
  const diagram = element("ol", { class: "walk" });
  const numbers = element("div", { class: "walk-numbers", "aria-live": "polite" });
  const lens = lensTable(trace, (layer) => go(layer, STEPS.length - 1));
  const player = playButton(() => {
    const isLast = at.step === STEPS.length - 1 && at.layer === layers.length - 1;
    if (isLast) go(0, 0);
    else if (at.step === STEPS.length - 1) go(at.layer + 1, 0);
    else go(at.layer, at.step + 1);
  });

  /**
   * @param {number} layer
   * @param {number} step
   */
  function go(layer, step) {
    Object.assign(at, { layer, step });
    slider.value = String(layer + 1);
    const name = `layer ${layer + 1} of ${layers.length}`;
    output.textContent = name;
    slider.setAttribute("aria-valuetext", name);
    const { movements, steps } = layers[layer];
    const largest = Math.max(...movements, 1e-9);
    tokenButtons.forEach((button, number) => {
      button.style.setProperty("--strength", `${Math.round((100 * movements[number]) / largest)}%`);
      button.querySelector("small").textContent = movements[number].toFixed(2);
      button.setAttribute("aria-label", `${tokens[number]}, moved ${movements[number].toFixed(2)} in ${name}`);
    });
    diagram.replaceChildren(
      ...STEPS.map(([key, title, formula], number) =>
        element(
          "li",
          {},
          element(
            "button",
            { type: "button", class: "step", "aria-pressed": String(number === step), click: () => go(layer, number) },
            element("b", {}, title),
            element("span", { class: "formula" }, formula),
            strip(steps[key].first, Math.max(...steps[key].first.map(Math.abs))),
            element("small", {}, `${steps[key].size} numbers, length ${fixed(steps[key].norm, 2)}`),
          ),
        ),
      ),
    );
    numbers.replaceChildren(...stepNumbers(trace, layer, step));
    lens.mark(layer);
  }
  go(0, 0);
  return {
    player,
    nodes: [
      element(
        "div",
        { class: "card" },
        element("h3", {}, "Tokens"),
        element("p", { class: "note" }, "The number and the color say how far the vector of a token turned in this layer: 1 − cosine of its vectors before and after."),
        element("div", { class: "pieces", role: "group", "aria-label": "Tokens" }, ...tokenButtons),
        element("p", { class: "slider later" }, player.button, element("label", { for: "walk-layer" }, "Layer"), slider, output),
      ),
      element(
        "div",
        { class: "card" },
        element("h3", {}, `What happens to ${tokens[token]}`),
        diagram,
        numbers,
      ),
      lens.card,
    ],
  };
}

/**
 * The numbers of one step.
 * @param {Trace} trace
 * @param {number} layer
 * @param {number} step
 */
function stepNumbers({ tokens, layers }, layer, step) {
  const [key, title, , purpose] = STEPS[step];
  const { size, first } = layers[layer].steps[key];
  const shown = first.map((value) => fixed(value)).join("  ");
  const nodes = [
    element("h4", {}, `Layer ${layer + 1}: ${title}`),
    element("p", { class: "note" }, purpose),
    element("p", { class: "formula" }, shown, size > first.length ? ` … (the first ${first.length} of ${size})` : ""),
  ];
  if (key !== "context") return nodes;
  const rows = layers[layer].heads.map((attended, head) =>
    element(
      "tr",
      {},
      element("th", { scope: "row" }, `head ${head + 1}`),
      ...attended.map(([to, weight]) => element("td", {}, `${tokens[to]} ${fixed(weight, 2)}`)),
    ),
  );
  const heads = element("table", { class: "numbers", "aria-label": "Tokens with the largest attention weights" }, element("tbody", {}, ...rows));
  return [
    ...nodes,
    element("p", { class: "note" }, "Largest attention weights of each head. The view Inside shows how they are computed."),
    element("div", { class: "scroll", tabindex: "0", role: "region", "aria-label": "Attention of each head" }, heads),
  ];
}

/**
 * Predictions of the MLM head from the token's vector after each layer.
 * @param {Trace} trace
 * @param {(layer: number) => void} choose
 */
function lensTable({ predictions }, choose) {
  const title = element("h3", {}, "Predictions so far");
  if (!predictions) {
    return {
      card: element("div", { class: "card" }, title, element("p", { class: "note" }, "This model has no masked-language-model head.")),
      mark: () => {},
    };
  }
  const rows = predictions.map((candidates, number) => {
    const [best, ...others] = candidates;
    const name = number ? `after layer ${number}` : "embeddings";
    const layerName = number ? element("button", { type: "button", class: "link", click: () => choose(number - 1) }, name) : name;
    return element(
      "tr",
      {},
      element("th", { scope: "row" }, layerName),
      element("td", { class: "guess" }, best.token),
      element("td", { class: "bar" }, bar(best.probability)),
      element("td", {}, percent(best.probability)),
      element("td", { class: "others" }, others.map(({ token, probability }) => `${token} ${percent(probability)}`).join(", ")),
    );
  });
  const card = element(
    "div",
    { class: "card" },
    title,
    element("p", { class: "note" }, "The MLM head reads the token’s vector after each layer. It was trained on the last layer only: earlier rows show what the vector is already like, not what the model says."),
    element("table", { class: "bars lens", "aria-label": "Predictions after each layer" }, element("tbody", {}, ...rows)),
  );
  const mark = (/** @type {number} */ layer) => rows.forEach((row, number) => row.classList.toggle("strong", number === layer + 1));
  return { card, mark };
}

/**
 * A button that takes one step at a time until it is pressed again.
 * @param {() => void} advance
 */
function playButton(advance) {
  let timer = 0;
  const stop = () => {
    clearInterval(timer);
    timer = 0;
    button.textContent = "Play";
  };
  const button = element("button", {
    type: "button",
    class: "quiet",
    click: () => {
      if (timer) return stop();
      button.textContent = "Pause";
      advance();
      timer = window.setInterval(() => (button.isConnected ? advance() : stop()), 1000 * SECONDS_PER_STEP);
    },
  }, "Play");
  return { button, stop };
}
