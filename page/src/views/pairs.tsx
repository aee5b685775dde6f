/** Pairs: two sentences that may follow each other, one word in several sentences, and sentences by their cosines. */

import { useState } from "preact/hooks";
import { useKept } from "../address";
import { linesOf, percent } from "../format";
import {
  Answer, Bars, Caption, Examples, HeatMap, largestOf, linearScale, nextSentenceRows, parts, Picture, range, Slider, SYMBOL_COUNT, symbolPath,
  TextField, useAnswer, useModel, useWidth,
} from "../parts";
import chosen from "../examples.json";

export const PairsView = parts(
  {
    name: "next",
    title: "Next sentence or not?",
    lead: "BERT’s second pre-training task: does sentence B follow sentence A in the text, or is it from another document?",
    needs: "next-sentence",
    Body: NextSentence,
  },
  {
    name: "sense",
    title: "One word in several contexts",
    lead: "The embedding table has one vector for a word. BERT computes another one in each context. Move the slider from the table through the layers, and see whether the meanings separate.",
    needs: "encode",
    Body: WordInContext,
  },
  {
    name: "similarity",
    title: "Similarity of sentences",
    lead: "The cosine of the vectors of each two sentences; 1 is the same direction.",
    needs: "embed",
    Body: Similarity,
  },
);

function NextSentence({ model }: { model: string }) {
  const all = chosen.next_sentence;
  const a = useKept("text", all[0].text);
  const b = useKept("pair", all[0].pair);
  const asked = useAnswer<number[]>("next-sentence", a[0].trim() && b[0].trim() ? { model, inputs: [[a[0], b[0]]] } : null);
  return (
    <>
      <div class="columns">
        <TextField label="Sentence A" kept={a} />
        <TextField label="Sentence B" kept={b} />
      </div>
      <Examples all={all} />
      <Caption all={all} text={a[0]} pair={b[0]} />
      <Answer asked={asked} class="card" isLive>
        {([share]) => <Bars rows={nextSentenceRows(share)} name="Next sentence" file="next-sentence" />}
      </Answer>
    </>
  );
}

const SENTENCES = [
  "A man is playing a guitar.",
  "Someone plays music on the street.",
  "The stock market fell sharply today.",
  "Shares lost a tenth of their value.",
  "A dog runs across the field.",
  "A puppy is racing over the grass.",
];

function Similarity({ model }: { model: string }) {
  const texts = useKept("texts", SENTENCES.join("\n"));
  const { is_sentence_encoder } = useModel(model)!;
  const inputs = linesOf(texts[0]);
  const asked = useAnswer<number[][]>("embed", inputs.length < 2 ? null : { model, inputs, normalize: true });
  const tokens = useAnswer<unknown[][]>("tokenize", asked.truncated ? { model, inputs: asked.question.body.inputs } : null);
  return (
    <>
      <TextField label="Sentences, one a line" kept={texts} rows={SENTENCES.length} />
      <Answer asked={asked} class="card" empty="Give two sentences or more, each on a line of its own.">
        {(vectors, body) => {
          const cosines = vectors.map((a) => vectors.map((b) => a.reduce((sum, value, i) => sum + value * b[i], 0)));
          return (
            <>
              <HeatMap names={body.inputs} rows={cosines} caption="Cosines of sentences" />
              <p class="remark" aria-live="polite">{closest(cosines)}</p>
              {!is_sentence_encoder && <p class="muted">This model was not trained for vectors of sentences: unrelated ones are similar, too.</p>}
              {!tokens.isBusy && tokens.answer && asked.truncated! > 0 && <p class="note">{cut(tokens.answer, asked.truncated!)}</p>}
            </>
          );
        }}
      </Answer>
    </>
  );
}

/** Name the truncated texts, which are those with the most tokens: the limit is the same for all. */
function cut(tokens: unknown[][], truncated: number): string {
  const longest = range(tokens.length).sort((a, b) => tokens[b].length - tokens[a].length);
  const numbers = longest.slice(0, truncated).sort((a, b) => a - b).map((i) => i + 1);
  const names = numbers.length === 1 ? `Sentence ${numbers} is` : `Sentences ${numbers.slice(0, -1).join(", ")} and ${numbers[numbers.length - 1]} are`;
  return `${names} longer than the model reads: the end does not count.`;
}

function closest(cosines: number[][]): string {
  const pairs = cosines.flatMap((row, b) => row.slice(0, b).map((cosine, a) => ({ a, b, cosine })));
  const best = pairs.reduce((first, second) => (second.cosine > first.cosine ? second : first));
  return `Closest: ${best.a + 1} and ${best.b + 1}, with a cosine of ${best.cosine.toFixed(2)}.`;
}

const WITH_THE_WORD = [
  "They sat on the bank of the river.",
  "The bank of the river was covered with grass.",
  "The boat was tied to the left bank.",
  "",
  "She works for a bank in the city.",
  "The bank lent him money to buy a house.",
  "He opened an account at the bank.",
];

interface InContext {
  occurrences: { sentence: number; start: number; end: number }[];
  /** Coordinates for each layer, the embedding table first. */
  points: [number, number][][];
  /** Share of the variance in the plane, for each layer. */
  shares: number[];
  cosines: number[][][];
}

/** Sentences with the number of their sense: an empty line begins the next sense. */
export function bySense(text: string): { sentence: string; sense: number }[] {
  const senses = text.split(/\n\s*\n/).map(linesOf).filter((lines) => lines.length);
  return senses.flatMap((lines, sense) => lines.map((sentence) => ({ sentence, sense })));
}

function WordInContext({ model }: { model: string }) {
  const word = useKept("word", "bank");
  const text = useKept("sentences", WITH_THE_WORD.join("\n"));
  const sentences = bySense(text[0]);
  const asked = useAnswer<InContext>("explore/word", { model, word: word[0].trim(), sentences: sentences.map(({ sentence }) => sentence) }, sentences.map(({ sense }) => sense));
  return (
    <>
      <div class="word-and-sentences">
        <TextField label="Word" kept={word} />
        <TextField label="Sentences, one a line; an empty line begins another sense" kept={text} rows={WITH_THE_WORD.length} />
      </div>
      <Answer asked={asked} class="card">
        {(found, body, senses) => <Senses found={found} sentences={body.sentences} senses={senses} />}
      </Answer>
    </>
  );
}

function Senses({ found, sentences, senses }: { found: InContext; sentences: string[]; senses: number[] }) {
  const last = found.points.length - 1;
  const [chosen, setLayer] = useState(last);
  const layer = Math.min(chosen, last);
  const name = layer ? `layer ${layer} of ${last}` : "the lookup table";
  const shown = layer ? `${name}: the first two principal components have ${percent(found.shares[layer])} of the variance` : `${name}: one row, one point`;
  const names = found.occurrences.map(({ sentence }) => sentences[sentence]);
  const senseOf = found.occurrences.map(({ sentence }) => senses[sentence] ?? 0);
  return (
    <>
      <Slider label="Layer" min={0} max={last} value={layer} text={name} shown={shown} set={setLayer} />
      <div class="senses">
        <Picture name="senses">
          <Plane points={found.points[layer]} names={names} senses={senseOf} />
        </Picture>
        <HeatMap
          names={names}
          rows={found.cosines[layer]}
          caption={`Cosines of the word’s vectors in ${name}`}
          marks={senseOf.map((sense) => <svg class="sense-mark" viewBox="-7 -7 14 14" aria-hidden="true"><Mark sense={sense} area={70} /></svg>)}
        />
      </div>
    </>
  );
}

function Mark({ sense, area }: { sense: number; area: number }) {
  const number = sense % SYMBOL_COUNT;
  return <path class={`sense sense-${number}`} d={symbolPath(number, area)} />;
}

const MAX_SIZE = 336;
const EDGE = 26; // for the numbers there

/** The vectors in the plane of their principal components; color and shape show the sense. */
function Plane({ points, names, senses }: { points: [number, number][]; names: string[]; senses: number[] }) {
  const [room, width] = useWidth();
  const size = Math.min(MAX_SIZE, width);
  const reach = largestOf(points.flat()); // each layer has its own scale
  const place = linearScale([-reach, reach], [EDGE, size - EDGE]);
  return (
    <div ref={room}>
      <svg class="plane" viewBox={`0 0 ${size} ${size}`} width={size} role="img" aria-label="The vectors of the word, in two dimensions">
        <path class="grid" d={`M${size / 2} 8V${size - 8}M8 ${size / 2}H${size - 8}`} />
        {points.map(([x, y], i) => (
          <g class="point" style={{ transform: `translate(${place(x).toFixed(1)}px, ${place(y).toFixed(1)}px)` }}>
            <title>{names[i]}</title>
            <Mark sense={senses[i]} area={420} />
            <text text-anchor="middle" y={4}>{i + 1}</text>
          </g>
        ))}
      </svg>
    </div>
  );
}
