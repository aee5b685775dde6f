/** Parts of the map: the input embeddings, the attention of each head, and how one attention weight is computed. */

import { useMemo } from "preact/hooks";
import { fixed, floats } from "../format";
import { Answer, useAnswer } from "../parts/answer";
import { Scroll, Strip, StripShades } from "../parts/charts";
import { largestOf } from "../parts/drawing";
import { AttentionExplorer, type Text, type Tokens } from "./attention";
import { type Cell, type Row, RowSteps } from "./row";

/** Rows of an embedding table: their norms and first numbers. */
interface Rows {
  norms: number[];
  first: number[][];
}
interface Embedded extends Tokens {
  input_ids: number[];
  embeddings: Record<"word" | "segment" | "position" | "normalized", Rows>;
}
interface Found extends Tokens {
  layers: number;
  heads: number;
  /** float32 [layers, heads, T, T] in base64. */
  weights: string;
}

/** The input of the first layer. */
export function Inputs({ text }: { text: Text }) {
  const asked = useAnswer<Embedded>("explore/input", text);
  return <Answer asked={asked} isShared={false}>{(found) => <Input found={found} />}</Answer>;
}

/** The three embeddings of each token. */
function Input({ found: { tokens, input_ids, token_type_ids, embeddings } }: { found: Embedded }) {
  const largest = useMemo(
    () => largestOf([embeddings.word, embeddings.segment, embeddings.position].flatMap(({ first }) => first.flat())),
    [embeddings],
  );
  const after = useMemo(() => largestOf(embeddings.normalized.first.flat()), [embeddings]);
  const line = (name: string, rows: Rows, most: number, css = "") => (
    <tr class={css}>
      <th scope="row">{name}</th>
      {tokens.map((_, i) => (
        <td>
          <span class="vector" title={`${rows.first[i].map((value) => fixed(value)).join("  ")} …`}>
            <Strip values={rows.first[i]} largest={most} />
            <small>{fixed(rows.norms[i], 2)}</small>
          </span>
        </td>
      ))}
    </tr>
  );
  return (
    <div class="card">
      <h3>Input embeddings</h3>
      <p class="note">
        The text is split into tokens; ## continues a word. Each token becomes the sum of three rows of tables: of the token,
        of its segment and of its position. Colored: the first 8 numbers of each vector, <span class="key">above</span>{" "}
        and <span class="key below-key">below</span> zero; below them the length of the vector.
      </p>
      <Scroll label="Tokens and their embeddings">
        <table class="input" aria-label="Tokens and their embeddings">
          <thead>
            <tr>
              <th scope="row">Token</th>
              {tokens.map((token, i) => <th scope="col" class={token_type_ids[i] ? "second" : "first"}>{token}</th>)}
            </tr>
          </thead>
          <tbody>
            <tr class="quiet-row"><th scope="row">Token id</th>{input_ids.map((id) => <td>{id}</td>)}</tr>
            {line("Token embedding", embeddings.word, largest)}
            {line("+ segment embedding, A or B", embeddings.segment, largest)}
            {line("+ position embedding", embeddings.position, largest)}
            {line("→ LayerNorm of the sum", embeddings.normalized, after, "sum")}
          </tbody>
        </table>
      </Scroll>
      <StripShades largest={largest}>in the rows of the tables</StripShades>
      <StripShades largest={after}>after LayerNorm</StripShades>
    </div>
  );
}

/** The attention of every head, and one weight of the chosen head step by step. */
export function Heads({ text }: { text: Text }) {
  const asked = useAnswer<Found>("explore/inside", text);
  return (
    <Answer asked={asked}>
      {(found, text: Text) => <Attention found={found} text={text} />}
    </Answer>
  );
}

function Attention({ found, text }: { found: Found; text: Text }) {
  const attention = useMemo(() => {
    const { tokens, unknown, token_type_ids, layers, heads } = found;
    const [size, all] = [tokens.length, floats(found.weights)];
    const rows = (layer: number, head: number) =>
      tokens.map((_, from) => all.subarray(((layer * heads + head) * size + from) * size).subarray(0, size));
    return { tokens, unknown, segments: token_type_ids, layers, heads, rows };
  }, [found]);
  return <AttentionExplorer of={attention}>{(cell, choose) => <Steps text={text} tokens={found.tokens} cell={cell} choose={choose} />}</AttentionExplorer>;
}

/** The computation of one attention weight, which the server returns. */
function Steps({ text, tokens, cell, choose }: { text: Text; tokens: string[]; cell: Cell; choose: (to: number) => void }) {
  const { layer, head, from } = cell;
  const asked = useAnswer<Row>("explore/row", { ...text, layer, head, token: from });
  return (
    <Answer asked={asked} isShared={false}>
      {(row, body) =>
        body.text === text.text && body.pair === text.pair && body.start === text.start && (
          <RowSteps row={row} tokens={tokens} cell={{ layer: body.layer, head: body.head, from: body.token, to: cell.to }} choose={choose} />
        )
      }
    </Answer>
  );
}
