/** The boxes on the way of a token, each with its computation, its numbers, and a check of the first of them. */

import { fixed, floats, percent } from "../format";
import type { Candidate } from "../parts/models";
import type { TextWindow } from "../parts/section";
import { isMask } from "../texts";

export interface Vector {
  norm: number;
  /** float32 in base64. */
  values: string;
}
export interface Layer {
  steps: Record<string, Vector>;
  /** Of each head, from the token to all tokens. */
  scores: number[][];
  weights: number[][];
  movements: number[];
}
export interface Trace {
  tokens: string[];
  /** Places of the tokens that the vocabulary does not know. */
  unknown: number[];
  window: TextWindow;
  token_type_ids: number[];
  token: number;
  token_id: number;
  heads: number;
  input: Record<"word" | "segment" | "position" | "normalized", Vector>;
  layers: Layer[];
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
  /** The numbers drawn in the box. */
  shown: ArrayLike<number>;
  vector?: Vector;
  perHead?: boolean;
  /** Whether the numbers are shares of a whole. */
  isShare?: boolean;
  candidates?: { label: string; share: number; strong?: boolean }[];
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

function inputStations({ input, tokens, token, token_id, token_type_ids }: Trace): Station[] {
  const place = { group: "Input", layer: null };
  const word = tokens[token];
  const [w, s, p] = [input.word, input.segment, input.position].map(({ values }) => floats(values)[0]);
  const vector = (id: string, key: keyof Trace["input"], title: string, formula: string, purpose: string, check?: string): Station => ({
    ...place, id: `input.${id}`, title, formula, purpose, check, vector: input[key], shown: floats(input[key].values),
  });
  return [
    {
      ...place,
      id: "input.token",
      title: "Token",
      formula: `“${word}” is token ${token_id}`,
      purpose: `The text is split into ${tokens.length} tokens. “${word}” is number ${token_id} of the vocabulary; it is token ${token + 1} of the text, in segment ${"AB"[token_type_ids[token]]}.`,
      shown: [],
    },
    vector("word", "word", "Token embedding", `row ${token_id} of a table`, "A learned vector for each token of the vocabulary."),
    vector("segment", "segment", "Segment embedding", `row ${token_type_ids[token]}: ${"AB"[token_type_ids[token]]}`, "A learned vector for each of the two segments, A and B."),
    vector("position", "position", "Position embedding", `row ${token}`, "A learned vector for each position: without it BERT would not know the order of the words."),
    vector(
      "normalized", "normalized", "Sum and LayerNorm", "LayerNorm(token + segment + position)",
      "The three vectors are added and normalized. This is the input of layer 1.",
      `first number of the sum: ${fixed(w)} + ${fixed(s)} + ${fixed(p)} = ${fixed(w + s + p)}`,
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
  const place = { group: "Output", layer: null };
  const found: Station[] = [];
  if (masked_lm) {
    const best = masked_lm.candidates[masked_lm.candidates.length - 1];
    const logits = masked_lm.logits.map((logit, i) => `${best[i].token} ${fixed(logit, 2)}`).join(", ");
    found.push(
      {
        ...place, id: "output.transformed", title: "MLM head", formula: "LayerNorm(activation(dense(x)))",
        purpose: "A dense layer, the activation and LayerNorm on the last vector of the token.",
        vector: masked_lm.transformed, shown: floats(masked_lm.transformed.values),
      },
      {
        ...place, id: "output.logits", title: "Logits", formula: "x · embedding of each word + bias",
        purpose: "The vector is multiplied with the embedding of every token of the vocabulary: the table of the input, used again. The largest are",
        check: logits, shown: masked_lm.logits,
      },
      {
        ...place, id: "output.probabilities", title: "Probabilities", formula: "softmax(logits)",
        purpose: isMask(tokens[token]) ? "What the model fills in." : `What the model would fill in here; it sees “${tokens[token]}” itself.`,
        candidates: best.map(({ token: label, probability }, i) => ({ label, share: probability, strong: i === 0 })),
        isShare: true, shown: best.map(({ probability }) => probability),
      },
    );
  }
  if (pooler) {
    found.push(
      {
        ...place, id: "output.pooled", title: "Pooler", formula: "tanh(dense([CLS]))",
        purpose: "The last vector of [CLS], not of the chosen token, stands for the whole text.",
        vector: pooler.pooled, shown: floats(pooler.pooled.values),
      },
      {
        ...place, id: "output.next", title: "Next sentence", formula: "softmax(dense(pooled))",
        purpose: "Whether segment B follows segment A. With one text there is no B: the answer then means nothing.",
        check: `logits: follows ${fixed(pooler.logits[0], 2)}, from elsewhere ${fixed(pooler.logits[1], 2)}; ${percent(pooler.is_next)} for follows`,
        shown: pooler.logits,
      },
    );
  }
  return found;
}
