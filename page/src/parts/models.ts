/** The served models, their abilities, and parts of their answers. */

import { createContext } from "preact";
import { useContext } from "preact/hooks";

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
