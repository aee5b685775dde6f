/** Fields, examples and switches. */

import { useContext, useId } from "preact/hooks";
import { type Kept, Preset, setValues } from "../address";
import chosen from "../examples.json";
import { textsOf } from "../format";
import { RecordedAnswers } from "./models";

export function TextField({ label, kept: [value, set], rows = 1 }: { label: string; kept: Kept; rows?: number }) {
  const id = useId();
  const isRecorded = useContext(RecordedAnswers) !== null;
  const write = (event: { currentTarget: { value: string } }) => set(event.currentTarget.value);
  return (
    <div class="field">
      <label for={id}>{label}</label>
      <div class="growing" data-text={`${value} `}>
        <textarea id={id} rows={rows} dir="auto" autocomplete="off" spellcheck={false} readOnly={isRecorded} value={value} onInput={write} />
      </div>
    </div>
  );
}

/** A text, or a pair of texts, to try. */
export interface Example {
  name: string;
  text: string;
  pair?: string;
  /** What the example shows of the model that it was chosen with. */
  caption?: string;
}

/** Buttons that choose an example, outside of lessons; without a model only those with recorded answers. */
export function Examples<T extends { name: string } = Example>({ all, choose = chooseTexts }: { all: readonly T[]; choose?: (example: any) => void }) {
  const recorded = useContext(RecordedAnswers);
  if (useContext(Preset)) return null;
  const shown = recorded ? all.filter((example) => textsOf(example).some((text) => recorded.texts.has(text))) : all;
  return (
    <p class="examples" role="group" aria-label="Examples">
      <span class="muted">Examples</span>
      {shown.map((example) => <button type="button" class="chip" onClick={() => choose(example)}>{example.name}</button>)}
    </p>
  );
}

function chooseTexts({ text, pair }: Example): void {
  setValues({ text, pair }, true);
}

/** The caption of a text that is an example, with the model it was measured on; nothing in lessons. */
export function Caption({ all, text, pair }: { all: Example[]; text: string; pair?: string }) {
  const of = all.find((example) => example.text === text && (pair === undefined || example.pair === pair));
  return of && !useContext(Preset) ? <p class="note">Measured on {chosen.model.name}: {of.caption} <cite>{chosen.source}</cite></p> : null;
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

export function Slider({ label, text, shown = text, set, ...bounds }: { label: string; min: number; max: number; value: number; text: string; shown?: string; set: (value: number) => void }) {
  const id = useId();
  return (
    <p class="slider">
      <label for={id}>{label}</label>
      <input type="range" id={id} {...bounds} aria-valuetext={text} onInput={(event) => set(Number(event.currentTarget.value))} />
      <output for={id}>{shown}</output>
    </p>
  );
}

interface Choices {
  /** Values, with their names where they have others. */
  all: readonly (string | readonly [string, string])[];
  value: string;
  set: Kept[1];
}

/** A select, with a name for screen readers or the ID of a label. */
export function Select({ name, id, all, value, set }: Choices & { name?: string; id?: string }) {
  const entries = all.map((entry) => (typeof entry === "string" ? [entry, entry] : entry));
  return (
    <select id={id} aria-label={name} value={value} onChange={(event) => set(event.currentTarget.value, true)}>
      {entries.map(([key, name]) => <option value={key}>{name}</option>)}
    </select>
  );
}

/** A select with its label. */
export function Choice({ label, ...choices }: Choices & { label: string }) {
  const id = useId();
  return <span class="choice"><label for={id}>{label}</label><Select id={id} {...choices} /></span>;
}
