/** Inside: the input embeddings, the attention of each head, and how one attention weight is computed. */

import { useMemo } from "preact/hooks";
import { chooseText, useKept, useSecondSentence, useSentence } from "../address";
import { fixed, floats } from "../format";
import { Answer, useAnswer } from "../parts/answer";
import { Scroll, Strip, StripShades } from "../parts/charts";
import { largestOf } from "../parts/drawing";
import { Examples, TextField } from "../parts/forms";
import { Section, type TextWindow, WindowBar } from "../parts/section";
import { Ablation } from "./ablation";
import { AttentionExplorer, type Text } from "./attention";
import { type Cell, type Row, RowSteps } from "./row";

const EXAMPLES: readonly (readonly [string, readonly [string, string]])[] = [
  ["A pair", ["The man went to the store.", "He bought a gallon of milk."]],
  ["It", ["The animal did not cross the street because it was too tired.", ""]],
  ["Bank", ["They sat on the bank of the river.", ""]],
];

export function InsideView() {
  return (
    <Section
      title="Inside the encoder"
      lead="The input embeddings, the attention of every head, and one attention weight step by step, all in the numbers that the model computes."
      needs="encode"
      Body={Inside}
    />
  );
}

/** Rows of an embedding table: their norms and first numbers. */
interface Rows {
  norms: number[];
  first: number[][];
}
interface Embedded {
  tokens: string[];
  /** Places of the tokens that the vocabulary does not know. */
  unknown: number[];
  window: TextWindow;
  input_ids: number[];
  token_type_ids: number[];
  embeddings: { word: Rows; segment: Rows; position: Rows; normalized: Rows };
}
interface Found extends Embedded {
  layers: number;
  heads: number;
  /** float32 [layers, heads, T, T] in base64. */
  weights: string;
}

function Inside({ model }: { model: string }) {
  const text = useSentence(EXAMPLES[0][1][0]);
  const pair = useSecondSentence(EXAMPLES[0][1][1]);
  const [start] = useKept("start", "");
  const [part] = useKept("part", "");
  const body = { model, text: text[0], pair: pair[0] || null, start: start === "" ? null : Number(start) };
  const asked = useAnswer<Found>("explore/inside", text[0].trim() ? body : null);
  return (
    <>
      <div class="text-and-pair">
        <TextField label="Text" kept={text} />
        <TextField label="Second text, if there is one" kept={pair} />
      </div>
      <Examples all={EXAMPLES} choose={([text, pair]) => chooseText(text, pair || undefined)} />
      <Answer asked={asked}>
        {(found, body: Text) => (
          <>
            <WindowBar of={found.window} />
            {(!part || part === "input") && <Input found={found} />}
            {part !== "input" && <Heads found={found} text={body} part={part} />}
          </>
        )}
      </Answer>
    </>
  );
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

/** The attention of every head, and the answers with heads switched off; or one of these parts. */
function Heads({ found, text, part }: { found: Found; text: Text; part: string }) {
  const attention = useMemo(() => {
    const { tokens, unknown, token_type_ids, layers, heads } = found;
    const [size, all] = [tokens.length, floats(found.weights)];
    const rows = (layer: number, head: number) =>
      tokens.map((_, from) => all.subarray(((layer * heads + head) * size + from) * size).subarray(0, size));
    return { tokens, unknown, segments: token_type_ids, layers, heads, rows };
  }, [found]);
  return (
    <>
      {part !== "off" && (
        <AttentionExplorer of={attention}>
          {!part && ((cell, choose) => <Steps text={text} tokens={found.tokens} cell={cell} choose={choose} />)}
        </AttentionExplorer>
      )}
      {part !== "attention" && <Ablation attention={attention} text={text} />}
    </>
  );
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
