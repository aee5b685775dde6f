// @ts-check
/** One head’s output for one token: query · key, ÷ √head size, softmax, the weighted values. */

import { bar, strip } from "./charts.js";
import { element, fixed } from "./dom.js";

const SHOWN = 6;

/**
 * @typedef {object} Row
 * @property {number[]} query
 * @property {number[][]} key
 * @property {number[]} products
 * @property {number[]} scores
 * @property {number[]} weights
 * @property {number[][]} value
 * @property {number[][]} weighted
 * @property {number[]} context
 */

/**
 * @param {Row} row
 * @param {string[]} tokens
 * @param {{layer: number, head: number, from: number, to: number}} chosen
 * @param {(to: number) => void} choose
 */
export function rowSteps(row, tokens, chosen, choose) {
  const { from, to } = chosen;
  return [
    element(
      "p",
      { class: "remark" },
      "In layer ",
      `${chosen.layer + 1}, head ${chosen.head + 1}, `,
      element("b", {}, tokens[from]),
      " attends to ",
      element("b", {}, tokens[to]),
      ` with weight ${fixed(row.weights[to])}.`,
    ),
    element(
      "ol",
      { class: "steps" },
      element("li", {}, ...product(row, tokens, from, to)),
      element("li", {}, ...division(row, to)),
      element("li", {}, ...softmax(row, tokens, to, choose)),
      element("li", {}, ...values(row, tokens, to)),
    ),
  ];
}

/**
 * @param {Row} row
 * @param {string[]} tokens
 * @param {number} from
 * @param {number} to
 */
function product({ query, key, products }, tokens, from, to) {
  const own = key[to];
  const largest = Math.max(...query.map(Math.abs), ...own.map(Math.abs));
  const order = query.map((_, i) => i).sort((a, b) => Math.abs(query[b] * own[b]) - Math.abs(query[a] * own[a]));
  const shown = order.slice(0, SHOWN);
  const rest = order.slice(SHOWN).reduce((sum, i) => sum + query[i] * own[i], 0);
  const line = (/** @type {string[]} */ ...cells) =>
    element("tr", {}, ...cells.map((cell, i) => element(i ? "td" : "th", i ? {} : { scope: "row" }, cell)));
  return [
    element("h4", {}, "query · key"),
    element("p", { class: "note" }, `The query of ${tokens[from]} and the key of ${tokens[to]}: ${query.length} numbers each, multiplied one by one and summed.`),
    element("p", { class: "strips" }, element("span", {}, "query"), strip(query, largest), element("span", {}, "key"), strip(own, largest)),
    element(
      "table",
      { class: "numbers", "aria-label": "The largest products" },
      element("thead", {}, element("tr", {}, ...["number", "query", "key", "product"].map((name) => element("th", { scope: "col" }, name)))),
      element(
        "tbody",
        {},
        ...shown.map((i) => line(String(i + 1), fixed(query[i]), fixed(own[i]), fixed(query[i] * own[i]))),
        line(`the other ${order.length - shown.length}`, "", "", fixed(rest)),
      ),
      element("tfoot", {}, line("sum", "", "", fixed(products[to]))),
    ),
  ];
}

/**
 * @param {Row} row
 * @param {number} to
 */
function division({ query, products, scores }, to) {
  const root = Math.sqrt(query.length);
  return [
    element("h4", {}, "÷ √head size"),
    element("p", { class: "note" }, "Sums of many products are large, and softmax of large numbers puts all weight on one token."),
    element("p", { class: "formula" }, `${fixed(products[to])} ÷ √${query.length} = ${fixed(products[to])} ÷ ${fixed(root, 2)} = `, element("b", {}, fixed(scores[to]))),
  ];
}

/**
 * @param {Row} row
 * @param {string[]} tokens
 * @param {number} to
 * @param {(to: number) => void} choose
 */
function softmax({ scores, weights }, tokens, to, choose) {
  const total = scores.reduce((sum, score) => sum + Math.exp(score), 0);
  const order = weights.map((_, i) => i).sort((a, b) => weights[b] - weights[a]);
  const lines = order.map((i) =>
    element(
      "tr",
      { class: i === to ? "strong" : undefined },
      element("th", { scope: "row" }, element("button", { type: "button", class: "link", click: () => choose(i), "aria-label": `${tokens[i]}, token ${i + 1}` }, tokens[i])),
      element("td", {}, fixed(scores[i], 2)),
      element("td", { class: "bar" }, bar(weights[i])),
      element("td", {}, fixed(weights[i])),
    ),
  );
  return [
    element("h4", {}, "softmax"),
    element("p", { class: "formula" }, `e^${fixed(scores[to], 2)} ÷ Σ e^score = ${fixed(Math.exp(scores[to]))} ÷ ${fixed(total)} = `, element("b", {}, fixed(weights[to]))),
    element(
      "div",
      { class: "scroll tall", tabindex: "0", role: "region", "aria-label": "Attention weight of each token" },
      element(
        "table",
        { class: "bars scores", "aria-label": "Score and attention weight of each token" },
          element("tbody", {}, ...lines),
      ),
    ),
  ];
}

/**
 * @param {Row} row
 * @param {string[]} tokens
 * @param {number} to
 */
function values({ weights, value, weighted, context }, tokens, to) {
  const order = weights.map((_, i) => i).sort((a, b) => weights[b] - weights[a]);
  const shown = [...new Set([to, ...order.slice(0, SHOWN - 1)])].sort((a, b) => weights[b] - weights[a]);
  const largest = Math.max(...shown.flatMap((i) => value[i].map(Math.abs)));
  const few = (/** @type {number[]} */ vector) => `${vector.slice(0, 3).map((number) => fixed(number, 2)).join("  ")} …`;
  const line = (/** @type {number} */ i) =>
    element(
      "tr",
      { class: i === to ? "strong" : undefined },
      element("th", { scope: "row" }, tokens[i]),
      element("td", {}, fixed(weights[i])),
      element("td", { class: "bar" }, strip(weighted[i], largest)),
      element("td", {}, few(weighted[i])),
    );
  return [
    element("h4", {}, "weighted values"),
    element("p", { class: "note" }, `The value of each token, ${value[0].length} numbers, times its weight. Their sum is the output of the head.`),
    element(
      "table",
      { class: "numbers values", "aria-label": "Values times their weights" },
      element("thead", {}, element("tr", {}, ...["token", "weight", "weight × value", "first numbers"].map((name) => element("th", { scope: "col" }, name)))),
      element("tbody", {}, ...shown.map(line)),
      element(
        "tfoot",
        {},
        element(
          "tr",
          {},
          element("th", { scope: "row" }, "sum of all"),
          element("td", {}, "1"),
          element("td", { class: "bar" }, strip(context, largest)),
          element("td", {}, few(context)),
        ),
      ),
    ),
  ];
}
