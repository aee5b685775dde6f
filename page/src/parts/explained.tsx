/** The prediction of a model for a text: the probability of each class, and the contribution of each word to one of them. */

import type { ComponentChildren } from "preact";
import { useContext, useId } from "preact/hooks";
import { useKept } from "../address";
import { fixed, percent, positive } from "../format";
import { Answer, useAnswer } from "./answer";
import { type AttributedWord, Contributions, ShadedTexts } from "./attribution";
import { Bars } from "./charts";
import { type Model, Models } from "./models";
import { RecordedAnswers } from "./recorded";

const MAX_BARS = 8;

export interface LabelScore {
  label: string;
  score: number;
}

interface Explanation {
  explained: string;
  output: number;
  baseline_output: number;
  convergence_gap: number;
  steps: number;
  truncated: boolean;
  words: AttributedWord[];
}

/** The label that a model says, with its probability, or the number of a regression. */
export function saidOf([{ label, score }]: LabelScore[]): string {
  return label === "score" ? fixed(score) : `“${label}”, ${percent(score)}`;
}

/** Models that classify as another one does: two checkpoints of a task. */
function useModelsLike(name: string): Model[] {
  const models = useContext(Models);
  const classes = ({ labels }: Model) => [...labels].sort().join("\n");
  const own = models.find((model) => model.name === name);
  return own ? models.filter((model) => model !== own && model.abilities.has("predict") && classes(model) === classes(own)) : [];
}

/** A select for a second model with the same classes; the address keeps its name, or "" for no second model. */
export function useSecond(model: string): [string, ComponentChildren] {
  const others = useModelsLike(model).map(({ name }) => name);
  const [kept, set] = useKept("second", "");
  const second = others.includes(kept) ? kept : "";
  const all = [["", "no other model"], ...others.map((name) => [name, name] as const)] as const;
  return [second, others.length > 0 && <Choice label="Compare with" all={all} value={second} set={(name) => set(name, true)} />];
}

/** Which of some choices: a menu with a label. */
export function Choice({ label, all, value, set }: { label: string; all: readonly (readonly [string, string])[]; value: string; set: (value: string) => void }) {
  const id = useId();
  return (
    <span class="choice">
      <label for={id}>{label}</label>
      <select id={id} value={value} onChange={(event) => set(event.currentTarget.value)}>
        {all.map(([key, name]) => <option value={key}>{name}</option>)}
      </select>
    </span>
  );
}

/** A card with a model's prediction for a text or a pair; `before` is the text as it was before an edit. */
function Explained({ model, texts, label, before, isNamed }: { model: string; texts: string[]; label?: string; before?: string[]; isNamed: boolean }) {
  const isExplainable = useContext(Models).some(({ name, abilities }) => name === model && abilities.has("explain"));
  const isEmpty = !texts[0].trim();
  const isEdited = before !== undefined && JSON.stringify(before) !== JSON.stringify(texts);
  const predicted = useAnswer<LabelScore[][]>("predict", isEmpty ? null : { model, inputs: [texts] });
  const earlier = useAnswer<LabelScore[][]>("predict", isEdited ? { model, inputs: [before] } : null);
  const explained = useAnswer<Explanation[]>("explain", isEmpty || !isExplainable ? null : { model, inputs: [texts], ...(label && { label }) });
  return (
    <div class="card explained">
      {isNamed && <h3 class="model">{model}</h3>}
      <Answer asked={predicted} isLive isShared={!isExplainable}>
        {([scores]) => (
          <>
            <p class="answer">It says {saidOf(scores)}</p>
            {isEdited && earlier.answer && <p class="note">Before your edit: {saidOf(earlier.answer[0])}</p>}
            {scores[0].label !== "score" && (
              <Bars rows={scores.slice(0, MAX_BARS).map((each, i) => ({ label: each.label, share: each.score, strong: i === 0 }))} name="Classes" />
            )}
            {scores.length > MAX_BARS && <p class="note">{scores.length - MAX_BARS} more classes are less probable.</p>}
          </>
        )}
      </Answer>
      {!isEmpty && !isExplainable && <p class="note later">An exported graph or an int8 model has no gradients, and so no explanation.</p>}
      {!isEmpty && isExplainable && (
        <Answer asked={explained} class="later">
          {([found], { inputs }) => (
            <>
              <h3>Words for and against “{found.explained}”</h3>
              <ShadedTexts texts={inputs[0]} words={found.words} isTruncated={found.truncated} />
              {found.truncated && <p class="note">The text is longer than the model reads: the gray part does not count.</p>}
              <h3 class="later">Largest contributions</h3>
              <Contributions words={found.words} />
              <p class="remark">
                A text of masks scores {fixed(found.baseline_output)}, the words add {fixed(found.output - found.baseline_output)}: {fixed(found.output)}.{" "}
                {found.steps} steps, off by {positive(Math.abs(found.convergence_gap), 4)}.
              </p>
            </>
          )}
        </Answer>
      )}
    </div>
  );
}

/** The explanation of a text by one model or two; the address keeps the class that is explained. */
export function Explanations({ models, texts, before }: { models: string[]; texts: string[]; before?: string[] }) {
  const [label, setLabel] = useKept("label", "");
  const own = useContext(Models).find(({ name }) => name === models[0]);
  const isRecorded = useContext(RecordedAnswers) !== null; // of the predicted class alone
  const labels = own && own.abilities.has("explain") && !isRecorded ? own.labels : [];
  const explained = labels.includes(label) ? label : "";
  return (
    <>
      {labels.length > 1 && (
        <p class="controls">
          <Choice label="Explain" all={[["", "the predicted class"], ...labels.map((name) => [name, name] as const)]} value={explained} set={(value) => setLabel(value, true)} />
        </p>
      )}
      <div class={models.length > 1 ? "side-by-side" : undefined}>
        {models.map((name) => <Explained key={name} model={name} texts={texts} before={before} label={explained} isNamed={models.length > 1} />)}
      </div>
    </>
  );
}
