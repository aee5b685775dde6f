/** Pairs: two sentences that may follow each other, and many side by side. */

import { useKept } from "../address";
import { linesOf } from "../format";
import { Answer, useAnswer } from "../parts/answer";
import { Bars, HeatMap, nextSentenceRows } from "../parts/charts";
import { range } from "../parts/drawing";
import { Caption, Examples, TextField } from "../parts/forms";
import { useModel } from "../parts/models";
import { parts } from "../parts/section";
import chosen from "../examples.json";
import { WordInContext } from "./senses";

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
  const { isSentenceEncoder } = useModel(model)!;
  const inputs = linesOf(texts[0]);
  const asked = useAnswer<number[][]>("embed", inputs.length < 2 ? null : { model, inputs, normalize: true });
  const tokens = useAnswer<unknown[][]>("tokenize", asked.truncated ? { model, inputs: asked.question.body.inputs } : null);
  return (
    <>
      <TextField label="Sentences, one a line" kept={texts} rows={SENTENCES.length} />
      {inputs.length < 2 ? (
        <div class="card"><p class="muted">Give two sentences or more, each on a line of its own.</p></div>
      ) : (
        <Answer asked={asked} class="card">
          {(vectors, body) => {
            const cosines = vectors.map((a) => vectors.map((b) => a.reduce((sum, value, i) => sum + value * b[i], 0)));
            return (
              <>
                <HeatMap names={body.inputs} rows={cosines} caption="Cosines of sentences" />
                <p class="remark" aria-live="polite">{closest(cosines)}</p>
                {!isSentenceEncoder && <p class="muted">This model was not trained for vectors of sentences: unrelated ones are similar, too.</p>}
                {!tokens.isBusy && tokens.answer && asked.truncated! > 0 && <p class="note">{cut(tokens.answer, asked.truncated!)}</p>}
              </>
            );
          }}
        </Answer>
      )}
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
