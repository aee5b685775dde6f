/** Why: the contribution of each word to a class, by integrated gradients, of one model or two. */

import { useContext } from "preact/hooks";
import { chooseText } from "../address";
import { useClassified } from "../parts/classified";
import { Explanations, useSecond } from "../parts/explained";
import { Models } from "../parts/models";
import { Section, type View } from "../parts/section";

export const whyView: View = {
  id: "why",
  title: "Why",
  needs: "explain",
  Body: () => {
    const models = useContext(Models);
    // int8 models and graphs, which have no gradients, show their prediction instead of another model's recorded one
    const needs = models.some(({ abilities }) => abilities.has("explain")) ? "explain" : "predict";
    return <Section
      title="Why this prediction?"
      lead="The contribution of each word to the score of a class, by integrated gradients from a text of [MASK] tokens to yours. The contributions sum to the difference of the two scores."
      needs={needs}
      Body={Why}
    />;
  },
};

function Why({ model }: { model: string }) {
  const { input, fields } = useClassified(model);
  const [second, choiceOfSecond] = useSecond(model);
  return (
    <>
      {fields}
      <Explanations key={second} models={second ? [model, second] : [model]} texts={input ?? [""]} apply={([text, pair]) => chooseText(text, pair)}>{choiceOfSecond}</Explanations>
    </>
  );
}
