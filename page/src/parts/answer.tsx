/** Requests to the server that follow the inputs of a view, and the parts of the page that show their answers. */

import type { ComponentChildren } from "preact";
import { useContext, useEffect, useLayoutEffect, useState } from "preact/hooks";
import { isTyping } from "../address";
import { grouped, mapTexts, MASKS, textsOf } from "../format";
import { exchange, refused } from "../server";
import { questionKey, RecordedAnswers, useModel } from "./models";
import { Share } from "./share";

const ASK_AFTER_TYPING_MS = 350;
/** Maximum number of characters of a text, in every view. */
export const MAX_CHARACTERS = 10_000;
const NOT_RECORDED = "Only the examples are recorded. With the command above, the page computes answers for your own text.";
const MAX_CACHED = 60;
const cache = new Map<string, Found>(); // the oldest first

/** Empty the cache: after a restart, a model of the same name may be another one. */
export function forgetAnswers(): void {
  cache.clear();
}

interface Found {
  answer?: any;
  /** Number of texts that the model did not read to their end. */
  truncated?: number;
  error?: string;
}

/** The latest answer with its question. */
export interface Asked<T> extends Found {
  /** `about` is state of the view that belongs to the answer; it is not sent. */
  question: { path: string; body: any; about?: any };
  answer?: T;
  isBusy: boolean;
  isEmpty: boolean;
}

/** Why a question is not sent; empty if it is. */
function refusalOf(body: unknown, isRecorded: boolean): string {
  if (isRecorded) return NOT_RECORDED;
  const longest = Math.max(0, ...textsOf(body).map((text) => [...text].length));
  return longest > MAX_CHARACTERS ? `The text has ${grouped(longest)} characters, at most ${grouped(MAX_CHARACTERS)} are read. Give a shorter one.` : "";
}

/** Send a question whenever it changes; null sends none. Until the next answer arrives, the previous one is returned with its question. */
export function useAnswer<T>(path: string, typed: { model: string; [name: string]: unknown } | null, about?: unknown): Asked<T> {
  const model = useModel(typed?.model);
  const body = mapTexts(typed, (text) => text.replace(MASKS, () => model?.mask_token ?? "[MASK]"));
  const recorded = useContext(RecordedAnswers);
  const wanted = body === null ? null : questionKey(path, body, recorded !== null);
  const [state, setState] = useState<Found & { key: string | null; question: Asked<T>["question"] }>({ key: null, question: { path, body } });
  // not useEffect, which waits for a frame: the first answer arrives sooner
  useLayoutEffect(() => {
    if (wanted === null || wanted === state.key) return;
    const show = (found: Found) => setState({ key: wanted, question: { path, body, about }, ...found });
    const known = (recorded?.answers ?? cache).get(wanted);
    if (known) return show(known);
    const error = refusalOf(body, recorded !== null);
    if (error) return show({ error });
    const abort = new AbortController();
    const work = async () => {
      const found = await exchange(path, body, abort.signal);
      cache.set(wanted, found);
      if (cache.size > MAX_CACHED) cache.delete(cache.keys().next().value!);
      if (!abort.signal.aborted) show(found);
    };
    const start = () => work().catch(refused((error) => show({ error }), abort.signal));
    const timer = setTimeout(start, isTyping() ? ASK_AFTER_TYPING_MS : 0);
    return () => {
      clearTimeout(timer);
      abort.abort();
    };
  }, [wanted]);
  // `about` may change without another question
  const isCurrent = wanted !== null && state.key === wanted;
  if (isCurrent) state.question.about = about;
  return { ...state, isBusy: wanted !== null && !isCurrent, isEmpty: wanted === null };
}

/** What the server returns for each row, asked some rows at a time, as it arrives; nothing where the key is "". */
export function useParts<R, T>(key: string, rows: R[], size: number, request: (part: R[], signal: AbortSignal) => Promise<T[]>) {
  const [state, setState] = useState<{ key: string; found: T[]; error: string }>({ key: "", found: [], error: "" });
  useEffect(() => {
    setState({ key, found: [], error: "" });
    if (!key) return;
    const abort = new AbortController();
    const work = async () => {
      let found: T[] = [];
      while (found.length < rows.length && !abort.signal.aborted) {
        found = [...found, ...(await request(rows.slice(found.length, found.length + size), abort.signal))];
        if (!abort.signal.aborted) setState({ key, found, error: "" });
      }
    };
    work().catch(refused((error) => setState((before) => ({ ...before, error })), abort.signal));
    return () => abort.abort();
  }, [key, rows]);
  return state;
}

export function Problem({ children }: { children?: string }) {
  return children ? <p class="error" role="alert">{children}</p> : null;
}

export function Skeleton() {
  return <div class="skeleton" aria-hidden="true"><i /><i /><i /><i /></div>;
}

/** Show an answer, marked as busy while a newer one is computed, with buttons that copy its request; without a question the text `empty`. */
export function Answer<T>(props: { asked: Asked<T>; children: (answer: T, body: any, about: any) => ComponentChildren; class?: string; isLive?: boolean; isShared?: boolean; empty?: string }) {
  const { children, class: css = "", isLive = false, isShared = true, empty = "Nothing is written yet." } = props;
  const { question, answer, error, isBusy, isEmpty } = props.asked;
  const isRecorded = useContext(RecordedAnswers) !== null;
  if (isEmpty) return <div class={css}><p class="muted">{empty}</p></div>;
  return (
    <div class={css} aria-busy={isBusy || undefined} aria-live={isLive ? "polite" : undefined}>
      <Problem>{error}</Problem>
      {answer === undefined && error === undefined && <Skeleton />}
      {answer !== undefined && children(answer, question.body, question.about)}
      {answer !== undefined && isShared && !isRecorded && <Share path={question.path} body={question.body} answer={answer} />}
    </div>
  );
}
