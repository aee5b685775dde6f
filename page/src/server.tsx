/** Asking the server, and saying in words what it refuses. */

import { render } from "preact";
import type { ComponentChildren, JSX } from "preact";
import { useEffect, useRef, useState } from "preact/hooks";
import { Share } from "./parts/share";
import { isTyping } from "./typing";

let key = sessionStorage.getItem("key") ?? "";

/** A refusal of the server, in a sentence to show. */
export class Refusal extends Error {}

/** Ask a route for JSON: with a body it is a POST. */
export async function ask(path: string, body?: unknown, signal?: AbortSignal): Promise<any> {
  const headers: Record<string, string> = key ? { Authorization: `Bearer ${key}` } : {};
  if (body !== undefined) headers["Content-Type"] = "application/json";
  let response, text;
  try {
    response = await fetch(path, {
      method: body === undefined ? "GET" : "POST",
      headers,
      body: body === undefined ? undefined : JSON.stringify(body),
      signal,
    });
    text = await response.text(); // a question that is dropped may end here, too
  } catch (error) {
    if (signal?.aborted) throw error;
    throw new Refusal("The server does not answer. Is it still running?");
  }
  if (response.status === 401) {
    await askForKey();
    return ask(path, body, signal);
  }
  const answer = parse(text);
  if (response.ok && answer !== null) return answer;
  if (response.status === 429) {
    const seconds = response.headers.get("Retry-After");
    throw new Refusal(`The server is busy. Try again${seconds ? ` in ${seconds} s` : " in a moment"}.`);
  }
  throw new Refusal(answer?.error ?? `The server answered ${response.status} ${response.statusText}`);
}

/** The value of a JSON text; null for another text, as a proxy sends. */
function parse(text: string): any {
  try {
    return JSON.parse(text);
  } catch {
    return null;
  }
}

export function hasKey(): boolean {
  return key !== "";
}

let asking: Promise<void> | null = null; // one question for all requests that wait

function askForKey(): Promise<void> {
  asking ??= new Promise((done) => {
    const place = document.createElement("div");
    document.body.append(place);
    const finish = (given: string) => {
      key = given;
      sessionStorage.setItem("key", key);
      render(null, place);
      place.remove();
      asking = null;
      done();
    };
    render(<KeyDialog isWrong={key !== ""} finish={finish} />, place);
  });
  return asking;
}

function KeyDialog({ isWrong, finish }: { isWrong: boolean; finish: (key: string) => void }) {
  const dialog = useRef<HTMLDialogElement>(null);
  const box = useRef<HTMLInputElement>(null);
  useEffect(() => dialog.current?.showModal(), []);
  return (
    <dialog
      ref={dialog}
      aria-label="Key of the server"
      onCancel={(event) => event.preventDefault()}
      onClose={() => finish(box.current?.value ?? "")}
    >
      <form method="dialog">
        <label for="key">{isWrong ? "This key is not right. Key of the server" : "Key of the server"}</label>
        <input ref={box} type="password" id="key" autocomplete="current-password" required pattern="[!-~]+" />
        <button type="submit">Continue</button>
      </form>
    </dialog>
  );
}

const ASK_AFTER_TYPING_MS = 350;
const MAX_CACHED = 60;
const cache = new Map<string, unknown>(); // of answers, the oldest first

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
  error?: string;
  isBusy: boolean;
  /** Whether there is nothing to ask about. */
  isEmpty: boolean;
}

/** Ask whenever the question changes; null asks nothing. An older answer is kept until the next one is there, with its question. */
export function useAnswer<T>(path: string, body: unknown | null, about?: unknown): Asked<T> {
  const wanted = body === null ? null : JSON.stringify([path, body]);
  const [state, setState] = useState<{ key: string | null; question: Question; answer?: T; error?: string }>({
    key: null,
    question: { path, body },
  });
  useEffect(() => {
    if (wanted === null || wanted === state.key) return;
    const question = { path, body, about };
    if (cache.has(wanted)) {
      setState({ key: wanted, question, answer: cache.get(wanted) as T });
      return;
    }
    const abort = new AbortController();
    const work = async () => {
      try {
        const answer = await ask(path, body, abort.signal);
        cache.set(wanted, answer);
        if (cache.size > MAX_CACHED) cache.delete(cache.keys().next().value!);
        if (!abort.signal.aborted) setState({ key: wanted, question, answer });
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

/** A place for an answer: marked as busy while a newer one is computed; under it what copies the request. */
export function Answer<T>({
  asked,
  children,
  class: css = "",
  isLive = false,
}: {
  asked: Asked<T>;
  children: (answer: T, body: any, about: any) => ComponentChildren;
  class?: string;
  isLive?: boolean;
}): JSX.Element {
  const { question, answer, error, isBusy, isEmpty } = asked;
  if (isEmpty) return <div class={css}><p class="muted">Nothing is written yet.</p></div>;
  return (
    <div class={css} aria-busy={isBusy || undefined} aria-live={isLive ? "polite" : undefined}>
      {error !== undefined && <p class="error" role="alert">{error}</p>}
      {answer !== undefined && children(answer, question.body, question.about)}
      {answer !== undefined && <Share path={question.path} body={question.body} answer={answer} />}
    </div>
  );
}
