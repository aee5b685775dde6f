/** A question to the server that follows what the reader changes, and the place for its answer. */

import type { ComponentChildren, JSX } from "preact";
import { useContext, useLayoutEffect, useState } from "preact/hooks";
import { exchange, Refusal } from "../server";
import { mapTexts, textsOf, withMaskToken } from "../texts";
import { isTyping } from "../typing";
import { Models } from "./models";
import { questionKey, RecordedAnswers } from "./recorded";
import { Share } from "./share";

const ASK_AFTER_TYPING_MS = 350;
/** Characters of a text, in every view. */
export const MAX_CHARACTERS = 10_000;
const NOT_RECORDED = "Only the examples are recorded. With the command above, the page answers to your own text.";
const MAX_CACHED = 60;
const cache = new Map<string, { answer: unknown; truncated: number }>(); // the oldest first

/** Forget the answers: another server, or another model of the same name, may answer now. */
export function forgetAnswers(): void {
  cache.clear();
}

export interface Question {
  path: string;
  body: any;
  /** What the view needs to show the answer; it is not sent. */
  about?: any;
}

/** The last answer, and the question that it answers. */
export interface Asked<T> {
  question: Question;
  answer?: T;
  /** How many of its texts the model did not read to their end. */
  truncated?: number;
  error?: string;
  isBusy: boolean;
  /** Whether there is nothing to ask about. */
  isEmpty: boolean;
}

/** Ask whenever the question changes; null asks nothing. An older answer is kept until the next one is there, with its question. */
export function useAnswer<T>(path: string, typed: { model: string; [name: string]: unknown } | null, about?: unknown): Asked<T> {
  const model = useContext(Models).find(({ name }) => name === typed?.model);
  const body = mapTexts(typed, (text) => withMaskToken(text, model?.maskToken ?? "[MASK]"));
  const recorded = useContext(RecordedAnswers);
  const wanted = body === null ? null : JSON.stringify([path, body]);
  const [state, setState] = useState<{ key: string | null; question: Question; answer?: T; truncated?: number; error?: string }>({
    key: null,
    question: { path, body },
  });
  // before the next frame is drawn: the first answer is there sooner
  useLayoutEffect(() => {
    if (wanted === null || wanted === state.key) return;
    const question = { path, body, about };
    if (recorded) {
      const answer = recorded.answers.get(questionKey(path, body)) as T | undefined;
      setState({ key: wanted, question, answer, error: answer === undefined ? NOT_RECORDED : undefined });
      return;
    }
    const longest = Math.max(0, ...textsOf(body).map((text) => [...text].length));
    if (longest > MAX_CHARACTERS) {
      const count = (number: number) => number.toLocaleString("en");
      setState({ key: wanted, question, error: `The text has ${count(longest)} characters, at most ${count(MAX_CHARACTERS)} are read. Give a shorter one.` });
      return;
    }
    const show = ({ answer, truncated }: { answer: unknown; truncated: number }) => setState({ key: wanted, question, answer: answer as T, truncated });
    const cached = cache.get(wanted);
    if (cached) {
      show(cached);
      return;
    }
    const abort = new AbortController();
    const work = async () => {
      try {
        const found = await exchange(path, body, abort.signal);
        cache.set(wanted, found);
        if (cache.size > MAX_CACHED) cache.delete(cache.keys().next().value!);
        if (!abort.signal.aborted) show(found);
      } catch (error) {
        if (abort.signal.aborted) return;
        if (!(error instanceof Refusal)) throw error;
        setState({ key: wanted, question, error: error.message });
      }
    };
    const timer = setTimeout(work, isTyping() ? ASK_AFTER_TYPING_MS : 0);
    return () => {
      clearTimeout(timer);
      abort.abort();
    };
  }, [wanted]);
  // what the view shows beside an answer may change without another question
  const isCurrent = wanted !== null && state.key === wanted;
  if (isCurrent) state.question.about = about;
  return { ...state, isBusy: wanted !== null && !isCurrent, isEmpty: wanted === null };
}

/** Gray bars where an answer will be. */
export function Skeleton() {
  return <div class="skeleton" aria-hidden="true"><i /><i /><i /><i /></div>;
}

/** A place for an answer: marked as busy while a newer one is computed; under it what copies the request. */
export function Answer<T>({
  asked,
  children,
  class: css = "",
  isLive = false,
  isShared = true,
}: {
  asked: Asked<T>;
  children: (answer: T, body: any, about: any) => ComponentChildren;
  class?: string;
  isLive?: boolean;
  isShared?: boolean;
}): JSX.Element {
  const { question, answer, error, isBusy, isEmpty } = asked;
  const isRecorded = useContext(RecordedAnswers) !== null;
  if (isEmpty) return <div class={css}><p class="muted">Nothing is written yet.</p></div>;
  return (
    <div class={css} aria-busy={isBusy || undefined} aria-live={isLive ? "polite" : undefined}>
      {error !== undefined && <p class="error" role="alert">{error}</p>}
      {answer === undefined && error === undefined && <Skeleton />}
      {answer !== undefined && children(answer, question.body, question.about)}
      {answer !== undefined && isShared && !isRecorded && <Share path={question.path} body={question.body} answer={answer} />}
    </div>
  );
}
