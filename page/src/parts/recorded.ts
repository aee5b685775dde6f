/** Recorded answers to the examples of a view, which it shows where no model answers. */

import { createContext } from "preact";
import { ask } from "../server";
import { textsOf } from "../texts";

export interface Recording {
  /** The model that answered, as in /info. */
  model: any;
  exchanges: { path: string; body: any; answer: unknown }[];
}

export interface Recorded extends Recording {
  /** Every text in the questions. */
  texts: Set<string>;
  answers: Map<string, unknown>;
}

/** The recorded answers of the part of a view that is drawn; null where a model answers. */
export const RecordedAnswers = createContext<Recorded | null>(null);

/** The key of a question: its path and body without the model. */
export function questionKey(path: string, body: any): string {
  return JSON.stringify([path, { ...body, model: undefined }]);
}

const recordings = new Map<string, Promise<Recording[]>>();

/** Load the recorded answers for a part of a view from a model with the required ability, or null. */
export async function readRecorded(view: string, needs: string): Promise<Recorded | null> {
  if (!recordings.has(view)) recordings.set(view, ask(`page/recorded-${view}.json`).catch(() => []));
  const recording = (await recordings.get(view)!).find(({ model }) => model.abilities.includes(needs));
  if (!recording) return null;
  const { model, exchanges } = recording;
  const texts = new Set(textsOf(exchanges.map(({ body }) => body)));
  return { model, exchanges, texts, answers: new Map(exchanges.map(({ path, body, answer }) => [questionKey(path, body), answer])) };
}
