/** Predict: the probability of every label of a text. */

import { fixed, part, percent } from "../format";
import { type LabelScore, predictedOf } from "../labels";
import { Answer, useAnswer } from "../parts/answer";
import { Truncated, Unread } from "../parts/attribution";
import { useClassified } from "../parts/classified";
import { LabelBars } from "../parts/explained";
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
      Body={Predict}
    />
  ),
};

interface Read {
  windows: number;
  /** Characters of the text, and of the second one. */
  characters: number[];
}

/** The texts with the unread parts in gray; nothing if there are none. */
function ReadTexts({ texts, read: { windows, characters } }: { texts: string[]; read: Read }) {
  if (windows > 1) return <p class="note">The text is longer than the model reads at once: this is the mean of {windows} windows.</p>;
  if (texts.every((text, i) => characters[i] >= [...text].length)) return null;
  return (
    <>
      {texts.map((text, i) => (
        <p class="running" dir="auto">{part(text, 0, characters[i])}<Unread>{part(text, characters[i])}</Unread></p>
      ))}
      <Truncated />
    </>
  );
}

function Predict({ model }: { model: string }) {
  const { input, fields } = useClassified(model);
  const asked = useAnswer<LabelScore[][]>("predict", input && { model, inputs: [input] });
  const read = useAnswer<Read>("explore/read", input && { model, text: input[0], pair: input[1] ?? null });
  return (
    <>
      {fields}
      <Answer asked={asked} class="card" isLive>
        {([found], { inputs: [texts] }) => {
          const isSame = read.question.body?.text === texts[0] && read.question.body?.pair === (texts[1] ?? null);
          const isNumber = found.length === 1 && found[0].label === "score"; // a regression, on a scale of its own
          const isRanker = found.length === 1 && found[0].threshold === undefined; // of one class, more or less probable
          return (
            <>
              <p class="answer">{isNumber ? fixed(found[0].score) : isRanker ? `${percent(found[0].score)} ${found[0].label}` : predictedOf(found).map(({ label }) => label).join(", ") || "No label is above its threshold"}</p>
              {isSame && read.answer && <ReadTexts texts={texts} read={read.answer} />}
              {!isNumber && <LabelBars scores={found} name="Labels" file="labels" />}
            </>
          );
        }}
      </Answer>
    </>
  );
}
