/** One head’s output for one token: query · key, ÷ √head size, softmax, the weighted values. */

import type { ComponentChildren } from "preact";
import { fixed, moveFocus, percent, positive } from "../format";
import { barCell, largestOf, range, Scroll, Strip, StripShades, Table } from "../parts";

const SHOWN = 6;

export interface Row {
  query: ArrayLike<number>;
  key: ArrayLike<number>[];
  products: number[];
  scores: number[];
  weights: number[];
  /** The values, their products with the weights, and the sum; a page without a server does not have them. */
  value?: number[][];
  weighted?: number[][];
  context?: number[];
}

export interface Cell {
  layer: number;
  head: number;
  from: number;
  to: number;
}

export function RowSteps({ row, tokens, cell, choose }: { row: Row; tokens: string[]; cell: Cell; choose: (to: number) => void }) {
  const { layer, head, from, to } = cell;
  const { products, scores, query: { length: size } } = row;
  return (
    <>
      <p class="remark" aria-live="polite">
        In layer {layer + 1}, head {head + 1}, <b dir="auto">{tokens[from]}</b> attends to <b dir="auto">{tokens[to]}</b> with weight {percent(row.weights[to])}.
      </p>
      <ol class="steps">
        <li><Product row={row} tokens={tokens} from={from} to={to} /></li>
        <li>
          <h4>÷ √head size</h4>
          <p class="note">Sums of many products are large, and softmax of large numbers puts all weight on one token.</p>
          <p class="formula">
            {fixed(products[to])} ÷ √{size} = {fixed(products[to])} ÷ {fixed(Math.sqrt(size), 2)} = <b>{fixed(scores[to])}</b>
          </p>
        </li>
        <li><Softmax row={row} tokens={tokens} to={to} choose={choose} /></li>
        {row.value && <li><Values row={row} tokens={tokens} to={to} /></li>}
      </ol>
    </>
  );
}

function Product({ row: { query, key, products }, tokens, from, to }: { row: Row; tokens: string[]; from: number; to: number }) {
  const [q, k] = [Array.from(query), Array.from(key[to])];
  const largest = largestOf([...q, ...k]);
  const order = range(q.length).sort((a, b) => Math.abs(q[b] * k[b]) - Math.abs(q[a] * k[a]));
  const others = order.slice(SHOWN);
  const rows = order.slice(0, SHOWN).map((i): { cells: ComponentChildren[] } => ({ cells: [i + 1, fixed(q[i]), fixed(k[i]), fixed(q[i] * k[i])] }));
  if (others.length) rows.push({ cells: [<>the other {others.length}</>, "", "", fixed(others.reduce((sum, i) => sum + q[i] * k[i], 0))] });
  return (
    <>
      <h4>query · key</h4>
      <p class="note">The query of <bdi>{tokens[from]}</bdi> and the key of <bdi>{tokens[to]}</bdi>: {q.length} numbers each, multiplied one by one and summed.</p>
      <p class="strips">
        <span>query</span><Strip values={q} largest={largest} />
        <span>key</span><Strip values={k} largest={largest} />
      </p>
      <StripShades largest={largest}>up to the largest of both vectors</StripShades>
      <Table class="numbers" name="The largest products" head={["number", "query", "key", "product"]} rows={rows} foot={["sum", "", "", fixed(products[to])]} />
    </>
  );
}

function Softmax({ row: { scores, weights }, tokens, to, choose }: { row: Row; tokens: string[]; to: number; choose: (to: number) => void }) {
  const largest = Math.max(...scores);
  const total = scores.reduce((sum, score) => sum + Math.exp(score - largest), 0);
  const order = range(weights.length).sort((a, b) => weights[b] - weights[a]);
  const button = (i: number) => (
    <button type="button" class="link" tabIndex={i === to ? 0 : -1} aria-label={`${tokens[i]}, token ${i + 1}`} onClick={() => choose(i)}>{tokens[i]}</button>
  );
  return (
    <>
      <h4>softmax</h4>
      <p class="note">
        e to the power of each score, divided by the sum of all. The largest score, {fixed(largest, 2)}, is subtracted before: the
        weights are the same, and no number is large.
      </p>
      <p class="formula">
        e^({fixed(scores[to], 2)} − {largest < 0 ? `(${fixed(largest, 2)})` : fixed(largest, 2)}) ÷ Σ = {positive(Math.exp(scores[to] - largest))} ÷ {fixed(total)} = <b>{percent(weights[to])}</b>
      </p>
      <Scroll label="Attention weight of each token" class="tall">
        <Table
          class="bars scores"
          name="Score and attention weight of each token"
          rows={order.map((i) => ({ strong: i === to, cells: [button(i), fixed(scores[i], 2), barCell(weights[i]), percent(weights[i])] }))}
          onKeyDown={moveFocus}
        />
      </Scroll>
    </>
  );
}

function Values({ row, tokens, to }: { row: Row; tokens: string[]; to: number }) {
  const [weights, value, weighted, context] = [row.weights, row.value!, row.weighted!, row.context!];
  const order = range(weights.length).sort((a, b) => weights[b] - weights[a]);
  const shown = [...new Set([to, ...order.slice(0, SHOWN - 1)])].sort((a, b) => weights[b] - weights[a]);
  const largest = largestOf(shown.flatMap((i) => value[i]));
  const few = (vector: number[]) => `${vector.slice(0, 3).map((number) => fixed(number, 2).padStart(6)).join(" ")} …`;
  const cells = (vector: number[]) => [<td class="bar"><Strip values={vector} largest={largest} /></td>, few(vector)];
  return (
    <>
      <h4>weighted values</h4>
      <p class="note">The value of each token, {value[0].length} numbers, times its weight. Their sum is the output of the head.</p>
      <Table
        class="numbers values"
        name="Values times their weights"
        head={["token", "weight", "weight × value", "first numbers"]}
        rows={shown.map((i) => ({ strong: i === to, cells: [tokens[i], percent(weights[i]), ...cells(weighted[i])] }))}
        foot={["sum of all", "100%", ...cells(context)]}
      />
      <StripShades largest={largest}>up to the largest number of these values, before the weights</StripShades>
    </>
  );
}
