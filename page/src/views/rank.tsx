/** Rank: passages by their relevance to a query, and choices by their probability. */

import { useKept } from "../address";
import { fixed, linesOf, percent } from "../format";
import { Answer, useAnswer } from "../parts/answer";
import { Bar } from "../parts/charts";
import { extent } from "../parts/drawing";
import { TextField } from "../parts/forms";
import { useModel } from "../parts/models";
import { Section } from "../parts/section";

const QUERY = "How long is the river?";
const PASSAGES = ["The river has two banks.", "From its source to the sea the river is 320 kilometers long.", "The city lies on a lake."];
const PROMPT = "She opened the door and";
const CHOICES = ["went in.", "was a Tuesday.", "ate the river."];

export function RankView() {
  return (
    <>
      <Section name="passages" title="Passages by relevance" lead="A ranker reads the query with each passage, and gives the pair a score." needs="rerank" Body={Passages} />
      <Section name="choices" title="Choices by probability" lead="A multiple-choice model reads the beginning with each choice. A softmax over their scores gives the probabilities." needs="choose" Body={Choices} />
    </>
  );
}

function Passages({ model }: { model: string }) {
  const query = useKept("query", QUERY);
  const passages = useKept("passages", PASSAGES.join("\n"));
  const isRegression = useModel(model)!.labels[0] === "score";
  const texts = linesOf(passages[0]);
  const asked = useAnswer<{ index: number; score: number }[]>("rerank", query[0].trim() && texts.length ? { model, query: query[0], texts } : null);
  return (
    <>
      <TextField label="Query" kept={query} />
      <TextField label="Passages, one a line" kept={passages} rows={PASSAGES.length} />
      <Answer asked={asked} class="card" isLive>
        {(found, { texts }) => {
          const isNumber = isRegression || found.some(({ score }) => score < 0 || score > 1); // logits of some cross-encoders
          const [low, high] = isNumber ? extent(found.map(({ score }) => score)) : [0, 1];
          return <Ranked name="Passages" rows={found.map(({ index, score }) => ({ text: texts[index], share: (score - low) / (high - low || 1), shown: isNumber ? fixed(score) : percent(score) }))} />;
        }}
      </Answer>
    </>
  );
}

function Choices({ model }: { model: string }) {
  const prompt = useKept("prompt", PROMPT);
  const choices = useKept("choices", CHOICES.join("\n"));
  const texts = linesOf(choices[0]);
  const asked = useAnswer<{ probabilities: number[] }[]>("choose", prompt[0].trim() && texts.length > 1 ? { model, inputs: [{ prompt: prompt[0], choices: texts }] } : null);
  return (
    <>
      <TextField label="Beginning" kept={prompt} />
      <TextField label="Choices, one a line" kept={choices} rows={CHOICES.length} />
      <Answer asked={asked} class="card" isLive>
        {([{ probabilities }], { inputs: [{ choices }] }) => {
          const rows = probabilities.map((share, i) => ({ text: choices[i], share, shown: percent(share) }));
          return <Ranked name="Choices" rows={rows.sort((a, b) => b.share - a.share)} />;
        }}
      </Answer>
    </>
  );
}

/** Texts, the best first. */
function Ranked({ name, rows }: { name: string; rows: { text: string; share: number; shown: string }[] }) {
  return (
    <table class="bars ranked" aria-label={name}>
      <tbody>
        {rows.map(({ text, share, shown }, i) => (
          <tr class={i ? undefined : "strong"}>
            <th scope="row" dir="auto">{text}</th>
            <td class="bar"><Bar share={share} /></td>
            <td>{shown}</td>
          </tr>
        ))}
      </tbody>
    </table>
  );
}
