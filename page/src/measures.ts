/** The measures of lessons: each asks the served model one request, and ranks the choices of a question by its numbers. */

import { fixed, floats, grouped, isMask, linesOf, percent } from "./format";
import { examplesFor, type LabelScore } from "./labels";
import { range } from "./parts/drawing";
import type { Ability, Candidate, Model } from "./parts/models";
import { bySense } from "./views/pairs";

export interface Step {
  text: string;
  question: string;
  /** Without them, the page lists them from the answer of the model, or the student types a word. */
  choices: string[] | null;
  view: string | null;
  state: Record<string, string>;
  reveal: { measure: string; answer: string | null; first: string; near: string | null; below: string };
}

export interface Row {
  label: string;
  value: number;
  /** The value as text, with its name. */
  shown: string;
  /** 1 for the largest value. */
  rank: number;
}

type Unranked = Omit<Row, "rank"> & { rank?: number };
export interface Measure {
  needs: Ability;
  /** Whether a question without choices asks for a word. */
  isTyped?: boolean;
  /** The text that is asked about, shown above the choices; the text of the step by default. */
  subject?: (step: Step, model: Model) => string;
  /** The path and the body of the request. */
  ask: (step: Step, model: Model, guess: string) => readonly [string, Record<string, unknown>];
  rows: (answer: any, step: Step, guess: string) => Unranked[];
  /** The number of ranks, where rows are not all. */
  count?: (answer: any) => number;
  /** Whether the rows are layers, whose values are the distances from the right one; they stay in order. */
  isDistance?: boolean;
}

/** The head that the step names; in a smaller model the last layer or head. */
export function headOf({ state }: Step, layers: number, heads: number): [number, number] {
  return [Math.min(Number(state.layer ?? 1), layers), Math.min(Number(state.head ?? 1), heads)];
}

function inputOf({ state }: Step, model: Model): string[] {
  const [{ text, pair }] = examplesFor(model);
  return state.text ? [state.text] : pair ? [text, pair] : [text];
}

const whole = ({ state }: Step) => ({ text: state.text, pair: null, start: null });
const row = (label: string, value: number, shown: string) => ({ label, value, shown });
const shareRow = (label: string, share: number) => row(label, share, `probability ${percent(share)}, loss ${fixed(-Math.log(share), 2)}`);

/** Tokens, numbered where they repeat. */
function named(tokens: string[]): string[] {
  return tokens.map((token, i) => {
    const before = tokens.slice(0, i).filter((other) => other === token).length;
    return before ? `${token} (${before + 1})` : token;
  });
}

/** The rows of words at a mask, which the server ranks among all tokens, and of the first candidates. */
function wordRows({ candidates, words }: any, asked: string[]): Unranked[] {
  const rows = [
    ...words.flatMap(({ rank, probability }: any, i: number) => (rank === null ? [] : [{ ...shareRow(asked[i], probability), rank }])),
    ...candidates.map(({ token, probability }: Candidate, i: number) => ({ ...shareRow(token, probability), rank: i + 1 })),
  ];
  return rows.filter(({ rank }, i) => rows.findIndex((other) => other.rank === rank) === i);
}

const wordsOf = ({ choices, reveal }: Step, guess: string) => choices ?? [guess, reveal.answer].flatMap((word) => word || []);

export const MEASURES: Record<string, Measure> = {
  word: {
    needs: "fill",
    isTyped: true,
    ask: (step, _, guess) => ["explore/guess", { texts: [step.state.text], words: wordsOf(step, guess) }],
    rows: ({ texts: [found] }, step, guess) => {
      const rows = wordRows(found, wordsOf(step, guess));
      return step.choices ? rows.flatMap(({ rank, ...row }) => (step.choices!.includes(row.label) ? [row] : [])) : rows;
    },
    count: ({ vocab_size }) => vocab_size,
  },
  sentence: {
    needs: "fill",
    subject: () => "",
    ask: ({ choices, reveal }) => ["explore/guess", { texts: choices, words: [reveal.answer] }],
    rows: ({ texts }, { choices }) => texts.flatMap(({ words: [{ probability }] }: any, i: number) => (probability === null ? [] : [shareRow(choices![i], probability)])),
  },
  tokens: {
    needs: "tokenize",
    isTyped: true,
    subject: ({ state }) => linesOf(state.texts ?? "").join(", "),
    ask: ({ choices, state }, _, guess) => ["tokenize", { inputs: choices ?? [...linesOf(state.texts), ...(guess ? [guess] : [])], add_special_tokens: false }],
    rows: (found: { text: string }[][], { choices, state }, guess) =>
      found.map((tokens, i) => {
        const shown = `${tokens.length} ${tokens.length === 1 ? "token" : "tokens"}: ${tokens.map(({ text }) => text).join(" ")}`;
        return row((choices ?? [...linesOf(state.texts), guess])[i], tokens.length, shown);
      }),
  },
  embedding: {
    needs: "encode",
    ask: (step) => ["explore/input", whole(step)],
    rows: ({ embeddings }) =>
      ["word", "segment", "position"].map((table) => {
        const value = embeddings[table].norms[1];
        return row(`${table === "word" ? "token" : table} embedding`, value, `length ${fixed(value, 2)}`);
      }),
  },
  sense: {
    needs: "encode",
    subject: ({ state }) => bySense(state.sentences)[0].sentence,
    ask: ({ state }) => ["explore/word", { word: state.word, sentences: bySense(state.sentences).map(({ sentence }) => sentence) }],
    rows: ({ occurrences, cosines }, { state }) =>
      bySense(state.sentences).slice(1).flatMap(({ sentence }, i) => {
        const place = occurrences.findIndex((other: { sentence: number }) => other.sentence === i + 1);
        const value = cosines[cosines.length - 1][0][place];
        return place < 0 ? [] : [row(sentence, value, `cosine ${fixed(value, 2)}`)];
      }),
  },
  attention: {
    needs: "encode",
    ask: (step) => ["explore/inside", whole(step)],
    rows: (found, step) => {
      const [size, from, [layer, head]] = [found.tokens.length, found.tokens.findIndex(isMask), headOf(step, found.layers, found.heads)];
      const weights = floats(found.weights).subarray((((layer - 1) * found.heads + head - 1) * size + from) * size).subarray(0, size);
      return named(found.tokens).map((label, i) => row(label, weights[i], `weight ${percent(weights[i])}`));
    },
  },
  head: {
    needs: "fill",
    ask: (step) => ["explore/ablation", { ...whole(step), heads: null, token: null }],
    rows: (found, step) => {
      const [[layer], [all]] = [headOf(step, found.layers, found.heads), found.all.first];
      return range(found.heads).map((head) => {
        const [share] = found.without[(layer - 1) * found.heads + head].first;
        return row(`head ${head + 1}`, all - share, `without it, “${found.all.masks[0][0].token}” has ${percent(share)} in place of ${percent(all)}`);
      });
    },
  },
  layer: {
    needs: "fill",
    isDistance: true,
    ask: (step) => ["explore/layers", { text: step.state.text, token: null, start: null }],
    rows: ({ masked_lm: { candidates } }) => {
      const best = candidates.map(([{ token }]: Candidate[]) => token);
      const from = best.findLastIndex((token: string) => token !== best[best.length - 1]) + 1;
      return candidates.map(([{ token, probability }]: Candidate[], layer: number) =>
        row(layer ? `layer ${layer}` : "embeddings", -Math.abs(layer - from), `“${token}” is first there, with ${percent(probability)}`),
      );
    },
  },
  turn: {
    needs: "encode",
    ask: (step) => ["explore/layers", { text: step.state.text, token: null, start: null }],
    rows: ({ layers, token }) =>
      layers.map(({ movements }: { movements: number[] }, i: number) => row(`layer ${i + 1}`, movements[token], `1 − cosine ${fixed(movements[token], 2)}`)),
  },
  next: {
    needs: "next-sentence",
    subject: ({ state }) => `A: ${state.text}`,
    ask: ({ state, choices }) => ["next-sentence", { inputs: choices!.map((choice) => [state.text, choice]) }],
    rows: (shares: number[], { choices }) => shares.map((share, i) => row(choices![i], share, `probability ${percent(share)} that it follows`)),
  },
  label: {
    needs: "predict",
    subject: (step, model) => inputOf(step, model).join(" ⸱ "),
    ask: (step, model) => ["predict", { inputs: [inputOf(step, model)] }],
    rows: ([scores]) => scores.map(({ label, score }: LabelScore) => row(label, score, `probability ${percent(score)}`)),
  },
  why: {
    needs: "explain",
    subject: (step, model) => inputOf(step, model).join(" ⸱ "),
    ask: (step, model) => ["explain", { inputs: [inputOf(step, model)] }],
    rows: ([{ words, explained }]) => {
      const names = named(words.map(({ word }: { word: string }) => word));
      return words.map(({ attribution }: { attribution: number }, i: number) => row(names[i], attribution, `contribution ${fixed(attribution)} to “${explained}”`));
    },
  },
};

/** The rows of an answer with their ranks, the largest first. */
export function ranked(measure: Measure, answer: any, step: Step, guess: string): Row[] {
  const rows = measure.rows(answer, step, guess);
  const all = rows.map((row) => ({ ...row, rank: row.rank ?? 1 + rows.filter(({ value }) => value > row.value).length }));
  return measure.isDistance ? all : all.sort((a, b) => a.rank - b.rank);
}

function ordinal(rank: number): string {
  const ending = rank % 100 > 10 && rank % 100 < 14 ? "th" : (["th", "st", "nd", "rd"][rank % 10] ?? "th");
  return `${grouped(rank)}${ending}`;
}

/** The rank of a row among `count`, and its value. */
export function placeOf({ isDistance }: Measure, { label, rank, value, shown }: Row, count: number): string {
  const away = value ? `${-value} ${value === -1 ? "row" : "rows"} away` : "right";
  return `“${label}” is ${isDistance ? away : `${ordinal(rank)} of ${grouped(count)}`}: ${shown}.`;
}
