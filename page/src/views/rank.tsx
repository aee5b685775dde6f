/** Rank: passages by their relevance to a query or the cosine of their vectors, and choices by their probability. */

import { useKept } from "../address";
import { fixed, linesOf, percent } from "../format";
import { Answer, Bars, extent, parts, range, TextField, useAnswer, useModel } from "../parts";

const QUERY = "How long is the river?";
const PASSAGES = ["The river has two banks.", "From its source to the sea the river is 320 kilometers long.", "The city lies on a lake."];
const PROMPT = "She opened the door and";
const CHOICES = ["went in.", "was a Tuesday.", "ate the river."];

export const RankView = parts(
  { name: "passages", title: "Passages by relevance", lead: "A ranker reads the query with each passage, and gives the pair a score.", needs: "rerank", Body: Passages },
  { name: "choices", title: "Choices by probability", lead: "A multiple-choice model reads the beginning with each choice. A softmax over their scores gives the probabilities.", needs: "choose", Body: Choices },
  { name: "search", title: "Passages of documents", lead: "The passages of the served documents whose vectors are nearest to the question's, with their cosines.", needs: "search", Body: Search },
);

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
          const rows = found.map(({ index, score }, i) => ({ label: texts[index], share: (score - low) / (high - low || 1), shown: isNumber ? fixed(score) : percent(score), strong: i === 0 }));
          return <Bars name="Passages" class="ranked" rows={rows} />;
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
          const order = range(probabilities.length).sort((a, b) => probabilities[b] - probabilities[a]);
          return <Bars name="Choices" class="ranked" rows={order.map((i, place) => ({ label: choices[i], share: probabilities[i], strong: place === 0 }))} />;
        }}
      </Answer>
    </>
  );
}

function Search({ model }: { model: string }) {
  const question = useKept("question", QUERY);
  const asked = useAnswer<{ file: string; line: number; score: number; text: string }[]>("search", question[0].trim() ? { model, query: question[0] } : null);
  return (
    <>
      <TextField label="Question" kept={question} />
      <Answer asked={asked} class="card" isLive>
        {(hits) => <Bars name="Hits" class="ranked" rows={hits.map(({ file, line, score, text }, i) => ({ label: `${file}:${line} ${text}`, share: Math.max(score, 0), shown: fixed(score), strong: i === 0 }))} />}
      </Answer>
    </>
  );
}
