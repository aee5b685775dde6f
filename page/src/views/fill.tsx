/** Fill: hide words of a sentence, and see what the model would put there, from both sides or from the left alone. */

import { useKept } from "../address";
import chosen from "../examples.json";
import { isMask, moveFocus, percent } from "../format";
import { Answer, Bars, type Candidate, candidateRows, Caption, Examples, MAX_CHARACTERS, parts, Switch, TextField, useAnswer } from "../parts";

const MASK = "[MASK]";
const EMOJI = /\p{RI}{2}|\p{ExtPict}[\p{M}\p{EMod}]*(?:\u200d\p{ExtPict}[\p{M}\p{EMod}]*)*/u; // flags and families are one
const WORD = new RegExp(`\\[mask\\]|<mask>|[\\p{L}\\p{N}][\\p{L}\\p{M}\\p{N}]*|${EMOJI.source}|[^\\s]`, "giu");
const TOP = 8;
const LONG = 220; // characters from which the type shrinks

export const FillView = parts({
  title: "Fill in the blank",
  lead: "BERT’s first pre-training task: name the hidden word from the words on both sides. Click a word to hide it, or to show it again.",
  needs: "fill",
  Body: Fill,
});

interface Word {
  text: string;
  start: number;
  end: number;
  isHidden: boolean;
}
function Fill({ model }: { model: string }) {
  const text = useKept("text", chosen.fill[0].text);
  const [hide, setHide] = useKept("hide", "");
  const left = useKept("left", "");
  const words = wordsOf(text[0].length > MAX_CHARACTERS ? "" : text[0], new Set(hide ? hide.split(",").map(Number) : []));
  const hidden = words.filter((word) => word.isHidden);
  const inputs = [withMasks(text[0], words), ...(left[0] ? hidden.map((word) => withMasks(text[0], words, word.end)) : [])];
  const asked = useAnswer<Candidate[][][]>("fill", hidden.length ? { model, inputs, top_k: TOP, long_texts: "windows" } : null, hidden);
  const toggle = (word: Word, number: number) => {
    if (isMask(word.text)) return; // a blank has nothing to show
    const others = words.flatMap((other, i) => (other.isHidden && !isMask(other.text) && i !== number ? [i] : []));
    setHide([...others, ...(word.isHidden ? [] : [number])].sort((a, b) => a - b).join(","), true);
  };
  return (
    <>
      <Sentence text={text[0]} words={words} toggle={toggle} />
      <Caption all={chosen.fill} text={text[0]} />
      <TextField label="Your own sentence" kept={text} />
      <Examples all={chosen.fill} />
      <p><Switch label="Also mask the words after each blank" kept={left} /></p>
      <Answer asked={asked} class="masks" isLive empty="Nothing is hidden. Click a word above.">
        {([full, ...alone], body, asked: Word[]) =>
          asked.map((word, i) => <Blank word={word} number={i + 1} full={full[i]} left={body.inputs.length > 1 ? alone[i]?.[i] : undefined} />)
        }
      </Answer>
    </>
  );
}

function wordsOf(text: string, hidden: Set<number>): Word[] {
  return [...text.matchAll(WORD)].map(({ 0: word, index: start }, i) => ({ text: word, start, end: start + word.length, isHidden: isMask(word) || hidden.has(i) }));
}

/** The text before a word, from the word before it on. */
function between(text: string, words: Word[], i: number): string {
  return text.slice(words[i - 1]?.end ?? 0, words[i]?.start);
}

/** The words as buttons, with the spaces between them. */
function Sentence({ text, words, toggle }: { text: string; words: Word[]; toggle: (word: Word, number: number) => void }) {
  const size = text.length > LONG ? Math.max(0.5, LONG / text.length) : 1;
  return (
    <div class="sentence" dir="auto" role="group" aria-label="The sentence, word by word" onKeyDown={moveFocus} style={{ "--size": size }}>
      {words.map((word, i) => (
        <>
          {between(text, words, i)}
          <button
            type="button"
            class="word"
            aria-pressed={word.isHidden}
            tabIndex={i ? -1 : 0}
            aria-label={isMask(word.text) ? "a blank" : word.text}
            title={word.isHidden ? "Show this word" : "Hide this word"}
            onClick={() => toggle(word, i)}
          >
            {isMask(word.text) ? "\u2003\u2003" : word.text}
          </button>
        </>
      ))}
    </div>
  );
}

/** The sentence with a mask for each hidden word and for each word from an offset on. */
function withMasks(text: string, words: Word[], from = text.length): string {
  const parts = words.map((word, i) => between(text, words, i) + (word.isHidden || word.start >= from ? MASK : word.text));
  return parts.join("") + between(text, words, words.length);
}

function Blank({ word, number, full, left }: { word: Word; number: number; full: Candidate[]; left?: Candidate[] }) {
  const title = <>Blank {number}{!isMask(word.text) && <> · you hid “<bdi>{word.text}</bdi>”</>}</>;
  const rows = (candidates: Candidate[]) => candidateRows(candidates, (token) => token.toLowerCase() === word.text.toLowerCase());
  if (!left) return <div class="card"><h3>{title}</h3><Bars rows={rows(full)} name={`Blank ${number}`} file={`blank-${number}`} /></div>;
  const [both, alone] = [full[0], left[0]];
  return (
    <div class="card wide">
      <h3>{title}</h3>
      <div class="columns">
        <div><p class="note">With the words on both sides</p><Bars rows={rows(full)} name="With the words on both sides" file={`blank-${number}`} /></div>
        <div><p class="note">With the words before it only</p><Bars rows={rows(left)} name="With the words before it only" file={`blank-${number}-left`} /></div>
      </div>
      <p class="remark">
        {both.token === alone.token
          ? `“${both.token}” is first both ways: ${percent(both.probability)} with the words after it, ${percent(alone.probability)} without.`
          : `The words after it change the first guess from “${alone.token}” (${percent(alone.probability)}) to “${both.token}” (${percent(both.probability)}).`}
      </p>
      <p class="note">Each word after it is replaced by a mask. BERT was trained with 15% of the words masked, so a long run of masks is unusual for it.</p>
    </div>
  );
}
