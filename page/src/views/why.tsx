/** Why: the contribution of each word to a classifier's prediction, by integrated gradients. */

import { fixed } from "../format";
import { Answer, useAnswer } from "../parts/answer";
import { AttributionKey, type AttributedWord, Contributions, ShadedTexts } from "../parts/attribution";
import { useClassified } from "../parts/classified";
import { Section, type View } from "../parts/section";

export const whyView: View = {
  id: "why",
  title: "Why",
  needs: "explain",
  Body: () => (
    <Section
      title="Why this prediction?"
      lead="The contribution of each word to the score of the predicted class, by integrated gradients from a text of [MASK] tokens to yours. The contributions sum to the difference of the two scores."
      needs="explain"
      missing="No model here classifies texts. Train one on a table of texts and labels, and serve it:"
      command="cloze finetune classification -m cloze-mini -d FILE -o RUN && cloze serve -m RUN"
      Body={Why}
    />
  ),
};

interface Explanation {
  explained: string;
  output: number;
  baseline_output: number;
  convergence_gap: number;
  steps: number;
  truncated: boolean;
  words: AttributedWord[];
}

function Why({ model }: { model: string }) {
  const { input, fields } = useClassified(model);
  const asked = useAnswer<Explanation[]>("explain", input && { model, inputs: [input] });
  return (
    <>
      {fields}
      <Answer asked={asked} class="card" isLive>
        {([found], { inputs }) => (
          <>
            <p class="answer">It says “{found.explained}”</p>
            <ShadedTexts texts={inputs[0]} words={found.words} isTruncated={found.truncated} />
            <AttributionKey />
            {found.truncated && <p class="note">The text is longer than the model reads: the gray part does not count.</p>}
            <h3 class="later">Largest contributions</h3>
            <Contributions words={found.words} />
            <p class="remark">
              A text of masks scores {fixed(found.baseline_output)}, the words add {fixed(found.output - found.baseline_output)}: {fixed(found.output)}.{" "}
              {found.steps} steps, off by {fixed(Math.abs(found.convergence_gap), 4)}.
            </p>
          </>
        )}
      </Answer>
    </>
  );
}
