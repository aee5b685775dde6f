/** Why: the contribution of each word to a classifier's prediction, by integrated gradients. */

import { useContext } from "preact/hooks";
import { useKept, setValues } from "../address";
import { fixed } from "../format";
import { Answer, useAnswer } from "../parts/answer";
import { AttributionKey, type AttributedWord, Contributions, ShadedTexts } from "../parts/attribution";
import { Examples, TextField } from "../parts/forms";
import { Models, Section, type View } from "../parts/section";

const EXAMPLES = [
  ["Praise", "The film is not perfect, but it is warm, funny and beautifully acted."],
  ["Blame", "A dull story that wastes a wonderful cast."],
] as const;

export const whyView: View = {
  id: "why",
  title: "Why",
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
  const text = useKept("text", EXAMPLES[0][1]);
  const pair = useKept("pair", "");
  const takesPair = useContext(Models).find(({ name }) => name === model)?.readsPairs !== false;
  const asked = useAnswer<Explanation[]>("explain", text[0].trim() ? { model, inputs: [takesPair && pair[0] ? [text[0], pair[0]] : text[0]] } : null);
  return (
    <>
      <div class="text-and-pair">
        <TextField label="Text" kept={text} />
        {takesPair && <TextField label="Second text, if there is one" kept={pair} />}
      </div>
      <Examples all={EXAMPLES} choose={(value) => setValues({ text: value === EXAMPLES[0][1] ? undefined : value, pair: undefined }, true)} />
      <Answer asked={asked} class="card" isLive>
        {([found], { inputs }) => (
          <>
            <p class="answer">It says “{found.explained}”</p>
            <ShadedTexts texts={[inputs[0]].flat()} words={found.words} isTruncated={found.truncated} />
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
