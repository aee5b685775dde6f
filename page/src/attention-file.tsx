/** The script of the file that `cloze attention` writes: it computes the weights from the queries and keys in the file. */

import { render } from "preact";
import { useMemo } from "preact/hooks";
import { floats } from "./format";
import { type Attention, AttentionExplorer } from "./views/attention";
import { type Row, RowSteps } from "./views/row";

/** `query` and `key` are float32 [layers, heads, T, H] in base64. */
interface Data {
  tokens: string[];
  segments: number[];
  layers: number;
  heads: number;
  headSize: number;
  query: string;
  key: string;
}

/** A function that computes one row of attention: the query of a token with every key. */
function rowsOf(data: Data): (layer: number, head: number, from: number) => Row {
  const [query, key] = [floats(data.query), floats(data.key)];
  const { tokens, heads, headSize } = data;
  const vector = (values: Float32Array, layer: number, head: number, token: number) => {
    const start = ((layer * heads + head) * tokens.length + token) * headSize;
    return values.subarray(start, start + headSize);
  };
  return (layer, head, from) => {
    const own = vector(query, layer, head, from);
    const keys = tokens.map((_, to) => vector(key, layer, head, to));
    const products = keys.map((other) => own.reduce((sum, value, i) => sum + value * other[i], 0));
    const scores = products.map((product) => product / Math.sqrt(headSize));
    const largest = Math.max(...scores);
    const exponentials = scores.map((score) => Math.exp(score - largest));
    const total = exponentials.reduce((sum, value) => sum + value, 0);
    return { query: own, key: keys, products, scores, weights: exponentials.map((value) => value / total) };
  };
}

function File({ data }: { data: Data }) {
  const rowOf = useMemo(() => rowsOf(data), [data]);
  const attention: Attention = useMemo(
    () => ({ ...data, token_type_ids: data.segments, unknown: [], rows: (layer, head) => data.tokens.map((_, from) => rowOf(layer, head, from).weights) }),
    [data],
  );
  return (
    <AttentionExplorer of={attention}>
      {(cell, choose) => <RowSteps row={rowOf(cell.layer, cell.head, cell.from)} tokens={data.tokens} cell={cell} choose={choose} />}
    </AttentionExplorer>
  );
}

const data: Data = JSON.parse(document.getElementById("data")!.textContent!);
render(<File data={data} />, document.getElementById("app")!);
