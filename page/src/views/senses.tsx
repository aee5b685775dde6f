/** One word in several sentences: its vectors in each layer, as points in a plane and by their cosines. */

import { useState } from "preact/hooks";
import { useKept } from "../address";
import { linesOf, percent } from "../format";
import { Answer, useAnswer } from "../parts/answer";
import { HeatMap } from "../parts/charts";
import { largestOf, linearScale, SYMBOL_COUNT, symbolPath, useWidth } from "../parts/drawing";
import { Slider, TextField } from "../parts/forms";
import { Picture } from "../parts/save";

const SENTENCES = [
  "They sat on the bank of the river.",
  "The bank of the river was covered with grass.",
  "The boat was tied to the left bank.",
  "",
  "She works for a bank in the city.",
  "The bank lent him money to buy a house.",
  "He opened an account at the bank.",
];

interface Found {
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

export function WordInContext({ model }: { model: string }) {
  const word = useKept("word", "bank");
  const text = useKept("sentences", SENTENCES.join("\n"));
  const sentences = bySense(text[0]);
  const asked = useAnswer<Found>("explore/word", { model, word: word[0].trim(), sentences: sentences.map(({ sentence }) => sentence) }, sentences.map(({ sense }) => sense));
  return (
    <>
      <div class="word-and-sentences">
        <TextField label="Word" kept={word} />
        <TextField label="Sentences, one a line; an empty line begins another sense" kept={text} rows={SENTENCES.length} />
      </div>
      <Answer asked={asked} class="card">
        {(found, body, senses) => <Explorer found={found} sentences={body.sentences} senses={senses} />}
      </Answer>
    </>
  );
}

function Explorer({ found, sentences, senses }: { found: Found; sentences: string[]; senses: number[] }) {
  const last = found.points.length - 1;
  const [chosen, setLayer] = useState(last);
  const layer = Math.min(chosen, last);
  const name = layer ? `layer ${layer} of ${last}` : "the lookup table";
  const shown = layer ? `${name}: the first two principal components have ${percent(found.shares[layer])} of the variance` : `${name}: one row, one point`;
  const senseOf = found.occurrences.map(({ sentence }) => senses[sentence] ?? 0);
  return (
    <>
      <Slider label="Layer" min={0} max={last} value={layer} text={name} shown={shown} set={setLayer} />
      <div class="senses">
        <Picture name="senses">
          <Plane points={found.points[layer]} names={found.occurrences.map(({ sentence }) => sentences[sentence])} senses={senseOf} />
        </Picture>
        <HeatMap
          names={found.occurrences.map(({ sentence }) => sentences[sentence])}
          rows={found.cosines[layer]}
          caption={`Cosines of the word’s vectors in ${name}`}
          marks={senseOf.map((sense) => <SenseIcon sense={sense} />)}
        />
      </div>
    </>
  );
}

function Mark({ sense, area }: { sense: number; area: number }) {
  const number = sense % SYMBOL_COUNT;
  return <path class={`sense sense-${number}`} d={symbolPath(number, area)} />;
}

function SenseIcon({ sense }: { sense: number }) {
  return (
    <svg class="sense-mark" viewBox="-7 -7 14 14" aria-hidden="true">
      <Mark sense={sense} area={70} />
    </svg>
  );
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
