/** Predict: the probability of every label of a text. */

import { fixed, part } from "../format";
import { Answer, useAnswer } from "../parts/answer";
import { Bars } from "../parts/charts";
import { useClassified } from "../parts/classified";
import { Section, type View } from "../parts/section";

export const predictView: View = {
  id: "predict",
  title: "Predict",
  needs: "predict",
  Body: () => (
    <Section
      title="The probability of each label"
      lead="A fine-tuned classifier predicts the probability of each label of a text, or of a pair of texts."
      needs="predict"
      missing="No classifier is served here. Train one on a table of texts and labels, and serve it:"
      command="cloze finetune classification -m cloze-mini -d FILE -o RUN && cloze serve -m RUN"
      Body={Predict}
    />
  ),
};

interface Prediction {
  label: string;
  score: number;
}

interface Read {
  windows: number;
  /** Of the text, and of the second one. */
  characters: number[];
}

/** The texts with a gray part where they are longer than the model reads; nothing where it reads them at once. */
function Unread({ texts, read: { windows, characters } }: { texts: string[]; read: Read }) {
  if (windows > 1) return <p class="note">The text is longer than the model reads at once: this is the mean of {windows} windows.</p>;
  if (texts.every((text, i) => characters[i] >= [...text].length)) return null;
  return (
    <>
      {texts.map((text, i) => (
        <p class="running" dir="auto">{part(text, 0, characters[i])}<s class="unread" title="The model did not read this">{part(text, characters[i])}</s></p>
      ))}
      <p class="note">The text is longer than the model reads: the gray part does not count.</p>
    </>
  );
}

function Predict({ model }: { model: string }) {
  const { input, fields } = useClassified(model);
  const asked = useAnswer<Prediction[][]>("predict", input && { model, inputs: [input] });
  const read = useAnswer<Read>("explore/read", input && { model, text: input[0], pair: input[1] ?? null });
  return (
    <>
      {fields}
      <Answer asked={asked} class="card" isLive>
        {([found], { inputs: [texts] }) => {
          const isSame = read.question.body?.text === texts[0] && read.question.body?.pair === (texts[1] ?? null);
          const isNumber = found.length === 1 && found[0].label === "score"; // a regression, on a scale of its own
          return (
            <>
              <p class="answer">{isNumber ? fixed(found[0].score) : found[0].label}</p>
              {isSame && read.answer && <Unread texts={texts} read={read.answer} />}
              {!isNumber && <Bars rows={found.map(({ label, score }) => ({ label, share: score }))} name="Labels" file="labels" />}
            </>
          );
        }}
      </Answer>
    </>
  );
}
