/** Predict: the probability of every label of a text. Why: the contribution of each word to a class, of one model or two. */

import { useContext } from "preact/hooks";
import { setValues } from "../address";
import { fixed, percent } from "../format";
import { isNumber, type LabelScore, predictedOf } from "../labels";
import { Answer, Explanations, LabelBars, MarkedText, Models, parts, Section, Truncated, useAnswer, useClassified, useSecond } from "../parts";

export const PredictView = parts({
  title: "The probability of each label",
  lead: "A fine-tuned classifier predicts the probability of each label of a text, or of a pair of texts.",
  needs: "predict",
  Body: Predict,
});

export function WhyView() {
  const models = useContext(Models);
  return (
    <Section
      title="Why this prediction?"
      lead="The contribution of each word to the score of a class, by integrated gradients from a text of [MASK] tokens to yours. The contributions sum to the difference of the two scores."
      // int8 models and graphs, which have no gradients, show their prediction instead of another model's recorded one
      needs={models.some(({ abilities }) => abilities.includes("explain")) ? "explain" : "predict"}
      Body={Why}
    />
  );
}

/** The number of windows of a text, and the characters of each text that the model reads. */
type Read = { windows: number; characters: number[] };

/** The texts with the unread parts in gray; nothing if there are none. */
function ReadTexts({ texts, read: { windows, characters } }: { texts: string[]; read: Read }) {
  if (windows > 1) return <p class="note">The text is longer than the model reads at once: this is the mean of {windows} windows.</p>;
  if (texts.every((text, i) => characters[i] >= [...text].length)) return null;
  return (
    <>
      {texts.map((text, i) => <MarkedText text={text} spans={[{ start: 0, end: characters[i] }]} isTruncated>{(_, words) => words}</MarkedText>)}
      <Truncated />
    </>
  );
}

/** The predicted labels; the number of a regression; the probability of the only class of a ranker. */
function headlineOf(scores: LabelScore[]): string {
  const [{ label, score, threshold }] = scores;
  if (isNumber(scores)) return fixed(score);
  if (scores.length === 1 && threshold === undefined) return `${percent(score)} ${label}`;
  return predictedOf(scores).map(({ label }) => label).join(", ") || "No label is above its threshold";
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
          return (
            <>
              <p class="answer">{headlineOf(found)}</p>
              {isSame && read.answer && <ReadTexts texts={texts} read={read.answer} />}
              {!isNumber(found) && <LabelBars scores={found} name="Labels" file="labels" />}
            </>
          );
        }}
      </Answer>
    </>
  );
}

function Why({ model }: { model: string }) {
  const { input, fields } = useClassified(model);
  const [second, choiceOfSecond] = useSecond(model);
  return (
    <>
      {fields}
      <Explanations key={second} models={second ? [model, second] : [model]} texts={input ?? [""]} apply={([text, pair]) => setValues({ text, pair }, true)}>{choiceOfSecond}</Explanations>
    </>
  );
}
