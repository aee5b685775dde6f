/** The served models, their abilities, and the recorded answers of models that are not served. */

import { createContext } from "preact";
import { useContext } from "preact/hooks";
import { ask } from "../server";
import { textsOf } from "../format";

export type Ability = "fill" | "next-sentence" | "embed" | "predict" | "tag" | "answer" | "explain" | "encode" | "tokenize" | "rerank" | "choose";
export interface Model {
  name: string;
  abilities: Set<Ability>;
  /** Whether it was fine-tuned on pairs of texts, or on single ones; null if unknown. */
  readsPairs: boolean | null;
  /** Its classes or tags. */
  labels: string[];
  /** The mask token of its tokenizer. */
  maskToken: string;
  /** Whether it was trained for the vectors of sentences. */
  isSentenceEncoder: boolean;
  layers: number;
  /** Attention heads of a layer. */
  heads: number;
}

/** A token that a model predicts. */
export interface Candidate {
  token: string;
  probability: number;
}

export const Models = createContext<Model[]>([]);

export function useModel(name: string | undefined): Model | undefined {
  return useContext(Models).find((model) => model.name === name);
}

/** Convert a model of /info. */
export function toModel(info: any): Model {
  return {
    name: info.name,
    abilities: new Set(info.abilities),
    readsPairs: info.reads_pairs,
    labels: info.labels,
    maskToken: info.mask_token ?? "[MASK]",
    isSentenceEncoder: info.is_sentence_encoder,
    layers: info.num_hidden_layers,
    heads: info.num_attention_heads,
  };
}

interface Recording {
  /** The model that answered, as in /info. */
  model: any;
  exchanges: { path: string; body: any; answer: unknown }[];
}

export interface Recorded {
  model: Model;
  /** Every text in the questions. */
  texts: Set<string>;
  /** By the keys of their questions. */
  answers: Map<string, { answer: unknown }>;
}

/** The recorded answers of the part of a view that is drawn; null where a model answers. */
export const RecordedAnswers = createContext<Recorded | null>(null);

/** The key of a question: its path and body, for recorded answers without the model. */
export function questionKey(path: string, body: object, isRecorded: boolean): string {
  return JSON.stringify([path, isRecorded ? { ...body, model: undefined } : body]);
}

const recordings = new Map<string, Promise<Recording[]>>();

/** Load the recorded answers for a part of a view from a model with the required ability, or null. */
export async function readRecorded(view: string, needs: Ability): Promise<Recorded | null> {
  if (!recordings.has(view)) recordings.set(view, ask(`page/recorded-${view}.json`).catch(() => []));
  const recording = (await recordings.get(view)!).find(({ model }) => model.abilities.includes(needs));
  if (!recording) return null;
  const answers = recording.exchanges.map(({ path, body, answer }) => [questionKey(path, body, true), { answer }] as const);
  return { model: toModel(recording.model), texts: new Set(textsOf(recording.exchanges.map(({ body }) => body))), answers: new Map(answers) };
}
