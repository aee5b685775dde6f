/** The script of the file that `cloze predict --explain` writes. */

import { render } from "preact";
import { fixed, positive } from "./format";
import { type AttributedWord, Contributions, ShadedTexts } from "./parts/attribution";

interface Explained {
  texts: string[];
  explained: string;
  output: number;
  baseline: string;
  baseline_output: number;
  convergence_gap: number;
  steps: number;
  truncated: boolean;
  words: AttributedWord[];
}

function Card({ number, of: text }: { number: number; of: Explained }) {
  return (
    <section class="card explained" aria-labelledby={`text-${number}`}>
      <h3 id={`text-${number}`}>{number}. {text.explained}</h3>
      <ShadedTexts texts={text.texts} words={text.words} isTruncated={text.truncated} />
      {text.truncated && <p class="note">The text is longer than the model reads: the gray part does not count.</p>}
      <Contributions words={text.words} />
      <p class="note">
        Logit {fixed(text.output)}, {fixed(text.baseline_output)} for {text.baseline}s; {text.steps} steps, off by{" "}
        {positive(Math.abs(text.convergence_gap), 4)}.
      </p>
    </section>
  );
}

const data: Explained[] = JSON.parse(document.getElementById("data")!.textContent!);
render(
  <div class="explanations">{data.map((text, i) => <Card number={i + 1} of={text} />)}</div>,
  document.getElementById("app")!,
);
