/** The boxes on the way of a token, each with its computation, its numbers, and a check of the first of them. */

import { fixed, floats, isMask, percent } from "../format";
import { type BarRow, type Candidate, candidateRows } from "../parts";
import type { Tokens } from "./attention";

interface Vector {
  norm: number;
  /** float32 in base64. */
  values: string;
}

export interface Trace extends Tokens {
  token: number;
  token_id: number;
  heads: number;
  input: Record<"word" | "segment" | "position" | "normalized", Vector>;
  /** Scores and weights are of each head, from the token to all tokens. */
  layers: { steps: Record<string, Vector>; scores: number[][]; weights: number[][] }[];
  masked_lm: { transformed: Vector; logits: number[]; candidates: Candidate[][] } | null;
  pooler: { pooled: Vector; logits: [number, number]; is_next: number } | null;
}

export interface Station {
  /** As in input.word, 2.query and output.next; layers count from 1. */
  id: string;
  group: string;
  /** Counted from 0; null outside the layers. */
  layer: number | null;
  title: string;
  formula: string;
  purpose: string;
  shown: ArrayLike<number>;
  vector?: Vector;
  perHead?: boolean;
  isShare?: boolean;
  candidates?: BarRow[];
  /** The computation of the first number, or of another sum. */
  check?: string;
}

/** The steps of a layer, in their order: key, title, formula, purpose. */
const STEPS = [
  ["query", "Query", "dense(x)", "What the token looks for: a dense layer on its vector. The heads have a part each."],
  ["key", "Key", "dense(x)", "What the token offers to those that look: compared with the queries of all tokens."],
  ["value", "Value", "dense(x)", "What the token gives to those that attend to it."],
  ["scores", "Scores", "query · key / √head size", "How well the query of this token fits the key of every token, in each head."],
  ["weights", "Softmax", "e^score / Σ e^score", "The scores of a head become weights: positive, and 100% in sum."],
  ["context", "Heads", "Σ weight · value", "Each head takes the mean of the values of all tokens with its weights. The outputs of the heads are put side by side."],
  ["attended", "Attention output", "dense(heads)", "A dense layer mixes the outputs of the heads."],
  ["attention_sum", "Residual", "x + attention output", "The input of the layer is added: the layer changes the vector, it does not replace it."],
  ["attention_normalized", "LayerNorm", "(x − mean) / deviation", "Mean 0 and variance 1, then a learned scale and shift of each number."],
  ["intermediate", "Feed-forward", "activation(dense(x))", "Four times as many numbers in BERT. Each is one pattern that the token may match."],
  ["output", "Feed-forward output", "dense(x)", "Back to the size of the vector."],
  ["output_sum", "Residual", "x + feed-forward output", "The second residual connection."],
  ["normalized", "LayerNorm", "(x − mean) / deviation", "The output of this layer is the input of the next one."],
] as const;

export function stationsOf(trace: Trace): Station[] {
  return [...inputStations(trace), ...trace.layers.flatMap((_, layer) => layerStations(trace, layer)), ...outputStations(trace)];
}

/** A box of the input or of the output, with all numbers of a vector if it has one. */
function boxOf(group: string, name: string, title: string, formula: string, purpose: string, { vector, ...more }: Partial<Station>): Station {
  return { id: `${group.toLowerCase()}.${name}`, group, layer: null, title, formula, purpose, vector, shown: vector ? floats(vector.values) : [], ...more };
}

function inputStations({ input, tokens, token, token_id, token_type_ids }: Trace): Station[] {
  const word = tokens[token];
  const segment = "AB"[token_type_ids[token]];
  const [w, s, p] = [input.word, input.segment, input.position].map(({ values }) => floats(values)[0]);
  const split = `The text is split into ${tokens.length} tokens. “${word}” is number ${token_id} of the vocabulary; it is token ${token + 1} of the text, in segment ${segment}.`;
  const sum = `first number of the sum: ${fixed(w)} + ${fixed(s)} + ${fixed(p)} = ${fixed(w + s + p)}`;
  return [
    boxOf("Input", "token", "Token", `“${word}” is token ${token_id}`, split, {}),
    boxOf("Input", "word", "Token embedding", `row ${token_id} of a table`, "A learned vector for each token of the vocabulary.", { vector: input.word }),
    boxOf("Input", "segment", "Segment embedding", `row ${token_type_ids[token]}: ${segment}`, "A learned vector for each of the two segments, A and B.", { vector: input.segment }),
    boxOf("Input", "position", "Position embedding", `row ${token}`, "A learned vector for each position: without it BERT would not know the order of the words.", { vector: input.position }),
    boxOf(
      "Input", "normalized", "Sum and LayerNorm", "LayerNorm(token + segment + position)",
      "The three vectors are added and normalized. This is the input of layer 1.", { vector: input.normalized, check: sum },
    ),
  ];
}

function layerStations(trace: Trace, layer: number): Station[] {
  const { steps, scores, weights } = trace.layers[layer];
  const before = layer ? trace.layers[layer - 1].steps.normalized : trace.input.normalized;
  const first = (key: string) => floats(steps[key].values)[0];
  const sum = (a: number, key: string, total: string) => `first number: ${fixed(a)} + ${fixed(first(key))} = ${fixed(first(total))}`;
  const checks: Record<string, string> = {
    attention_sum: sum(floats(before.values)[0], "attended", "attention_sum"),
    attention_normalized: normalization(steps.attention_sum),
    output_sum: sum(first("attention_normalized"), "output", "output_sum"),
    normalized: normalization(steps.output_sum),
  };
  const own = { scores, weights };
  return STEPS.map(([key, title, formula, purpose]) => {
    const place = { id: `${layer + 1}.${key}`, group: `Layer ${layer + 1}`, layer, title, formula, purpose };
    if (key === "scores" || key === "weights") return { ...place, perHead: true, isShare: key === "weights", shown: own[key].flat() };
    return { ...place, vector: steps[key], shown: floats(steps[key].values), check: checks[key] };
  });
}

/** Mean and deviation of a vector, and its first number after them. */
function normalization({ values }: Vector): string {
  const all = floats(values);
  const mean = all.reduce((total, value) => total + value, 0) / all.length;
  const deviation = Math.sqrt(all.reduce((total, value) => total + (value - mean) ** 2, 0) / all.length);
  return `first number: (${fixed(all[0])} − ${fixed(mean)}) / ${fixed(deviation)} = ${fixed((all[0] - mean) / deviation)}, before scale and shift`;
}

function outputStations({ masked_lm, pooler, tokens, token }: Trace): Station[] {
  const found: Station[] = [];
  if (masked_lm) {
    const best = masked_lm.candidates[masked_lm.candidates.length - 1];
    const logits = masked_lm.logits.map((logit, i) => `${best[i].token} ${fixed(logit, 2)}`).join(", ");
    const filled = isMask(tokens[token]) ? "What the model fills in." : `What the model would fill in here; it sees “${tokens[token]}” itself.`;
    const candidates = candidateRows(best, (token) => token === best[0].token);
    found.push(
      boxOf(
        "Output", "transformed", "MLM head", "LayerNorm(activation(dense(x)))",
        "A dense layer, the activation and LayerNorm on the last vector of the token.", { vector: masked_lm.transformed },
      ),
      boxOf(
        "Output", "logits", "Logits", "x · embedding of each word + bias",
        "The vector is multiplied with the embedding of every token of the vocabulary: the table of the input, used again. The largest are",
        { check: logits, shown: masked_lm.logits },
      ),
      boxOf("Output", "probabilities", "Probabilities", "softmax(logits)", filled, { candidates, isShare: true, shown: candidates.map(({ share }) => share) }),
    );
  }
  if (pooler) {
    const { logits, pooled, is_next } = pooler;
    const check = `logits: follows ${fixed(logits[0], 2)}, from elsewhere ${fixed(logits[1], 2)}; ${percent(is_next)} for follows`;
    found.push(
      boxOf("Output", "pooled", "Pooler", "tanh(dense([CLS]))", "The last vector of [CLS], not of the chosen token, stands for the whole text.", { vector: pooled }),
      boxOf(
        "Output", "next", "Next sentence", "softmax(dense(pooled))",
        "Whether segment B follows segment A. With one text there is no B: the answer then means nothing.", { check, shown: logits },
      ),
    );
  }
  return found;
}
