/** The served models, their abilities, and the recorded answers of models that are not served. */

import { createContext } from "preact";
import { useContext } from "preact/hooks";
import { ask } from "../server";
import { textsOf } from "../format";

export type Ability = "fill" | "next-sentence" | "embed" | "predict" | "tag" | "answer" | "explain" | "encode" | "tokenize" | "rerank" | "choose" | "search";
/** A model of /info. */
export interface Model {
  name: string;
  abilities: Ability[];
  /** Whether it was fine-tuned on pairs of texts, or on single ones; null if unknown. */
  reads_pairs: boolean | null;
  labels: string[];
  mask_token: string | null;
  /** Whether it was trained for the vectors of sentences. */
  is_sentence_encoder: boolean;
  num_hidden_layers: number;
  num_attention_heads: number;
}

export interface Candidate {
  token: string;
  probability: number;
}

export const Models = createContext<Model[]>([]);

export function useModel(name: string | undefined): Model | undefined {
  return useContext(Models).find((model) => model.name === name);
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

const recordings = new Map<string, Promise<{ model: Model; exchanges: { path: string; body: any; answer: unknown }[] }[]>>();

/** Load the recorded answers for a part of a view from a model with the required ability, or null. */
export async function readRecorded(view: string, needs: Ability): Promise<Recorded | null> {
  if (!recordings.has(view)) recordings.set(view, ask(`page/recorded-${view}.json`).catch(() => []));
  const recording = (await recordings.get(view)!).find(({ model }) => model.abilities.includes(needs));
  if (!recording) return null;
  const answers = recording.exchanges.map(({ path, body, answer }) => [questionKey(path, body, true), { answer }] as const);
  return { model: recording.model, texts: new Set(textsOf(recording.exchanges.map(({ body }) => body))), answers: new Map(answers) };
}
