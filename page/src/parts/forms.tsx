/** Fields, examples and switches. */

import type { ComponentChildren } from "preact";
import { useContext, useId } from "preact/hooks";
import { type Kept, Preset } from "../address";
import chosen from "../examples.json";
import { textsOf } from "../texts";
import { noteTyping } from "../typing";
import { RecordedAnswers } from "./recorded";

/** A labeled text box that grows with its text. */
export function TextField({ label, kept: [value, set], rows = 1 }: { label: string; kept: Kept; rows?: number }) {
  const id = useId();
  const isRecorded = useContext(RecordedAnswers) !== null;
  const write = (event: { currentTarget: { value: string } }) => {
    noteTyping();
    set(event.currentTarget.value);
  };
  return (
    <div class="field">
      <label for={id}>{label}</label>
      <div class="growing" data-text={`${value} `}>
        <textarea id={id} rows={rows} dir="auto" autocomplete="off" spellcheck={false} readOnly={isRecorded} value={value} onInput={write} />
      </div>
    </div>
  );
}

/** Buttons that choose an example, outside of lessons; without a model only those with recorded answers. */
export function Examples<T>({ all, choose }: { all: readonly (readonly [string, T])[]; choose: (example: T) => void }) {
  const recorded = useContext(RecordedAnswers);
  if (useContext(Preset)) return null;
  const shown = recorded ? all.filter(([, example]) => textsOf(example).some((text) => recorded.texts.has(text))) : all;
  return (
    <p class="examples" role="group" aria-label="Examples">
      <span class="muted">Examples</span>
      {shown.map(([name, example]) => (
        <button type="button" class="chip" onClick={() => choose(example)}>{name}</button>
      ))}
    </p>
  );
}

/** The caption of an example, with its source and the model it was measured on; nothing for other texts and in lessons. */
export function Caption({ of }: { of?: { caption: string; source: string } }) {
  return of && !useContext(Preset) ? <p class="note">Measured on {chosen.model.name}: {of.caption} <cite>{of.source}</cite></p> : null;
}

/** A switch whose value is "1" or "". */
export function Switch({ label, kept: [value, set] }: { label: string; kept: Kept }) {
  const id = useId();
  return (
    <span class="switch">
      <input type="checkbox" id={id} checked={value === "1"} onChange={(event) => set(event.currentTarget.checked ? "1" : "", true)} />
      <label for={id}>{label}</label>
    </span>
  );
}

/** A labeled slider with its value as text. */
export function Slider(props: {
  label: string;
  min: number;
  max: number;
  value: number;
  text: string;
  shown?: string;
  set: (value: number) => void;
  children?: ComponentChildren;
}) {
  const id = useId();
  return (
    <p class="slider">
      {props.children}
      <label for={id}>{props.label}</label>
      <input
        type="range"
        id={id}
        min={props.min}
        max={props.max}
        value={props.value}
        aria-valuetext={props.text}
        onInput={(event) => props.set(Number(event.currentTarget.value))}
      />
      <output for={id}>{props.shown ?? props.text}</output>
    </p>
  );
}
