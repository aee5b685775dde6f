/** Why: the contribution of each word to a class, by integrated gradients, of one model or two. */

import { useContext } from "preact/hooks";
import { setValues } from "../address";
import { Explanations, useClassified, useSecond } from "../parts/explained";
import { Models } from "../parts/models";
import { Section } from "../parts/section";

export function WhyView() {
  const models = useContext(Models);
  return (
    <Section
      title="Why this prediction?"
      lead="The contribution of each word to the score of a class, by integrated gradients from a text of [MASK] tokens to yours. The contributions sum to the difference of the two scores."
      // int8 models and graphs, which have no gradients, show their prediction instead of another model's recorded one
      needs={models.some(({ abilities }) => abilities.has("explain")) ? "explain" : "predict"}
      Body={Why}
    />
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
