/** Classifiers: the fields of a text or a pair, the probability of each class, and the contribution of each word to one of them. */

import type { ComponentChildren } from "preact";
import { useContext } from "preact/hooks";
import { useKept } from "../address";
import { fixed, percent } from "../format";
import { examplesFor, isNumber, type LabelScore, predictedOf } from "../labels";
import { Answer, type Asked, useAnswer } from "./answer";
import { Attribution, type Explanation, largestContribution } from "./attribution";
import { Bars } from "./charts";
import { Flips } from "./flips";
import { Choice, Examples, TextField } from "./forms";
import { type Model, Models, RecordedAnswers, useModel } from "./models";

const MAX_BARS = 8;

/** Fields with examples that fit the labels of a model, and the input for a request; null while a text is missing. */
export function useClassified(name: string) {
  const model = useModel(name)!;
  const examples = examplesFor(model);
  const text = useKept("text", examples[0].text);
  const pair = useKept("pair", examples[0].pair ?? "");
  const takesPair = model.readsPairs !== false;
  const isWritten = text[0].trim() && (pair[0].trim() || !model.readsPairs);
  const input = !isWritten ? null : takesPair && pair[0] ? [text[0], pair[0]] : [text[0]];
  const fields = (
    <>
      <div class={takesPair ? "text-and-pair" : undefined}>
        <TextField label="Text" kept={text} />
        {takesPair && <TextField label={model.readsPairs ? "Second text" : "Second text, if there is one"} kept={pair} />}
      </div>
      <Examples all={examples} />
    </>
  );
  return { input, fields };
}

/** The prediction as text: labels with their probabilities, or the number of a regression. */
function textOf(scores: LabelScore[]): string {
  if (isNumber(scores)) return fixed(scores[0].score);
  return predictedOf(scores).map(({ label, score }) => `“${label}”, ${percent(score)}`).join("; ") || "no label: none is above its threshold";
}

/** Bars of labels, the predicted ones in bold. */
export function LabelBars({ scores, name, file }: { scores: LabelScore[]; name: string; file?: string }) {
  const predicted = predictedOf(scores);
  return <Bars rows={scores.map((entry) => ({ label: entry.label, share: entry.score, strong: predicted.includes(entry), tick: entry.threshold }))} name={name} file={file} />;
}

/** Other models with the same classes, such as two checkpoints of a task. */
function useModelsLike(name: string): Model[] {
  const models = useContext(Models);
  const classes = ({ labels }: Model) => [...labels].sort().join("\n");
  const own = useModel(name);
  return own ? models.filter((model) => model !== own && model.abilities.has("predict") && classes(model) === classes(own)) : [];
}

/** A select for a second model with the same classes; the address keeps its name, or "" for no second model. */
export function useSecond(model: string): [string, ComponentChildren] {
  const others = useModelsLike(model).map(({ name }) => name);
  const [kept, set] = useKept("second", "");
  const second = others.includes(kept) ? kept : "";
  return [second, others.length > 0 && <Choice label="Compare with" all={[["", "no other model"], ...others]} value={second} set={(name) => set(name, true)} />];
}

type Found = Omit<Explanation, "texts">;

/** The explanation by a model; no question without a text, a model or its gradients. */
function useExplanation(name: string | undefined, texts: string[], label: string): Asked<Found[]> {
  const model = useModel(name);
  const isAsked = model?.abilities.has("explain") && texts[0].trim();
  return useAnswer("explain", isAsked ? { model: model!.name, inputs: [texts], ...(label && { label }) } : null);
}

/** A card with a model's prediction for a text or a pair; `before` is the text as it was before an edit. */
function Explained({ model, texts, before, explained, largest, isNamed }: { model: string; texts: string[]; before?: string[]; explained: Asked<Found[]>; largest: number; isNamed: boolean }) {
  const isExplainable = useModel(model)!.abilities.has("explain");
  const isEmpty = !texts[0].trim();
  const isEdited = before !== undefined && JSON.stringify(before) !== JSON.stringify(texts);
  const predicted = useAnswer<LabelScore[][]>("predict", isEmpty ? null : { model, inputs: [texts] });
  const earlier = useAnswer<LabelScore[][]>("predict", isEdited ? { model, inputs: [before] } : null);
  return (
    <div class="card explained">
      {isNamed && <h3 class="model">{model}</h3>}
      <Answer asked={predicted} isLive isShared={!isExplainable}>
        {([scores]) => (
          <>
            <p class="answer">It says {textOf(scores)}</p>
            {isEdited && earlier.answer && <p class="note">Before your edit: {textOf(earlier.answer[0])}</p>}
            {!isNumber(scores) && <LabelBars scores={scores.slice(0, MAX_BARS)} name="Classes" />}
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
              <Attribution {...found} texts={inputs[0]} largest={largest} />
            </>
          )}
        </Answer>
      )}
    </div>
  );
}

/** The explanation of a text by one model or two; the address keeps the class that is explained. `apply` changes the text, `children` are other controls. */
export function Explanations({ models, texts, before, apply, children }: { models: string[]; texts: string[]; before?: string[]; apply: (texts: string[]) => void; children?: ComponentChildren }) {
  const [label, setLabel] = useKept("label", "");
  const own = useModel(models[0]);
  const isRecorded = useContext(RecordedAnswers) !== null; // of the predicted class alone
  const labels = own && own.abilities.has("explain") && !isRecorded ? own.labels : [];
  const explained = labels.includes(label) ? label : "";
  const found = [useExplanation(models[0], texts, explained), useExplanation(models[1], texts, explained)];
  const largest = largestContribution(found.flatMap(({ answer }) => answer ?? [])); // one scale for both
  return (
    <>
      {(labels.length > 1 || children) && (
        <p class="controls">
          {children}
          {labels.length > 1 && <Choice label="Explain" all={[["", "the most probable class"], ...labels]} value={explained} set={(value) => setLabel(value, true)} />}
        </p>
      )}
      <div class={models.length > 1 ? "side-by-side" : undefined}>
        {models.map((name, i) => <Explained key={name} model={name} texts={texts} before={before} explained={found[i]} largest={largest} isNamed={models.length > 1} />)}
      </div>
      {!isRecorded && texts[0].trim() && <Flips model={models[0]} texts={texts} apply={apply} />}
    </>
  );
}
