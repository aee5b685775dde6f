/** The address of a view, as in #fill?text=…: its values are in the fragment, which browsers do not send to servers. */

import { useEffect, useReducer } from "preact/hooks";

type Values = Record<string, string>;

const WRITE_AFTER_MS = 200;
const remembered = new Map<string, Values>();
const listeners = new Set<() => void>();
let place = read();
let timer = 0;

function read(): { view: string; values: Values } {
  const hash = location.hash.slice(1);
  const query = hash.indexOf("?");
  const view = query < 0 ? hash : hash.slice(0, query);
  const values = query < 0 ? {} : Object.fromEntries(new URLSearchParams(hash.slice(query + 1)));
  remembered.set(view, values);
  return { view, values };
}

function write(how: "pushState" | "replaceState"): void {
  clearTimeout(timer);
  timer = 0;
  const address = addressOf(place.view);
  if (address !== location.hash) history[how](null, "", address || "#");
}

/** The fragment of a view with the values that it had last. */
export function addressOf(view: string): string {
  const query = new URLSearchParams(remembered.get(view)).toString();
  return `#${view}${query ? `?${query}` : ""}`;
}

/** Write what was typed last into the address now, before the view changes. */
export function writeAddress(): void {
  if (timer) write("replaceState");
}

/** Name the view where the address names none. */
export function setDefaultView(view: string): void {
  if (place.view) return;
  place = { ...place, view };
  remembered.set(view, place.values);
  write("replaceState");
}

/**
 * Change values of the view; undefined removes one.
 *
 * A step of the history is for choices that one wants to take back; typing and pointing replace the address.
 */
export function setValues(changes: Record<string, string | undefined>, isStep = false): void {
  if (isStep) writeAddress();
  const values = { ...place.values };
  for (const [key, value] of Object.entries(changes)) {
    if (value === undefined) delete values[key];
    else values[key] = value;
  }
  place = { ...place, values };
  remembered.set(place.view, values);
  listeners.forEach((listener) => listener());
  if (isStep) write("pushState");
  else if (!timer) timer = window.setTimeout(() => write("replaceState"), WRITE_AFTER_MS);
}

/** The view and its values; the component is drawn again when they change. */
export function usePlace(): { view: string; values: Values } {
  const [, draw] = useReducer((count: number) => count + 1, 0);
  useEffect(() => {
    const follow = () => {
      clearTimeout(timer);
      timer = 0;
      place = read();
      draw(0);
    };
    const redraw = () => draw(0);
    listeners.add(redraw);
    window.addEventListener("hashchange", follow);
    window.addEventListener("popstate", follow);
    return () => {
      listeners.delete(redraw);
      window.removeEventListener("hashchange", follow);
      window.removeEventListener("popstate", follow);
    };
  }, []);
  return place;
}

export type Kept = readonly [string, (value: string, isStep?: boolean) => void];

/** A value of the view that its address keeps where it differs from the initial one. */
export function useKept(key: string, initial: string): Kept {
  const { values } = usePlace();
  return [values[key] ?? initial, (value, isStep) => setValues({ [key]: value === initial ? undefined : value }, isStep)];
}
