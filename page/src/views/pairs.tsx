/** Pairs: two sentences that may follow each other, and many side by side. */

import { setValues, useKept, useSecondSentence, useSentence } from "../address";
import { linesOf } from "../format";
import { Answer, useAnswer } from "../parts/answer";
import { Bars, HeatMap } from "../parts/charts";
import { Examples, TextField } from "../parts/forms";
import { Section, type View } from "../parts/section";
import chosen from "../examples.json";
import { WordInContext } from "./senses";

export const pairsView: View = {
  id: "pairs",
  title: "Pairs",
  needs: "embed",
  Body: () => (
    <>
      <Section
        name="next"
        title="Next sentence or not?"
        lead="BERT’s second pre-training task: does sentence B follow sentence A in the text, or is it from another document?"
        needs="next-sentence"
        missing="No model here says whether a sentence follows another. Serve one that was pre-trained with pairs:"
        command="cloze serve -m cloze-mini"
        Body={NextSentence}
      />
      <Section
        name="sense"
        title="One word in several contexts"
        lead="The embedding table has one vector for a word. BERT computes another one in each context. Move the slider from the table through the layers, and the meanings separate."
        needs="encode"
        missing="No model here has an encoder. Serve one:"
        command="cloze serve -m cloze-mini"
        Body={WordInContext}
      />
      <Section
        name="similarity"
        title="Similarity of sentences"
        lead="The cosine of the vectors of each two sentences; 1 is the same direction."
        needs="embed"
        missing="No model here makes vectors of texts. Serve one:"
        command="cloze serve -m cloze-mini"
        Body={Similarity}
      />
    </>
  ),
};

function NextSentence({ model }: { model: string }) {
  const [first] = chosen.next_sentence;
  const a = useSentence(first.a);
  const b = useSecondSentence(first.b);
  const asked = useAnswer<number[]>("next-sentence", a[0].trim() && b[0].trim() ? { model, inputs: [[a[0], b[0]]] } : null);
  const source = chosen.next_sentence.find((example) => example.a === a[0] && example.b === b[0]);
  return (
    <>
      <div class="columns">
        <TextField label="Sentence A" kept={a} />
        <TextField label="Sentence B" kept={b} />
      </div>
      <Examples
        all={chosen.next_sentence.map((example) => [example.name, example] as const)}
        choose={({ a, b }) => setValues({ text: a, pair: b }, true)}
      />
      {source && <p class="note">{source.caption} <cite>{source.source}</cite></p>}
      <Answer asked={asked} class="card" isLive>
        {([share]) => (
          <Bars
            rows={[{ label: "B follows A", share }, { label: "B is from elsewhere", share: 1 - share }]}
            name="Next sentence"
            file="next-sentence"
          />
        )}
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
  const inputs = linesOf(texts[0]);
  const asked = useAnswer<number[][]>("embed", inputs.length < 2 ? null : { model, inputs, normalize: true });
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
                {asked.truncated! > 0 && <p class="note">{cut(asked.truncated!, vectors.length)}</p>}
              </>
            );
          }}
        </Answer>
      )}
    </>
  );
}

/** Which texts were cut, in words. */
function cut(truncated: number, count: number): string {
  const which = truncated === count ? "All sentences are" : `${truncated} of the ${count} sentences ${truncated === 1 ? "is" : "are"}`;
  return `${which} longer than the model reads: the end does not count.`;
}

function closest(cosines: number[][]): string {
  const pairs = cosines.flatMap((row, b) => row.slice(0, b).map((cosine, a) => ({ a, b, cosine })));
  const best = pairs.reduce((first, second) => (second.cosine > first.cosine ? second : first));
  return `Closest: ${best.a + 1} and ${best.b + 1}, with a cosine of ${best.cosine.toFixed(2)}.`;
}
