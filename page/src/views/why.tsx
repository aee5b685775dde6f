/** Why: the contribution of each word to a class, by integrated gradients, of one model or two. */

import { useClassified } from "../parts/classified";
import { Explanations, useSecond } from "../parts/explained";
import { Section, type View } from "../parts/section";

export const whyView: View = {
  id: "why",
  title: "Why",
  needs: "explain",
  Body: () => (
    <Section
      title="Why this prediction?"
      lead="The contribution of each word to the score of a class, by integrated gradients from a text of [MASK] tokens to yours. The contributions sum to the difference of the two scores."
      needs="explain"
      missing="No model here classifies texts. Train one on a table of texts and labels, and serve it:"
      command="cloze finetune classification -m cloze-mini -d FILE -o RUN && cloze serve -m RUN"
      Body={Why}
    />
  ),
};

function Why({ model }: { model: string }) {
  const { input, fields } = useClassified(model);
  const [second, choiceOfSecond] = useSecond(model);
  return (
    <>
      {fields}
      {choiceOfSecond && <p class="controls">{choiceOfSecond}</p>}
      <Explanations models={second ? [model, second] : [model]} texts={input ?? [""]} />
    </>
  );
}
