/** Parts of the map: the input embeddings, the attention of each head, how one attention weight is computed, and the answers without heads. */

import { useMemo } from "preact/hooks";
import { fixed, floats, isMask, percent } from "../format";
import { Answer, type BarRow, Bars, type Candidate, candidateRows, largestOf, nextSentenceRows, Scroll, Strip, StripShades, Table, useAnswer } from "../parts";
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

export function Inputs({ text }: { text: Text }) {
  const asked = useAnswer<Embedded>("explore/input", text);
  return <Answer asked={asked} isShared={false}>{(found) => <Input found={found} />}</Answer>;
}

function Input({ found: { tokens, input_ids, token_type_ids, embeddings } }: { found: Embedded }) {
  const { normalized, ...tables } = embeddings;
  const largest = useMemo(() => largestOf(Object.values(tables).flatMap(({ first }) => first.flat())), [embeddings]);
  const after = useMemo(() => largestOf(normalized.first.flat()), [embeddings]);
  const vector = (first: number[], norm: number, most: number) => (
    <td>
      <span class="vector" title={`${first.map((value) => fixed(value)).join("  ")} …`}>
        <Strip values={first} largest={most} />
        <small>{fixed(norm, 2)}</small>
      </span>
    </td>
  );
  const line = (name: string, { first, norms }: Rows, most = largest) => ({ cells: [name, ...tokens.map((_, i) => vector(first[i], norms[i], most))] });
  const rows = [
    { class: "quiet-row", cells: ["Token id", ...input_ids] },
    line("Token embedding", embeddings.word),
    line("+ segment embedding, A or B", embeddings.segment),
    line("+ position embedding", embeddings.position),
    { class: "sum", ...line("→ LayerNorm of the sum", normalized, after) },
  ];
  const head = tokens.map((token, i) => <th scope="col" class={token_type_ids[i] ? "second" : "first"}>{token}</th>);
  return (
    <div class="card">
      <h3>Input embeddings</h3>
      <p class="note">
        The text is split into tokens; ## continues a word. Each token becomes the sum of three rows of tables: of the token,
        of its segment and of its position. Colored: the first 8 numbers of each vector, <span class="key">above</span>{" "}
        and <span class="key below-key">below</span> zero; below them the length of the vector.
      </p>
      <Scroll label="Tokens and their embeddings">
        <Table class="input" name="Tokens and their embeddings" head={[<th scope="row">Token</th>, ...head]} rows={rows} />
      </Scroll>
      <StripShades largest={largest}>in the rows of the tables</StripShades>
      <StripShades largest={after}>after LayerNorm</StripShades>
    </div>
  );
}

/** The attention of every head, and one weight of the chosen head step by step. */
export function Heads({ text }: { text: Text }) {
  const asked = useAnswer<Found>("explore/inside", text);
  return <Answer asked={asked}>{(found, text: Text) => <Attention found={found} text={text} />}</Answer>;
}

function Attention({ found, text }: { found: Found; text: Text }) {
  const attention = useMemo(() => {
    const [size, all] = [found.tokens.length, floats(found.weights)];
    const rows = (layer: number, head: number) =>
      found.tokens.map((_, from) => all.subarray(((layer * found.heads + head) * size + from) * size).subarray(0, size));
    return { ...found, rows };
  }, [found]);
  return <AttentionExplorer of={attention}>{(cell, choose) => <Steps text={text} tokens={found.tokens} cell={cell} choose={choose} />}</AttentionExplorer>;
}

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

interface Answers {
  /** The candidates for each masked token. */
  masks: Candidate[][] | null;
  /** The probability of the token that is the first candidate with all heads. */
  first: number[] | null;
  is_next: number | null;
  /** The probability of each label; a number is called score. */
  labels: Record<string, number> | null;
}
export interface Ablated {
  tokens: string[];
  masked: number[];
  all: Answers;
  /** Without the heads of the question, or without each head alone. */
  without: Answers[];
  is_truncated: boolean;
}

/** The answers of a model, each with its number and its most probable answer. */
function readingsOf({ tokens, masked, all }: Ablated) {
  const labels = Object.entries(all.labels ?? {}).sort(([, a], [, b]) => b - a);
  const masks = (all.masks ?? []).map(([{ token }], i) => ({
    name: `“${token}” for ${placeOf(tokens, masked, i)}`,
    isShare: true,
    value: ({ first }: Answers) => first![i],
    best: ({ masks }: Answers) => masks![i][0].token,
  }));
  const next = {
    name: "B follows A",
    isShare: true,
    value: ({ is_next }: Answers) => is_next!,
    best: ({ is_next }: Answers) => bestOf(nextSentenceRows(is_next!)).label,
  };
  const classes = labels.map(([label]) => ({
    name: isScore(all) ? "the number" : `“${label}”`,
    isShare: !isScore(all),
    value: ({ labels }: Answers) => labels![label],
    best: (answers: Answers) => bestOf(labelRows(answers)).label,
  }));
  return [...masks, ...(all.is_next === null ? [] : [next]), ...classes];
}

/** The effect of removing heads on each answer: its number before and after, and the most probable answer where another one is first. */
export type Effect = ReturnType<typeof effectsOf>[number];
export function effectsOf(found: Ablated) {
  const { all, without } = found;
  return readingsOf(found).map(({ name, isShare, value, best }) => {
    const becomes = without.map((answers) => (best(answers) === best(all) ? undefined : best(answers)));
    return { name, isShare, before: value(all), after: without.map(value), becomes };
  });
}

/** Whether the labels are the number of a regression. */
function isScore({ labels }: Answers): boolean {
  return labels !== null && "score" in labels && Object.keys(labels).length === 1;
}

function labelRows({ labels }: Answers): BarRow[] {
  return Object.entries(labels!).map(([label, share]) => ({ label, share }));
}

function bestOf(rows: BarRow[]): BarRow {
  return rows.reduce((first, row) => (row.share > first.share ? row : first));
}

function placeOf(tokens: string[], masked: number[], i: number): string {
  const token = tokens[masked[i]];
  return isMask(token) ? `${token}${masked.length > 1 ? ` ${i + 1}` : ""}` : `“${token}”, masked`;
}

export function Comparison({ found, without, reduced }: { found: Ablated; without?: Answers; reduced: string }) {
  const { all, tokens, masked } = found;
  const both = (title: string, rows: (answers: Answers) => BarRow[]) => (
    <>
      <h4>{title}</h4>
      <div class="before-after">
        <div><p class="note">All heads</p><Bars rows={rows(all)} name={`${title}, all heads`} /></div>
        {without && <div><p class="note">{reduced}</p><Bars rows={rows(without)} name={`${title}, without heads`} /></div>}
      </div>
      {without && <p class="remark">{changeOf(rows(all), rows(without))}</p>}
    </>
  );
  return (
    <>
      {all.masks?.map((_, i) => both(placeOf(tokens, masked, i), ({ masks }) => candidateRows(masks![i], (token) => token === tokens[masked[i]])))}
      {all.is_next !== null && both("Next sentence", ({ is_next }) => nextSentenceRows(is_next!))}
      {isScore(all) && <p class="answer">{fixed(all.labels!.score)}{without && ` → ${fixed(without.labels!.score)}`}</p>}
      {all.labels && !isScore(all) && both("Labels", labelRows)}
      {found.is_truncated && <p class="note">The text is longer than the classifier reads: only its beginning counts.</p>}
    </>
  );
}

function changeOf(before: BarRow[], after: BarRow[]): string {
  const [a, b] = [bestOf(before), bestOf(after)];
  return a.label === b.label
    ? `“${a.label}” stays first: ${percent(a.share)}, then ${percent(b.share)}.`
    : `The first answer changes from “${a.label}” (${percent(a.share)}) to “${b.label}” (${percent(b.share)}).`;
}
