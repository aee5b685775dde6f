/**
 * The address of a view, as in #fill?text=… or #lesson=3&step=2: its values are in the fragment, which browsers do not send to servers.
 *
 * All views but the lessons share the sentence, the second sentence and the model that was chosen last.
 */

import { createContext } from "preact";
import { useContext, useEffect, useReducer } from "preact/hooks";
import { RecordedAnswers } from "./parts/models";

type Values = Record<string, string>;

const WRITE_AFTER_MS = 200;
const RECENT_MS = 50;
const LESSON = "lesson";
const SENTENCE = ["text", "pair"];
const OF_THE_SENTENCE = ["hide", "token", "at", "from", "to", "start", "masked"]; // words and tokens by their numbers
const remembered = new Map<string, Values>();
let sentence: Values = {};
let model: Values = {};
const listeners = new Set<() => void>();
let place = read();
let timer = 0;
let changedAt = -Infinity;

function read(): { view: string; values: Values } {
  const [view, query = ""] = location.hash.slice(1).replace(/^lesson=/, `${LESSON}?$&`).split(/\?(.*)/s);
  const values = Object.fromEntries(new URLSearchParams(query));
  keep(view, values);
  return { view, values };
}

function keep(view: string, values: Values): void {
  remembered.set(view, values);
  if (values.model) model = { model: values.model };
  if (view !== LESSON) sentence = Object.fromEntries(SENTENCE.filter((key) => values[key]?.trim()).map((key) => [key, values[key]]));
}

function write(how: "pushState" | "replaceState"): void {
  clearTimeout(timer);
  timer = 0;
  const address = addressOf(place.view);
  if (address !== location.hash) history[how](null, "", address || "#");
}

/** The fragment of a view with the values that it had last, and the sentence of the view that is open. */
export function addressOf(view: string, changes: Values = {}): string {
  let values = remembered.get(view) ?? {};
  if (view !== place.view && view !== LESSON && sentence.text !== undefined) {
    const isOther = sentence.text !== values.text;
    const isKept = (key: string) => !(SENTENCE.includes(key) || (isOther && OF_THE_SENTENCE.includes(key)));
    values = { ...sentence, ...Object.fromEntries(Object.entries(values).filter(([key]) => isKept(key))) };
  }
  const query = new URLSearchParams({ ...values, ...(view === place.view ? {} : model), ...changes }).toString();
  return `#${view}${query ? `?${query}` : ""}`.replace(`${LESSON}?lesson=`, "lesson=");
}

/** Write the last changes into the address now, before the view changes. */
export function writeAddress(): void {
  if (timer) write("replaceState");
}

/** Open a view; the address named none. */
export function setView(view: string): void {
  place = { ...place, view };
  keep(view, place.values);
  listeners.forEach((listener) => listener());
  write("replaceState");
}

/**
 * Change values of the view; undefined removes one. Another text removes the values that count its words or tokens.
 *
 * Choices are steps of the history (isStep), which Back undoes; typing and pointing replace the address.
 */
export function setValues(changes: Record<string, string | undefined>, isStep = false): void {
  if (isStep) writeAddress();
  else changedAt = performance.now();
  const values = { ...place.values };
  if ("text" in changes) OF_THE_SENTENCE.forEach((key) => delete values[key]);
  for (const [key, value] of Object.entries(changes)) {
    if (value === undefined) delete values[key];
    else values[key] = value;
  }
  place = { ...place, values };
  keep(place.view, values);
  listeners.forEach((listener) => listener());
  if (isStep) write("pushState");
  else if (!timer) timer = window.setTimeout(() => write("replaceState"), WRITE_AFTER_MS);
}

/** Whether the reader is typing or pointing; requests then wait for a pause. */
export function isTyping(): boolean {
  return performance.now() - changedAt < RECENT_MS;
}

function follow(): void {
  clearTimeout(timer);
  timer = 0;
  place = read();
  listeners.forEach((listener) => listener());
}

window.addEventListener("hashchange", follow);
window.addEventListener("popstate", follow);

/** The view and its values; the component is drawn again when they change. */
export function usePlace(): { view: string; values: Values } {
  const [, draw] = useReducer((count: number) => count + 1, 0);
  useEffect(() => {
    const redraw = () => draw(0);
    listeners.add(redraw);
    return () => void listeners.delete(redraw);
  }, []);
  return place;
}

export type Kept = readonly [string, (value: string, isStep?: boolean) => void];

/** Initial values of a view within a lesson; null outside. */
export const Preset = createContext<Values | null>(null);

/**
 * A value of the view that its address keeps where it differs from the initial one.
 *
 * All views share "text" and "pair"; an example of a view may have a second text. Without a model only recorded texts are shown.
 */
export function useKept(key: string, initial: string): Kept {
  const { values } = usePlace();
  const preset = useContext(Preset);
  const recorded = useContext(RecordedAnswers);
  if (SENTENCE.includes(key)) {
    const all = { ...preset, ...values };
    const shown = recorded && !recorded.texts.has(all.text) ? {} : all;
    const start = key === "pair" && shown.text !== undefined ? "" : initial;
    return [shown[key] ?? start, (value, isStep) => setValues({ [key]: value }, isStep)];
  }
  const start = values.text !== undefined && OF_THE_SENTENCE.includes(key) ? initial : (preset?.[key] ?? initial);
  return [values[key] ?? start, (value, isStep) => setValues({ [key]: value === start ? undefined : value }, isStep)];
}
