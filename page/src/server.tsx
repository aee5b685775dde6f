/** Requests to the server: retries, error messages, and a dialog for the API key. */

import { render } from "preact";
import { useEffect, useLayoutEffect, useRef, useState } from "preact/hooks";

const storedKey = () => sessionStorage.getItem("key") ?? ""; // a function: HTML files import this module, and may have no storage

/** An error response, with a message for the reader. */
export class Refusal extends Error {}

const RETRY_SECONDS = 2;
const DELAY_SECONDS = 10; // beyond the deadline within which the server answers
const UNREACHABLE = new Set([502, 503]); // from a proxy, or from a server that is stopping
const watchers = new Set<(isDown: boolean) => void>();
let isDown = false;
let deadlineSeconds = 30;

/** Set the time in which the server answers. */
export function setDeadline(seconds: number): void {
  deadlineSeconds = seconds;
}

function setDown(value: boolean): void {
  isDown = value;
  watchers.forEach((watch) => watch(isDown));
}

export function useDown(): boolean {
  const [value, setValue] = useState(isDown);
  useLayoutEffect(() => {
    watchers.add(setValue);
    return () => void watchers.delete(setValue);
  }, []);
  return value;
}

/** A handler of rejected requests that reports the message of a refusal, and ignores requests that were dropped. */
export function refused(report: (message: string) => void, signal?: AbortSignal): (problem: unknown) => void {
  return (problem) => {
    if (signal?.aborted) return;
    if (!(problem instanceof Refusal)) throw problem;
    report(problem.message);
  };
}

/** Request JSON from a route, by POST if there is a body. Retries while the server is down. */
export async function ask(path: string, body?: unknown, signal?: AbortSignal): Promise<any> {
  return (await exchange(path, body, signal)).answer;
}

/** Request JSON, and the number of texts that the model did not read to their end. */
export async function exchange(path: string, body?: unknown, signal?: AbortSignal): Promise<{ answer: any; truncated: number }> {
  const key = storedKey();
  const headers: Record<string, string> = key ? { Authorization: `Bearer ${key}` } : {};
  if (body !== undefined) headers["Content-Type"] = "application/json";
  let response, text;
  const slow = setTimeout(() => setDown(true), 1000 * (deadlineSeconds + DELAY_SECONDS));
  try {
    const sent = body === undefined ? {} : { method: "POST", body: JSON.stringify(body) };
    response = await fetch(path, { ...sent, headers, signal });
    text = await response.text(); // an abort may raise here, too
  } catch (error) {
    if (signal?.aborted) {
      setDown(false); // another request says it again
      throw error;
    }
  } finally {
    clearTimeout(slow);
  }
  if (!response || text === undefined || UNREACHABLE.has(response.status)) {
    setDown(true);
    await new Promise((done) => setTimeout(done, 1000 * RETRY_SECONDS));
    signal?.throwIfAborted();
    return exchange(path, body, signal);
  }
  setDown(false);
  if (response.status === 401) {
    await askForKey();
    return exchange(path, body, signal);
  }
  const answer = parse(text);
  if (response.ok && answer !== null) return { answer, truncated: Number(response.headers.get("X-Truncated-Texts") ?? 0) };
  if (response.status === 429) {
    const seconds = response.headers.get("Retry-After");
    throw new Refusal(`The server is busy. Try again${seconds ? ` in ${seconds} s` : " in a moment"}.`);
  }
  throw new Refusal(answer?.error ?? `The server answered ${response.status} ${response.statusText}`);
}

/** Parse JSON; null for anything else, such as the error page of a proxy. */
function parse(text: string): any {
  try {
    return JSON.parse(text);
  } catch {
    return null;
  }
}

export function hasKey(): boolean {
  return storedKey() !== "";
}

let asking: Promise<void> | null = null; // one dialog for all waiting requests

function askForKey(): Promise<void> {
  asking ??= new Promise((done) => {
    const place = document.createElement("div");
    document.body.append(place);
    const finish = (given: string) => {
      sessionStorage.setItem("key", given);
      render(null, place);
      place.remove();
      asking = null;
      done();
    };
    render(<KeyDialog isWrong={hasKey()} finish={finish} />, place);
  });
  return asking;
}

function KeyDialog({ isWrong, finish }: { isWrong: boolean; finish: (key: string) => void }) {
  const dialog = useRef<HTMLDialogElement>(null);
  const box = useRef<HTMLInputElement>(null);
  useEffect(() => dialog.current?.showModal(), []);
  return (
    <dialog ref={dialog} aria-label="Key of the server" onCancel={(event) => event.preventDefault()} onClose={() => finish(box.current!.value)}>
      <form method="dialog">
        <label for="key">{isWrong ? "This key is not right. Key of the server" : "Key of the server"}</label>
        <input ref={box} type="password" id="key" autocomplete="current-password" required pattern="[!-~]+" />
        <button type="submit">Continue</button>
      </form>
    </dialog>
  );
}
