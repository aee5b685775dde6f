/** One head’s output for one token: query · key, ÷ √head size, softmax, the weighted values. */

import { fixed, moveFocus, percent, positive } from "../format";
import { Bar, Scroll, Strip, StripShades } from "../parts/charts";
import { largestOf, range } from "../parts/drawing";

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
  return (
    <>
      <p class="remark" aria-live="polite">
        In layer {layer + 1}, head {head + 1}, <b dir="auto">{tokens[from]}</b> attends to <b dir="auto">{tokens[to]}</b> with weight {percent(row.weights[to])}.
      </p>
      <ol class="steps">
        <li><Product row={row} tokens={tokens} from={from} to={to} /></li>
        <li><Division row={row} to={to} /></li>
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
  const shown = order.slice(0, SHOWN);
  const rest = order.slice(SHOWN).reduce((sum, i) => sum + q[i] * k[i], 0);
  return (
    <>
      <h4>query · key</h4>
      <p class="note">The query of <bdi>{tokens[from]}</bdi> and the key of <bdi>{tokens[to]}</bdi>: {q.length} numbers each, multiplied one by one and summed.</p>
      <p class="strips">
        <span>query</span><Strip values={q} largest={largest} />
        <span>key</span><Strip values={k} largest={largest} />
      </p>
      <StripShades largest={largest}>up to the largest of both vectors</StripShades>
      <table class="numbers" aria-label="The largest products">
        <thead><tr>{["number", "query", "key", "product"].map((name) => <th scope="col">{name}</th>)}</tr></thead>
        <tbody>
          {shown.map((i) => (
            <tr><th scope="row">{i + 1}</th><td>{fixed(q[i])}</td><td>{fixed(k[i])}</td><td>{fixed(q[i] * k[i])}</td></tr>
          ))}
          {order.length > shown.length && <tr><th scope="row">the other {order.length - shown.length}</th><td /><td /><td>{fixed(rest)}</td></tr>}
        </tbody>
        <tfoot><tr><th scope="row">sum</th><td /><td /><td>{fixed(products[to])}</td></tr></tfoot>
      </table>
    </>
  );
}

function Division({ row: { query, products, scores }, to }: { row: Row; to: number }) {
  return (
    <>
      <h4>÷ √head size</h4>
      <p class="note">Sums of many products are large, and softmax of large numbers puts all weight on one token.</p>
      <p class="formula">
        {fixed(products[to])} ÷ √{query.length} = {fixed(products[to])} ÷ {fixed(Math.sqrt(query.length), 2)} = <b>{fixed(scores[to])}</b>
      </p>
    </>
  );
}

function Softmax({ row: { scores, weights }, tokens, to, choose }: { row: Row; tokens: string[]; to: number; choose: (to: number) => void }) {
  const largest = Math.max(...scores);
  const total = scores.reduce((sum, score) => sum + Math.exp(score - largest), 0);
  const order = range(weights.length).sort((a, b) => weights[b] - weights[a]);
  return (
    <>
      <h4>softmax</h4>
      <p class="note">
        e to the power of each score, divided by the sum of all. The largest score, {fixed(largest, 2)}, is subtracted before: the
        weights are the same, and no number is large.
      </p>
      <p class="formula">
        e^({fixed(scores[to], 2)} − {parenthesized(largest)}) ÷ Σ = {positive(Math.exp(scores[to] - largest))} ÷ {fixed(total)} = <b>{percent(weights[to])}</b>
      </p>
      <Scroll label="Attention weight of each token" class="tall">
        <table class="bars scores" aria-label="Score and attention weight of each token" onKeyDown={moveFocus}>
          <tbody>
            {order.map((i) => (
              <tr class={i === to ? "strong" : undefined}>
                <th scope="row"><button type="button" class="link" tabIndex={i === to ? 0 : -1} aria-label={`${tokens[i]}, token ${i + 1}`} onClick={() => choose(i)}>{tokens[i]}</button></th>
                <td>{fixed(scores[i], 2)}</td>
                <td class="bar"><Bar share={weights[i]} /></td>
                <td>{percent(weights[i])}</td>
              </tr>
            ))}
          </tbody>
        </table>
      </Scroll>
    </>
  );
}

/** A number to subtract, in parentheses below zero. */
function parenthesized(value: number): string {
  return value < 0 ? `(${fixed(value, 2)})` : fixed(value, 2);
}

function Values({ row, tokens, to }: { row: Row; tokens: string[]; to: number }) {
  const [weights, value, weighted, context] = [row.weights, row.value!, row.weighted!, row.context!];
  const order = range(weights.length).sort((a, b) => weights[b] - weights[a]);
  const shown = [...new Set([to, ...order.slice(0, SHOWN - 1)])].sort((a, b) => weights[b] - weights[a]);
  const largest = largestOf(shown.flatMap((i) => value[i]));
  const few = (vector: number[]) => `${vector.slice(0, 3).map((number) => fixed(number, 2).padStart(6)).join(" ")} …`;
  return (
    <>
      <h4>weighted values</h4>
      <p class="note">The value of each token, {value[0].length} numbers, times its weight. Their sum is the output of the head.</p>
      <table class="numbers values" aria-label="Values times their weights">
        <thead><tr>{["token", "weight", "weight × value", "first numbers"].map((name) => <th scope="col">{name}</th>)}</tr></thead>
        <tbody>
          {shown.map((i) => (
            <tr class={i === to ? "strong" : undefined}>
              <th scope="row">{tokens[i]}</th>
              <td>{percent(weights[i])}</td>
              <td class="bar"><Strip values={weighted[i]} largest={largest} /></td>
              <td>{few(weighted[i])}</td>
            </tr>
          ))}
        </tbody>
        <tfoot>
          <tr><th scope="row">sum of all</th><td>100%</td><td class="bar"><Strip values={context} largest={largest} /></td><td>{few(context)}</td></tr>
        </tfoot>
      </table>
      <StripShades largest={largest}>up to the largest number of these values, before the weights</StripShades>
    </>
  );
}
