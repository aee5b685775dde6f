// Shapes: T tokens, H head size. `query` and `key` hold [layers, heads, T, H].
"use strict";

const data = JSON.parse(document.getElementById("data").textContent);
const T = data.tokens.length;
const H = data.headSize;
const query = floats(data.query);
const key = floats(data.key);
const chosen = { layer: 0, head: 0, from: Math.min(1, T - 1), to: 0 };
let weights = []; // of the chosen head, T rows

function floats(base64) {
  const bytes = Uint8Array.from(atob(base64), (character) => character.charCodeAt(0));
  const view = new DataView(bytes.buffer);
  return Float32Array.from({ length: bytes.length / 4 }, (_, i) => view.getFloat32(4 * i, true));
}

function vector(values, layer, head, token) {
  const start = ((layer * data.heads + head) * T + token) * H;
  return values.subarray(start, start + H);
}

function dot(q, k) {
  let sum = 0;
  for (let h = 0; h < H; h++) sum += q[h] * k[h];
  return sum;
}

/** One row of attention: the query of token `from` with every key. */
function rowOf(layer, head, from) {
  const q = vector(query, layer, head, from);
  const products = Array.from({ length: T }, (_, to) => dot(q, vector(key, layer, head, to)));
  const scores = products.map((product) => product / Math.sqrt(H));
  const largest = Math.max(...scores);
  const exponentials = scores.map((score) => Math.exp(score - largest));
  const total = exponentials.reduce((sum, value) => sum + value, 0);
  return { products, scores, exponentials, total, weights: exponentials.map((value) => value / total) };
}

function weightsOf(layer, head) {
  return Array.from({ length: T }, (_, from) => rowOf(layer, head, from).weights);
}

function color(name) {
  return getComputedStyle(document.documentElement).getPropertyValue(name);
}

function paint(canvas, rows, cell, left, top) {
  const context = canvas.getContext("2d");
  context.fillStyle = color("--train");
  rows.forEach((row, from) =>
    row.forEach((weight, to) => {
      context.globalAlpha = Math.sqrt(weight);
      context.fillRect(left + to * cell, top + from * cell, cell, cell);
    }),
  );
  context.globalAlpha = 1;
  return context;
}

// Thumbnails of all heads

const headButtons = [];

function buildHeads() {
  const grid = document.getElementById("heads");
  grid.style.setProperty("--heads", data.heads);
  for (let layer = 0; layer < data.layers; layer++) {
    for (let head = 0; head < data.heads; head++) {
      const button = document.createElement("button");
      button.type = "button";
      button.title = `layer ${layer + 1}, head ${head + 1}`;
      button.setAttribute("aria-label", button.title);
      button.append(document.createElement("canvas"));
      button.addEventListener("click", () => choose({ layer, head }));
      button.addEventListener("keydown", (event) => moveToHead(event, layer, head));
      headButtons.push(button);
      grid.append(button);
    }
  }
}

function moveToHead(event, layer, head) {
  const [down, right] = arrow(event);
  if (!down && !right) return;
  const next = { layer: within(layer + down, data.layers), head: within(head + right, data.heads) };
  choose(next);
  headButtons[next.layer * data.heads + next.head].focus();
}

function drawHeads() {
  const cell = Math.max(1, Math.floor(48 / T));
  headButtons.forEach((button, number) => {
    const canvas = button.firstChild;
    canvas.width = canvas.height = T * cell;
    paint(canvas, weightsOf(Math.floor(number / data.heads), number % data.heads), cell, 0, 0);
  });
}

function arrow(event) {
  const moves = { ArrowUp: [-1, 0], ArrowDown: [1, 0], ArrowLeft: [0, -1], ArrowRight: [0, 1] };
  const move = moves[event.key];
  if (move) event.preventDefault();
  return move || [0, 0];
}

function within(value, size) {
  return Math.max(0, Math.min(size - 1, value));
}

// Tokens

const tokenButtons = data.tokens.map((token, from) => {
  const button = document.createElement("button");
  button.type = "button";
  button.append(token, document.createElement("small"));
  button.classList.toggle("second", data.segments[from] === 1);
  for (const name of ["mouseenter", "focus", "click"]) button.addEventListener(name, () => choose({ from }));
  document.getElementById("tokens").append(button);
  return button;
});

function drawTokens() {
  tokenButtons.forEach((button, to) => {
    const weight = weights[chosen.from][to];
    button.style.setProperty("--strength", `${100 * Math.sqrt(weight)}%`);
    button.lastChild.textContent = weight.toFixed(2);
    button.setAttribute("aria-pressed", String(to === chosen.from));
    button.setAttribute("aria-label", `${data.tokens[to]}, weight ${weight.toFixed(2)}`);
  });
}

// The matrix

const matrix = document.getElementById("matrix");
let cell = 0;
let margin = 0; // of the row and column labels

function drawMatrix() {
  const context = matrix.getContext("2d");
  const font = "12px system-ui, sans-serif";
  context.font = font;
  margin = Math.ceil(Math.max(...data.tokens.map((token) => context.measureText(token).width))) + 10;
  const width = matrix.parentElement.clientWidth - 40 - margin;
  cell = Math.max(11, Math.min(28, Math.floor(width / T))); // a larger matrix scrolls
  const size = margin + T * cell + 1;
  const ratio = window.devicePixelRatio || 1;
  matrix.width = matrix.height = size * ratio;
  matrix.style.width = matrix.style.height = `${size}px`;
  context.scale(ratio, ratio);
  paint(matrix, weights, cell, margin, margin);
  context.font = font;
  context.textBaseline = "middle";
  data.tokens.forEach((token, number) => {
    const middle = margin + (number + 0.5) * cell;
    context.textAlign = "right";
    context.fillStyle = color(number === chosen.from ? "--accent" : "--ink");
    context.fillText(token, margin - 5, middle);
    context.save();
    context.translate(middle, margin - 5);
    context.rotate(-Math.PI / 2);
    context.textAlign = "left";
    context.fillStyle = color(number === chosen.to ? "--accent" : "--ink");
    context.fillText(token, 0, 0);
    context.restore();
  });
  context.strokeStyle = color("--held-out");
  context.lineWidth = 2;
  context.strokeRect(margin + chosen.to * cell, margin + chosen.from * cell, cell, cell);
}

matrix.addEventListener("click", (event) => {
  const to = Math.floor((event.offsetX - margin) / cell);
  const from = Math.floor((event.offsetY - margin) / cell);
  if (to >= 0 && from >= 0 && to < T && from < T) choose({ from, to });
});

matrix.addEventListener("keydown", (event) => {
  const [down, right] = arrow(event);
  if (down || right) choose({ from: within(chosen.from + down, T), to: within(chosen.to + right, T) });
});

// Numbers of one cell

function drawDetail() {
  const { layer, head, from, to } = chosen;
  const row = rowOf(layer, head, from);
  const name = (token) => `${data.tokens[token]} (${token + 1})`;
  document.getElementById("sum").textContent =
    `Layer ${layer + 1}, head ${head + 1}: ${name(from)} attends to ${name(to)}. ` +
    `q·k = ${row.products[to].toFixed(4)}, ÷ √${H} = ${row.scores[to].toFixed(4)}, ` +
    `softmax = ${row.exponentials[to].toFixed(4)} / ${row.total.toFixed(4)} = ${row.weights[to].toFixed(4)}`;
  document.getElementById("row-caption").textContent =
    `Attention of ${name(from)}; exp is of the score minus the largest score, its column sums to ${row.total.toFixed(4)}`;
  const byWeight = data.tokens.map((_, token) => token).sort((a, b) => row.weights[b] - row.weights[a]);
  fill("row", byWeight, (token) => [
    name(token),
    row.products[token].toFixed(4),
    row.scores[token].toFixed(4),
    row.exponentials[token].toFixed(4),
    row.weights[token].toFixed(4),
  ]);
  const q = vector(query, layer, head, from);
  const k = vector(key, layer, head, to);
  document.getElementById("parts-caption").textContent =
    `q·k of ${name(from)} and ${name(to)} by dimension (${H}), largest first`;
  const dimensions = Array.from({ length: H }, (_, h) => h).sort((a, b) => Math.abs(q[b] * k[b]) - Math.abs(q[a] * k[a]));
  fill("parts", dimensions, (h) => [h + 1, q[h].toFixed(4), k[h].toFixed(4), (q[h] * k[h]).toFixed(4)]);
}

function fill(id, items, cellsOf) {
  const rows = items.map((item) => {
    const row = document.createElement("tr");
    for (const text of cellsOf(item)) row.insertCell().textContent = text;
    return row;
  });
  document.getElementById(id).replaceChildren(...rows);
}

// Selection

function choose(change) {
  Object.assign(chosen, change);
  if ("head" in change) {
    weights = weightsOf(chosen.layer, chosen.head);
    const number = chosen.layer * data.heads + chosen.head;
    headButtons.forEach((button, i) => {
      button.setAttribute("aria-pressed", String(i === number));
      button.tabIndex = i === number ? 0 : -1; // Tab stops at the selected head only; arrow keys move on
    });
  }
  drawTokens();
  drawMatrix();
  drawDetail();
}

buildHeads();
drawHeads();
choose({ layer: 0, head: 0 });
window.addEventListener("resize", drawMatrix);
window.matchMedia("(prefers-color-scheme: dark)").addEventListener("change", () => {
  drawHeads();
  choose({});
});
