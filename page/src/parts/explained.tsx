/** Classifiers: the fields of a text or a pair, the probability of each class, the contribution of each word, and the words that flip a prediction. */

import type { ComponentChildren } from "preact";
import { useContext } from "preact/hooks";
import { useKept } from "../address";
import { fixed, percent } from "../format";
import { examplesFor, isNumber, type LabelScore, predictedOf } from "../labels";
import { Answer, type Asked, Problem, useAnswer } from "./answer";
import { Bars, Table } from "./charts";
import { Choice, Examples, Switch, TextField } from "./forms";
import { Attribution, type Explanation, largestContribution } from "./marked";
import { type Candidate, Models, RecordedAnswers, useModel } from "./models";
import { Command } from "./share";

const MAX_BARS = 8;
const WORD = /[\p{L}\p{N}][\p{L}\p{M}\p{N}'’-]*/gu;
const MAX_WORDS = 24;
const CANDIDATES = 5;
const SHOWN = 8;
const MASK = "[MASK]";

/** Fields with examples that fit the labels of a model, and the input for a request; null while a text is missing. */
export function useClassified(name: string) {
  const model = useModel(name)!;
  const examples = examplesFor(model);
  const text = useKept("text", examples[0].text);
  const pair = useKept("pair", examples[0].pair ?? "");
  const takesPair = model.reads_pairs !== false;
  const isWritten = text[0].trim() && (pair[0].trim() || !model.reads_pairs);
  const input = !isWritten ? null : takesPair && pair[0] ? [text[0], pair[0]] : [text[0]];
  const fields = (
    <>
      <div class={takesPair ? "text-and-pair" : undefined}>
        <TextField label="Text" kept={text} />
        {takesPair && <TextField label={model.reads_pairs ? "Second text" : "Second text, if there is one"} kept={pair} />}
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

export function LabelBars({ scores, name, file }: { scores: LabelScore[]; name: string; file?: string }) {
  const predicted = predictedOf(scores);
  return <Bars rows={scores.map((entry) => ({ label: entry.label, share: entry.score, strong: predicted.includes(entry), tick: entry.threshold }))} name={name} file={file} />;
}

/** A select for a second model with the same classes, such as another checkpoint; the address keeps its name, or "" for no second model. */
export function useSecond(model: string): [string, ComponentChildren] {
  const models = useContext(Models).filter(({ abilities }) => abilities.includes("predict"));
  const classesOf = (wanted: string) => models.find(({ name }) => name === wanted)?.labels.toSorted().join("\n");
  const others = models.map(({ name }) => name).filter((name) => name !== model && classesOf(name) === classesOf(model));
  const [kept, set] = useKept("second", "");
  const second = others.includes(kept) ? kept : "";
  return [second, others.length > 0 && <Choice label="Compare with" all={[["", "no other model"], ...others]} value={second} set={set} />];
}

type Found = Omit<Explanation, "texts">;

/** The explanation by a model; no question without a text, a model or its gradients. */
function useExplanation(name: string | undefined, texts: string[], label: string): Asked<Found[]> {
  const model = useModel(name);
  const isAsked = model?.abilities.includes("explain") && texts[0].trim();
  return useAnswer("explain", isAsked ? { model: model!.name, inputs: [texts], ...(label && { label }) } : null);
}

/** A card with a model's prediction for a text or a pair; `before` is the text as it was before an edit. */
function Explained({ model, texts, before, explained, largest, isNamed }: { model: string; texts: string[]; before?: string[]; explained: Asked<Found[]>; largest: number; isNamed: boolean }) {
  const isExplainable = useModel(model)!.abilities.includes("explain");
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
      {!isEmpty && isExplainable && <Answer asked={explained} class="later">{([found], { inputs }) => <Attribution {...found} texts={inputs[0]} largest={largest} isTitled />}</Answer>}
    </div>
  );
}

/** The explanation of a text by one model or two; the address keeps the class that is explained. `apply` changes the text, `children` are other controls. */
export function Explanations({ models, texts, before, apply, children }: { models: string[]; texts: string[]; before?: string[]; apply: (texts: string[]) => void; children?: ComponentChildren }) {
  const [label, setLabel] = useKept("label", "");
  const own = useModel(models[0]);
  const isRecorded = useContext(RecordedAnswers) !== null; // of the predicted class alone
  const labels = own && own.abilities.includes("explain") && !isRecorded ? own.labels : [];
  const explained = labels.includes(label) ? label : "";
  const found = [useExplanation(models[0], texts, explained), useExplanation(models[1], texts, explained)];
  const largest = largestContribution(found.flatMap(({ answer }) => answer ?? [])); // one scale for both
  return (
    <>
      {(labels.length > 1 || children) && (
        <p class="controls">
          {children}
          {labels.length > 1 && <Choice label="Explain" all={[["", "the most probable class"], ...labels]} value={explained} set={setLabel} />}
        </p>
      )}
      <div class={models.length > 1 ? "side-by-side" : undefined}>
        {models.map((name, i) => <Explained key={name} model={name} texts={texts} before={before} explained={found[i]} largest={largest} isNamed={models.length > 1} />)}
      </div>
      {!isRecorded && texts[0].trim() && <Flips model={models[0]} texts={texts} apply={apply} />}
    </>
  );
}

interface Place {
  word: string;
  text: number;
  start: number;
}

interface Changed extends Place {
  texts: string[];
  by: string;
}

function withWord(texts: string[], { text, word, start }: Place, by: string): string[] {
  return texts.map((whole, i) => (i === text ? whole.slice(0, start) + by + whole.slice(start + word.length) : whole));
}

/** A switch, and the changes of one word that change the answer most; a button puts one into the text. */
function Flips({ model, texts, apply }: { model: string; texts: string[]; apply: (texts: string[]) => void }) {
  const isOn = useKept("flips", "");
  const filler = useContext(Models).find(({ abilities }) => abilities.includes("fill"))?.name;
  return (
    <div class="card">
      <p class="controls"><Switch label="What flips it: other words in place of each" kept={isOn} /></p>
      {isOn[0] && (filler ? (
        <Flipped model={model} filler={filler} texts={texts} apply={apply} />
      ) : (
        <p class="note">The words come from a pre-trained model. Serve one beside it: <Command>cloze serve -m RUN -m cloze-mini</Command></p>
      ))}
    </div>
  );
}

function Flipped({ model, filler, texts, apply }: { model: string; filler: string; texts: string[]; apply: (texts: string[]) => void }) {
  const all = texts.flatMap((text, i): Place[] => [...text.replaceAll(MASK, (mask) => " ".repeat(mask.length)).matchAll(WORD)].map(({ 0: word, index }) => ({ word, text: i, start: index })));
  const places = all.slice(0, MAX_WORDS);
  const masked = places.map((place) => withWord(texts, place, MASK)[place.text]);
  const filled = useAnswer<Candidate[][][]>("fill", places.length ? { model: filler, inputs: masked, top_k: CANDIDATES, long_texts: "windows" } : null, { texts, places });
  const asked = filled.question.about as { texts: string[]; places: Place[] } | undefined;
  const changes = filled.isBusy || !filled.answer || !asked ? [] : asked.places.flatMap((place, i) => changesOf(asked.texts, place, filled.answer![i]));
  const predicted = useAnswer<LabelScore[][]>("predict", changes.length ? { model, inputs: [texts, ...changes.map(({ texts }) => texts)] } : null, changes);
  return (
    <>
      <p class="note">
        {all.length > MAX_WORDS ? `Each of the first ${MAX_WORDS} of ${all.length} words` : "Each word"} is masked, <span class="model">{filler}</span> fills it in, and the text with one of its {CANDIDATES} first words is predicted again.
      </p>
      <Problem>{filled.error}</Problem>
      {!filled.error && <Answer asked={predicted} isLive>{([before, ...after], _, changes: Changed[]) => <Changes before={before} after={after} changes={changes} apply={apply} />}</Answer>}
    </>
  );
}

/** The texts with a word replaced by each candidate that is another word; the text may have masks of its own. */
function changesOf(texts: string[], place: Place, masks: Candidate[][]): Changed[] {
  const number = texts[place.text].slice(0, place.start).split(MASK).length - 1;
  const isUpper = place.word[0] !== place.word[0].toLowerCase();
  return (masks[number] ?? []).filter(({ token }) => /^[\p{L}\p{N}]/u.test(token) && token.toLowerCase() !== place.word.toLowerCase()).map(({ token }) => {
    const by = isUpper ? token[0].toUpperCase() + token.slice(1) : token;
    return { ...place, by, texts: withWord(texts, place, by) };
  });
}

function Changes({ before, after, changes, apply }: { before: LabelScore[]; after: LabelScore[][]; changes: Changed[]; apply: (texts: string[]) => void }) {
  const [first] = before;
  const isScore = isNumber(before);
  const nameOf = (scores: LabelScore[]) => predictedOf(scores).map(({ label }) => label).sort().join(", ") || "no label";
  const rows = changes.map((change, i) => {
    const share = after[i].find(({ label }) => label === first.label)?.score ?? 0;
    return { change, share, name: nameOf(after[i]), flips: !isScore && nameOf(after[i]) !== nameOf(before) };
  });
  rows.sort((a, b) => Number(b.flips) - Number(a.flips) || Math.abs(b.share - first.score) - Math.abs(a.share - first.score));
  const flips = rows.filter(({ flips }) => flips).length;
  const shown = (share: number) => (isScore ? fixed(share) : percent(share));
  const button = ({ by, texts }: Changed) => <button type="button" class="link" aria-label={`Put in ${by}`} onClick={() => apply(texts)}><bdi>{by}</bdi></button>;
  return (
    <>
      <p class="remark">
        {isScore ? "The largest changes of the number" : flips ? `${flips} of ${rows.length} changes of one word flip “${nameOf(before)}”` : `None of ${rows.length} changes of one word flips “${nameOf(before)}”. The largest changes`}:
      </p>
      <Table
        class="numbers flips"
        name="Changes of one word"
        head={["word", "instead", "answer", `${isScore ? "number" : `“${first.label}”`}, was ${shown(first.score)}`]}
        rows={rows.slice(0, SHOWN).map(({ change, share, name, flips }) => ({ strong: flips, cells: [change.word, button(change), isScore ? shown(share) : name, shown(share)] }))}
      />
    </>
  );
}
