// @ts-check
/** Inside: the input embeddings, the attention of each head, and how one attention weight is computed. */

import { keepBox } from "./address.js";
import { squares, strip } from "./charts.js";
import { afterTyping, element, examples, field, fixed, svg, textBox } from "./dom.js";
import { rowSteps } from "./row.js";
import { section } from "./section.js";
import { answers, ask } from "./server.js";

/** @type {[string, [string, string]][]} */
const EXAMPLES = [
  ["A pair", ["The man went to the store.", "He bought a gallon of milk."]],
  ["It", ["The animal did not cross the street because it was too tired.", ""]],
  ["Bank", ["They sat on the bank of the river.", ""]],
];

/** @type {import("./main.js").View} */
export const insideView = {
  id: "inside",
  title: "Inside",
  build: (models) => [
    section({
      title: "Inside the encoder",
      lead: "The input embeddings, the attention of every head, and one attention weight step by step, all in the numbers that the model computes.",
      needs: "encode",
      missing: "No model here has an encoder.",
      command: "cloze serve -m DIR, where DIR is any checkpoint or run",
      models,
      build,
    }),
  ],
};

/**
 * @typedef {{norms: number[], first: number[][]}} Rows of a table: the lengths, and the first numbers
 * @typedef {object} Found
 * @property {string[]} tokens
 * @property {number[]} input_ids
 * @property {number[]} token_type_ids
 * @property {{word: Rows, segment: Rows, position: Rows, normalized: Rows}} embeddings
 * @property {number} layers
 * @property {number} heads
 * @property {string} weights float32 [layers, heads, T, T] in base64
 */

/**
 * @param {HTMLElement} body
 * @param {() => import("./models.js").Model} model
 */
function build(body, model) {
  const boxes = EXAMPLES[0][1].map((text) => textBox(text));
  boxes.forEach((box, number) => keepBox(box, number ? "pair" : "text"));
  const result = element("div");
  const show = answers(result);
  const refresh = () =>
    show(async (signal) => {
      const text = { model: model().name, text: boxes[0].value, pair: boxes[1].value || null };
      const found = await ask("explore/inside", text, signal);
      return [input(found), ...attention(found, text)];
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
 * The three embeddings of each token.
 * @param {Found} found
 */
function input({ tokens, input_ids, token_type_ids, embeddings }) {
  const line = (/** @type {string} */ name, /** @type {(string | Node)[]} */ cells, /** @type {string} */ kind = "") =>
    element(
      "tr",
      { class: kind },
      element("th", { scope: "row" }, name),
      ...cells.map((cell) => element("td", {}, cell)),
    );
  const largest = Math.max(...Object.values(embeddings).slice(0, 3).flatMap(({ first }) => first.flat().map(Math.abs)));
  const vectors = (/** @type {Rows} */ { norms, first }, /** @type {number} */ most = largest) =>
    tokens.map((_, i) =>
      element(
        "span",
        { class: "vector", title: `${first[i].map((value) => fixed(value)).join("  ")} …` },
        strip(first[i], most),
        element("small", {}, fixed(norms[i], 2)),
      ),
    );
  const after = Math.max(...embeddings.normalized.first.flat().map(Math.abs));
  return element(
    "div",
    { class: "card" },
    element("h3", {}, "Input embeddings"),
    element(
      "p",
      { class: "note" },
      "The text is split into tokens; ## continues a word. Each token becomes the sum of three rows of tables: of the token, of its segment and of its position. Colored: the first 8 numbers of each vector, ",
      element("span", { class: "key fill-key" }, "above"),
      " and ",
      element("span", { class: "key below-key" }, "below"),
      " zero; below them the length of the vector.",
    ),
    element(
      "div",
      { class: "scroll", tabindex: "0", role: "region", "aria-label": "Tokens and their embeddings" },
      element(
        "table",
        { class: "input", "aria-label": "Tokens and their embeddings" },
        element(
          "thead",
          {},
          element(
            "tr",
            {},
            element("th", { scope: "row" }, "Token"),
            ...tokens.map((token, i) => element("th", { scope: "col", class: token_type_ids[i] ? "second" : "first" }, token)),
          ),
        ),
        element(
          "tbody",
          {},
          line("Token id", input_ids.map(String), "quiet-row"),
          line("Token embedding", vectors(embeddings.word)),
          line("+ segment embedding, A or B", vectors(embeddings.segment)),
          line("+ position embedding", vectors(embeddings.position)),
          line("→ LayerNorm of the sum", vectors(embeddings.normalized, after), "sum"),
        ),
      ),
    ),
  );
}

/**
 * Attention of the chosen head, and the numbers of one weight.
 * @param {Found} found
 * @param {{model: string, text: string, pair: string | null}} text
 */
function attention(found, text) {
  const { tokens, layers, heads } = found;
  const size = tokens.length;
  const bytes = Uint8Array.from(atob(found.weights), (character) => character.charCodeAt(0));
  const all = new Float32Array(bytes.buffer);
  const rows = (/** @type {number} */ layer, /** @type {number} */ head) =>
    tokens.map((_, from) => all.subarray(((layer * heads + head) * size + from) * size).subarray(0, size));
  const chosen = { layer: 0, head: 0, from: Math.min(2, size - 1), to: 0 };

  const headButtons = Array.from({ length: layers * heads }, (_, number) => {
    const [layer, head] = [Math.floor(number / heads), number % heads];
    const name = `layer ${layer + 1}, head ${head + 1}`;
    const picture = svg("svg", { viewBox: `0 0 ${size} ${size}`, "aria-hidden": "true" }, ...squares(rows(layer, head)));
    const button = element("button", { type: "button", class: "head", "aria-label": name, title: name }, picture);
    button.addEventListener("click", () => choose({ layer, head }));
    button.addEventListener("keydown", (/** @type {KeyboardEvent} */ event) => {
      const [down, right] = arrow(event);
      if (!down && !right) return;
      choose({ layer: within(layer + down, layers), head: within(head + right, heads) });
      headButtons[chosen.layer * heads + chosen.head].focus();
    });
    return button;
  });
  const pieceButtons = tokens.map((token, from) => {
    const share = element("small");
    const button = element("button", { type: "button", class: found.token_type_ids[from] ? "piece second" : "piece" }, token, share);
    button.addEventListener("pointerenter", () => choose({ from }));
    button.addEventListener("focus", () => choose({ from }));
    button.addEventListener("click", () => choose({ from }));
    return button;
  });
  const title = element("h3", {});
  const map = matrix(tokens, (from, to) => choose({ from, to }), chosen);
  const links = lines(tokens, (from) => choose({ from }));
  const average = element("input", { type: "checkbox", id: "average-heads", change: () => choose({}) });
  const special = element("input", { type: "checkbox", id: "hide-special", change: () => choose({}) });
  const isShown = (/** @type {number} */ i) => !special.checked || !["[CLS]", "[SEP]"].includes(tokens[i]);
  const steps = element("div");
  const showSteps = answers(steps);
  const loadSteps = afterTyping(() =>
    showSteps(async (signal) => {
      const { layer, head, from } = chosen;
      const row = await ask("explore/row", { ...text, layer, head, piece: from }, signal);
      return rowSteps(row, tokens, chosen, (to) => choose({ to }));
    }),
  );

  /** @param {Partial<typeof chosen>} change */
  function choose(change) {
    Object.assign(chosen, change);
    const weights = rows(chosen.layer, chosen.head);
    if (!("to" in change)) chosen.to = weights[chosen.from].indexOf(Math.max(...weights[chosen.from]));
    title.textContent = `Attention: layer ${chosen.layer + 1}, head ${chosen.head + 1}`;
    if ("head" in change) map.fill(weights);
    headButtons.forEach((button, number) => {
      const isChosen = number === chosen.layer * heads + chosen.head;
      button.setAttribute("aria-pressed", String(isChosen));
      button.tabIndex = isChosen ? 0 : -1; // one stop of the Tab key; arrows go on from it
    });
    pieceButtons.forEach((button, to) => {
      const weight = weights[chosen.from][to];
      button.style.setProperty("--strength", `${Math.round(100 * Math.sqrt(weight))}%`);
      button.querySelector("small").textContent = weight.toFixed(2);
      button.setAttribute("aria-pressed", String(to === chosen.from));
      button.setAttribute("aria-label", `${tokens[to]}, attention weight ${weight.toFixed(2)}`);
    });
    map.mark();
    const shown = average.checked ? meanOf(Array.from({ length: heads }, (_, head) => rows(chosen.layer, head))) : weights;
    links.draw(shown, chosen.from, isShown);
    if (Object.keys(change).length) loadSteps();
  }
  choose({ layer: layers > 1 ? 1 : 0, head: 0 });

  const numbers = Array.from({ length: heads }, (_, head) => element("span", { "aria-hidden": "true" }, String(head + 1)));
  const headRows = Array.from({ length: layers }, (_, layer) => [
    element("span", { "aria-hidden": "true" }, String(layer + 1)),
    ...headButtons.slice(layer * heads, (layer + 1) * heads),
  ]);
  return [
    element(
      "div",
      { class: "card" },
      title,
      element("p", { class: "note" }, "All heads of all layers: a row for each token that attends, a column for each token it attends to. Choose a head, then point at a token below or move to it with Tab. The stronger the color of another token, the larger its weight."),
      element("div", { class: "pieces", role: "group", "aria-label": "Tokens" }, ...pieceButtons),
      element(
        "div",
        { class: "look" },
        element(
          "div",
          { class: "scroll", tabindex: "0", role: "region", "aria-label": "Layers and heads" },
          element("p", { class: "axis" }, "Heads across, layers down"),
          element(
            "div",
            { class: "heads", role: "group", "aria-label": "Layers and heads", "--heads": heads },
            element("span"),
            ...numbers,
            ...headRows.flat(),
          ),
        ),
        map.picture,
      ),
      element("h3", { class: "later" }, "As lines"),
      element("p", { class: "note" }, `From each token on the left to the tokens it attends to, where the weight is at least ${MIN_WEIGHT}. Point at a token to see its lines alone in full color.`),
      element(
        "p",
        { class: "switch" },
        average,
        element("label", { for: "average-heads" }, "Mean of all heads of the layer"),
        special,
        element("label", { for: "hide-special" }, "Hide [CLS] and [SEP]"),
      ),
      element("div", { class: "scroll", tabindex: "0", role: "region", "aria-label": "Attention as lines" }, links.picture),
    ),
    element(
      "div",
      { class: "card" },
      element("h3", {}, "One attention weight, step by step"),
      element("p", { class: "note" }, "Choose a square of the map above, or a bar below."),
      steps,
    ),
  ];
}

const LINE_HEIGHT = 22;
const LINES_WIDTH = 180;
const MIN_WEIGHT = 0.02;

/**
 * Two columns of tokens, with a line from each token to those it attends to: the thicker, the larger the weight.
 * @param {string[]} tokens
 * @param {(from: number) => void} choose
 */
function lines(tokens, choose) {
  const margin = 12 + 7.2 * Math.max(...tokens.map((token) => token.length));
  const y = (/** @type {number} */ i) => (i + 0.5) * LINE_HEIGHT;
  const right = margin + LINES_WIDTH;
  const drawn = svg("g");
  const names = tokens.map((token, i) => [
    svg("text", { x: margin - 8, y: y(i) + 4, "text-anchor": "end", pointerenter: () => choose(i), click: () => choose(i) }, token),
    svg("text", { x: right + 8, y: y(i) + 4 }, token),
  ]);
  const [width, height] = [right + margin, tokens.length * LINE_HEIGHT];
  const label = "Lines from each token to the tokens it attends to";
  const picture = svg("svg", { class: "lines", viewBox: `0 0 ${width} ${height}`, role: "img", "aria-label": label }, drawn, ...names.flat());
  picture.style.maxWidth = `${width}px`;
  /**
   * @param {ArrayLike<number>[]} weights
   * @param {number} chosen
   * @param {(i: number) => boolean} isShown
   */
  const draw = (weights, chosen, isShown) => {
    const paths = tokens.flatMap((_, from) =>
      tokens.flatMap((_, to) => {
        const weight = weights[from][to];
        if (weight < MIN_WEIGHT || !isShown(from) || !isShown(to)) return [];
        const [x, bend] = [margin, LINES_WIDTH / 2];
        return [
          svg("path", {
            class: from === chosen ? "line here" : "line",
            d: `M${x} ${y(from)}c${bend} 0 ${bend} ${y(to) - y(from)} ${LINES_WIDTH} ${y(to) - y(from)}`,
            "stroke-width": (0.5 + 3.5 * weight).toFixed(2),
            opacity: (from === chosen ? 0.35 + 0.65 * weight : 0.45 * weight).toFixed(2),
          }),
        ];
      }),
    );
    drawn.replaceChildren(...paths);
    names.forEach((both, i) => both.forEach((name) => (name.style.display = isShown(i) ? "" : "none")));
    names.forEach(([from, to], i) => {
      from.classList.toggle("here", i === chosen);
      to.classList.toggle("here", weights[chosen][i] >= 0.1);
    });
  };
  return { picture, draw };
}

const UNIT = 20;

/**
 * The matrix of one head, with the names of its rows and columns.
 * @param {string[]} tokens
 * @param {(from: number, to: number) => void} choose
 * @param {{from: number, to: number}} chosen
 */
function matrix(tokens, choose, chosen) {
  const size = tokens.length;
  const margin = 9 + 7.2 * Math.max(...tokens.map((token) => token.length));
  const cells = svg("g", { transform: `translate(${margin} ${margin}) scale(${UNIT})` });
  const frame = svg("rect", { class: "chosen", width: UNIT, height: UNIT, rx: 3 });
  const names = tokens.map((token, i) => {
    const middle = margin + (i + 0.5) * UNIT;
    return [
      svg("text", { x: margin - 6, y: middle + 4, "text-anchor": "end" }, token),
      svg("text", { transform: `translate(${middle + 4} ${margin - 6}) rotate(-90)` }, token),
    ];
  });
  const whole = margin + size * UNIT + 2;
  const picture = svg(
    "svg",
    {
      class: "matrix",
      viewBox: `0 0 ${whole} ${whole}`,
      tabindex: 0,
      role: "application",
      "aria-label": "Map of the head: the arrow keys move from square to square",
    },
    cells,
    ...names.flat(),
    frame,
  );
  picture.style.maxWidth = `${whole}px`;
  picture.addEventListener("click", (/** @type {MouseEvent} */ event) => {
    const place = picture.getBoundingClientRect();
    const unit = whole / place.width;
    const to = Math.floor(((event.clientX - place.left) * unit - margin) / UNIT);
    const from = Math.floor(((event.clientY - place.top) * unit - margin) / UNIT);
    if (from >= 0 && to >= 0 && from < size && to < size) choose(from, to);
  });
  picture.addEventListener("keydown", (/** @type {KeyboardEvent} */ event) => {
    const [down, right] = arrow(event);
    if (down || right) choose(within(chosen.from + down, size), within(chosen.to + right, size));
  });
  return {
    picture,
    fill: (/** @type {ArrayLike<number>[]} */ weights) => cells.replaceChildren(...squares(weights)),
    mark: () => {
      frame.setAttribute("x", String(margin + chosen.to * UNIT));
      frame.setAttribute("y", String(margin + chosen.from * UNIT));
      names.forEach(([row, column], i) => {
        row.classList.toggle("here", i === chosen.from);
        column.classList.toggle("here", i === chosen.to);
      });
    },
  };
}

/**
 * The mean of the weights of several heads.
 * @param {ArrayLike<number>[][]} ofHeads
 */
function meanOf(ofHeads) {
  return ofHeads[0].map((row, from) =>
    Array.from(row, (_, to) => ofHeads.reduce((sum, weights) => sum + weights[from][to], 0) / ofHeads.length),
  );
}

/**
 * @param {KeyboardEvent} event
 * @returns {[number, number]} rows down and columns right
 */
function arrow(event) {
  /** @type {Record<string, [number, number]>} */
  const moves = { ArrowUp: [-1, 0], ArrowDown: [1, 0], ArrowLeft: [0, -1], ArrowRight: [0, 1] };
  if (event.key in moves) event.preventDefault();
  return moves[event.key] ?? [0, 0];
}

/**
 * @param {number} value
 * @param {number} size
 */
function within(value, size) {
  return Math.max(0, Math.min(size - 1, value));
}
