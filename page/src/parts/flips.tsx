/** What flips a prediction: words that a pre-trained model puts in place of each word, and the answer for each. */

import { useContext } from "preact/hooks";
import { useKept } from "../address";
import { fixed, percent } from "../format";
import { type LabelScore, predictedOf } from "../labels";
import { Answer, useAnswer } from "./answer";
import { Switch } from "./forms";
import { type Candidate, Models } from "./models";
import { Command } from "./share";

const WORD = /[\p{L}\p{N}][\p{L}\p{M}\p{N}'’-]*/gu;
const MAX_WORDS = 24;
const CANDIDATES = 5;
const SHOWN = 8;
const MASK = "[MASK]";

/** A word of one of the texts. */
interface Place {
  word: string;
  text: number;
  start: number;
}

interface Changed extends Place {
  texts: string[];
  by: string;
  /** Of the word that was put in, by the pre-trained model. */
  probability: number;
}

function withWord(texts: string[], { text, word, start }: Place, by: string): string[] {
  return texts.map((whole, i) => (i === text ? whole.slice(0, start) + by + whole.slice(start + word.length) : whole));
}

/** A switch, and the changes of one word that change the answer most; a button puts one into the text. */
export function Flips({ model, texts, apply }: { model: string; texts: string[]; apply: (texts: string[]) => void }) {
  const isOn = useKept("flips", "");
  const filler = useContext(Models).find(({ abilities }) => abilities.has("fill"))?.name;
  return (
    <div class="card">
      <p class="controls"><Switch label="What flips it: other words in place of each" kept={isOn} /></p>
      {isOn[0] && (filler ? (
        <Found model={model} filler={filler} texts={texts} apply={apply} />
      ) : (
        <p class="note">The words come from a pre-trained model. Serve one beside it: <Command>cloze serve -m RUN -m cloze-mini</Command></p>
      ))}
    </div>
  );
}

function Found({ model, filler, texts, apply }: { model: string; filler: string; texts: string[]; apply: (texts: string[]) => void }) {
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
      {filled.error !== undefined && <p class="error" role="alert">{filled.error}</p>}
      {!filled.error && <Answer asked={predicted} isLive>{([before, ...after], _, changes: Changed[]) => <Table before={before} after={after} changes={changes} apply={apply} />}</Answer>}
    </>
  );
}

/** The texts with a word replaced by each candidate that is another word; the text may have masks of its own. */
function changesOf(texts: string[], place: Place, masks: Candidate[][]): Changed[] {
  const number = texts[place.text].slice(0, place.start).split(MASK).length - 1;
  const isUpper = place.word[0] !== place.word[0].toLowerCase();
  return (masks[number] ?? []).filter(({ token }) => /^[\p{L}\p{N}]/u.test(token) && token.toLowerCase() !== place.word.toLowerCase()).map(({ token, probability }) => {
    const by = isUpper ? token[0].toUpperCase() + token.slice(1) : token;
    return { ...place, by, probability, texts: withWord(texts, place, by) };
  });
}

function Table({ before, after, changes, apply }: { before: LabelScore[]; after: LabelScore[][]; changes: Changed[]; apply: (texts: string[]) => void }) {
  const isNumber = before.length === 1 && before[0].label === "score";
  const [first] = before;
  const shareOf = (scores: LabelScore[]) => scores.find(({ label }) => label === first.label)?.score ?? 0;
  const nameOf = (scores: LabelScore[]) => predictedOf(scores).map(({ label }) => label).sort().join(", ") || "no label";
  const rows = changes.map((change, i) => ({ change, share: shareOf(after[i]), name: nameOf(after[i]), flips: !isNumber && nameOf(after[i]) !== nameOf(before) }));
  rows.sort((a, b) => Number(b.flips) - Number(a.flips) || Math.abs(b.share - first.score) - Math.abs(a.share - first.score));
  const flips = rows.filter(({ flips }) => flips).length;
  const shown = (share: number) => (isNumber ? fixed(share) : percent(share));
  return (
    <>
      <p class="remark">
        {isNumber ? "The largest changes of the number" : flips ? `${flips} of ${rows.length} changes of one word flip “${nameOf(before)}”` : `None of ${rows.length} changes of one word flips “${nameOf(before)}”. The largest changes`}:
      </p>
      <table class="numbers flips" aria-label="Changes of one word">
        <thead><tr>{["word", "instead", "answer", isNumber ? `number, was ${shown(first.score)}` : `“${first.label}”, was ${shown(first.score)}`].map((name) => <th scope="col">{name}</th>)}</tr></thead>
        <tbody>
          {rows.slice(0, SHOWN).map(({ change, share, name, flips }) => (
            <tr class={flips ? "strong" : undefined}>
              <th scope="row" dir="auto">{change.word}</th>
              <td><button type="button" class="link" aria-label={`Put in ${change.by}`} onClick={() => apply(change.texts)}><bdi>{change.by}</bdi></button></td>
              <td>{isNumber ? shown(share) : name}</td>
              <td>{shown(share)}</td>
            </tr>
          ))}
        </tbody>
      </table>
    </>
  );
}
