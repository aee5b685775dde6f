/** The models that are served, and their abilities. */

import { createContext } from "preact";

export type Ability = "fill" | "next-sentence" | "embed" | "predict" | "tag" | "answer" | "explain" | "encode";
export interface Model {
  name: string;
  abilities: Set<Ability>;
  /** Whether it was fine-tuned on pairs of texts, or on single ones; null if nothing says which. */
  readsPairs: boolean | null;
  /** Its classes or tags. */
  labels: string[];
  /** As its tokenizer writes it. */
  maskToken: string;
}

/** The models that are served. */
export const Models = createContext<Model[]>([]);

/** A model as /info describes it. */
export function toModel({ name, abilities, reads_pairs, labels, mask_token }: any): Model {
  return { name, abilities: new Set(abilities), readsPairs: reads_pairs, labels, maskToken: mask_token ?? "[MASK]" };
}
