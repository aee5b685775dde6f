// @ts-check
/** Asking the server, and saying in words what it refuses. */

import { writeAddress } from "./address.js";
import { element } from "./dom.js";
import { sharing } from "./sharing.js";

let key = sessionStorage.getItem("key") ?? "";

/** @type {WeakMap<AbortSignal, import("./sharing.js").Exchange>} the last request to a public route, by its signal */
const exchanges = new WeakMap();

/** What the server said no to. */
export class Refusal extends Error {}

/**
 * Ask a route for JSON: with a body it is a POST.
 * @param {string} path
 * @param {unknown} [body]
 * @param {AbortSignal} [signal]
 * @returns {Promise<any>}
 */
export async function ask(path, body, signal) {
  /** @type {Record<string, string>} */
  const headers = key ? { Authorization: `Bearer ${key}` } : {};
  if (body !== undefined) headers["Content-Type"] = "application/json";
  let response;
  try {
    response = await fetch(path, {
      method: body === undefined ? "GET" : "POST",
      headers,
      body: body === undefined ? undefined : JSON.stringify(body),
      signal,
    });
  } catch (error) {
    if (signal?.aborted) throw error;
    throw new Refusal("The server does not answer. Is it still running?");
  }
  if (response.status === 401) return askForKey(() => ask(path, body, signal));
  const answer = await response.json().catch(() => ({}));
  if (response.ok) {
    if (signal && body && !path.startsWith("explore/")) exchanges.set(signal, { path, body, answer, hasKey: key !== "" });
    return answer;
  }
  if (response.status === 429) {
    const seconds = response.headers.get("Retry-After");
    throw new Refusal(`The server is busy. Try again${seconds ? ` in ${seconds} s` : " in a moment"}.`);
  }
  throw new Refusal(answer.error ?? `The server answered ${response.status} ${response.statusText}`);
}

/** @type {Promise<void> | null} one question for all that wait */
let asking = null;

/**
 * Ask the person for the server's key, then go on.
 * @param {() => Promise<any>} again
 */
async function askForKey(again) {
  asking ??= new Promise((done) => {
    const box = element("input", { type: "password", id: "key", autocomplete: "current-password", required: true, pattern: "[!-~]+" });
    const form = element(
      "form",
      { method: "dialog" },
      element("label", { for: "key" }, key ? "This key is not right. Key of the server" : "Key of the server"),
      box,
      element("button", { type: "submit" }, "Go on"),
    );
    const dialog = element("dialog", { "aria-label": "Key of the server", cancel: (/** @type {Event} */ event) => event.preventDefault() }, form);
    dialog.addEventListener("close", () => {
      key = box.value;
      sessionStorage.setItem("key", key);
      dialog.remove();
      asking = null;
      done();
    });
    document.body.append(dialog);
    dialog.showModal();
  });
  await asking;
  return again();
}

/**
 * A place whose content is what was asked last: an older answer that comes later is dropped.
 * @param {HTMLElement} place
 */
export function answers(place) {
  /** @type {AbortController | undefined} */
  let current;
  /** @param {(signal: AbortSignal) => Promise<(Node | string)[]>} work */
  return async function show(work) {
    current?.abort();
    const own = (current = new AbortController());
    writeAddress();
    place.setAttribute("aria-busy", "true");
    try {
      const nodes = await work(own.signal);
      const exchange = exchanges.get(own.signal);
      if (own === current) place.replaceChildren(...nodes, ...(exchange ? [sharing(exchange)] : []));
    } catch (error) {
      if (own !== current || own.signal.aborted) return;
      if (!(error instanceof Refusal)) throw error;
      place.replaceChildren(element("p", { class: "error", role: "alert" }, error.message));
    } finally {
      if (own === current) place.removeAttribute("aria-busy");
    }
  };
}
