/** Predict: the probability of every label of a text. */

import { fixed } from "../format";
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

function Predict({ model }: { model: string }) {
  const { input, fields } = useClassified(model);
  const asked = useAnswer<Prediction[][]>("predict", input && { model, inputs: [input] });
  return (
    <>
      {fields}
      <Answer asked={asked} class="card" isLive>
        {([found]) => {
          const isNumber = found.length === 1 && found[0].label === "score"; // a regression, on a scale of its own
          return (
            <>
              <p class="answer">{isNumber ? fixed(found[0].score) : found[0].label}</p>
              {!isNumber && <Bars rows={found.map(({ label, score }) => ({ label, share: score }))} name="Labels" file="labels" />}
            </>
          );
        }}
      </Answer>
    </>
  );
}
