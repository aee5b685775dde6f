/** Answers: a question on a text, the answer marked in it, and the scores it was chosen by. */

import { useEffect, useRef } from "preact/hooks";
import { setValues, useKept } from "../address";
import { fixed } from "../format";
import { Answer, Bars, Chart, Examples, extent, linearScale, MarkedText, parts, Picture, Problem, TextField, useAnswer } from "../parts";

const TEXT =
  "The Amazon rainforest covers most of the Amazon basin of South America. The basin covers 7,000,000 square kilometres, " +
  "of which 5,500,000 are covered by the rainforest. The majority of the forest lies in Brazil, followed by Peru with 13 percent " +
  "and Colombia with 10 percent.";
const EXAMPLES = [
  { name: "Where", question: "Where does most of the forest lie?" },
  { name: "How large", question: "How large is the basin?" },
  { name: "No answer", question: "Who wrote the first book on the rainforest?" },
];

export const AnswersView = parts({
  title: "A question on a text",
  lead: "The model gives each token two scores: one for the start of the answer, one for its end. The answer is the span with the largest sum.",
  needs: "answer",
  Body: Answers,
});

interface Answered {
  answer: string;
  start: number | null;
  end: number | null;
  candidates: { text: string; probability: number }[];
  null_odds?: number | null;
  null_threshold?: number | null;
}
interface Scores {
  tokens: string[];
  offsets: [number, number][];
  start_logits: number[];
  end_logits: number[];
}

function Answers({ model }: { model: string }) {
  const context = useKept("text", TEXT);
  const question = useKept("question", context[0] === TEXT ? EXAMPLES[0].question : "What is this about?");
  const input = { question: question[0], context: context[0] };
  const isWritten = Boolean(question[0].trim() && context[0].trim());
  const asked = useAnswer<Answered[]>("answer", isWritten ? { model, inputs: [input] } : null);
  const scores = useAnswer<Scores>("explore/span", isWritten ? { model, ...input } : null);
  return (
    <>
      <TextField label="Question" kept={question} />
      <TextField label="Text" kept={context} />
      <Examples all={EXAMPLES} choose={({ question }) => setValues({ question, text: TEXT, pair: undefined }, true)} />
      <Answer asked={asked} class="card">
        {([found], { inputs: [{ question, context }] }) => {
          const isSame = scores.question.body?.context === context && scores.question.body?.question === question;
          const rows = found.candidates.slice(0, 5).map(({ text, probability: share }) => ({ label: text || "no answer", share, strong: text === found.answer }));
          return (
            <>
              <Found found={found} context={context} />
              {isSame && <Problem>{scores.error}</Problem>}
              {isSame && scores.answer && <SpanChart scores={scores.answer} found={found} />}
              <div class="columns later">
                <div class="candidates"><h3>Most probable answers</h3><Bars rows={rows} name="Most probable answers" file="answers" /></div>
                <NullScale found={found} />
              </div>
            </>
          );
        }}
      </Answer>
    </>
  );
}

function Found({ found: { answer, start, end }, context }: { found: Answered; context: string }) {
  return (
    <>
      <p class="answer" aria-live="polite">{answer || (context.trim() ? "The text does not say." : "There is no text to answer from.")}</p>
      <MarkedText text={context} spans={start === null || end === null ? [] : [{ start, end }]}>{(_, words) => <mark>{words}</mark>}</MarkedText>
    </>
  );
}

const STEP = 22;
const TALL = 64;

function SpanChart({ scores: { tokens, offsets, start_logits, end_logits }, found: { start, end } }: { scores: Scores; found: Answered }) {
  const region = useRef<HTMLDivElement>(null);
  const isInAnswer = offsets.map(([first, last]) => start !== null && end !== null && first >= start && last <= end);
  const here = isInAnswer.indexOf(true);
  useEffect(() => {
    if (region.current) region.current.scrollLeft = here * STEP - region.current.clientWidth / 2;
  }, [here]);
  if (!tokens.length) return null;
  const height = (logits: number[]) => linearScale(extent(logits), [0, TALL]);
  const [up, down] = [height(start_logits), height(end_logits)];
  const range = (logits: number[]) => extent(logits).map((logit) => fixed(logit, 2)).join(" to ");
  const middle = TALL + 8;
  const names = 9 + 7 * Math.max(...tokens.map((token) => token.length));
  const [width, tall] = [tokens.length * STEP, middle + names + TALL + 16];
  return (
    <>
      <h3>Start and end scores</h3>
      <p class="note">
        Start score of each token <span class="key">upwards</span>, from {range(start_logits)}; end score{" "}
        <span class="key below-key">downwards</span>, from {range(end_logits)}. The lowest has no bar.
      </p>
      <Picture name="scores">
        <div class="scroll" tabIndex={0} role="region" aria-label="Start and end scores of each token" ref={region}>
          <svg class="spans" width={width} height={tall} viewBox={`0 0 ${width} ${tall}`} role="img" aria-label="Start and end scores">
            {tokens.map((token, i) => (
              <g class={isInAnswer[i] ? "here" : undefined} transform={`translate(${i * STEP} 0)`}>
                <title>{`${token}: start ${fixed(start_logits[i], 2)}, end ${fixed(end_logits[i], 2)}`}</title>
                <rect class="fill" x={4} width={STEP - 8} y={middle - up(start_logits[i])} height={up(start_logits[i])} rx={2} />
                <text transform={`translate(${STEP / 2 + 4} ${middle + names}) rotate(-90)`}>{token}</text>
                <rect class="below" x={4} width={STEP - 8} y={middle + names + 8} height={down(end_logits[i])} rx={2} />
              </g>
            ))}
          </svg>
        </div>
      </Picture>
    </>
  );
}

/** The odds of "no answer" beside their threshold. */
function NullScale({ found: { null_odds, null_threshold } }: { found: Answered }) {
  if (null_odds === undefined || null_odds === null) {
    return <p class="note">This model was trained on questions that all have an answer: it always gives one.</p>;
  }
  const threshold = null_threshold ?? 0;
  const reach = 1.25 * Math.max(1, Math.abs(null_odds - threshold));
  const isNone = null_odds > threshold;
  return (
    <div>
      <h3>Or no answer?</h3>
      <Chart class="null" height={64} label={`Odds ${fixed(null_odds, 2)}, threshold ${fixed(threshold, 2)}`}>
        {(width) => (
          <>
            <line class="grid" x1={8} x2={width - 8} y1={32} y2={32} />
            <line class="threshold" x1={width / 2} x2={width / 2} y1={18} y2={46} />
            <circle class="fill" cx={linearScale([-reach, reach], [10, width - 10])(null_odds - threshold)} cy={32} r={6} />
            <text class="tick" x={8} y={60}>an answer</text>
            <text class="tick" x={width / 2} y={12} text-anchor="middle">threshold {fixed(threshold, 2)}</text>
            <text class="tick" x={width - 8} y={60} text-anchor="end">no answer</text>
          </>
        )}
      </Chart>
      <p class="note">
        No answer scores {fixed(Math.abs(null_odds), 2)} {null_odds < 0 ? "less" : "more"} than the best one,{" "}
        {isNone ? "" : "which is not "}over the threshold of {fixed(threshold, 2)}: the model {isNone ? "gives none" : "answers"}.
      </p>
    </div>
  );
}
