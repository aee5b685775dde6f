/** Fields for the text, or the pair of texts, of a classifier. */

import { chooseText, useSecondSentence, useSentence } from "../address";
import { examplesFor } from "../labels";
import { Examples, TextField } from "./forms";
import { useModel } from "./models";

/** Fields with examples that fit the labels of a model, and the input for a request; null while a text is missing. */
export function useClassified(name: string) {
  const model = useModel(name)!;
  const examples = examplesFor(model);
  const text = useSentence(examples[0][1]);
  const pair = useSecondSentence(examples[0][2]);
  const takesPair = model.readsPairs !== false;
  const isWritten = text[0].trim() && (pair[0].trim() || !model.readsPairs);
  const input = !isWritten ? null : takesPair && pair[0] ? [text[0], pair[0]] : [text[0]];
  const fields = (
    <>
      <div class={takesPair ? "text-and-pair" : undefined}>
        <TextField label="Text" kept={text} />
        {takesPair && <TextField label={model.readsPairs ? "Second text" : "Second text, if there is one"} kept={pair} />}
      </div>
      <Examples
        all={examples.map((example) => [example[0], example] as const)}
        choose={([, text, pair]) => chooseText(text, pair)}
      />
    </>
  );
  return { input, fields };
}
