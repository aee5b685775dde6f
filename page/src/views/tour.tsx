/** Tour: BERT in five steps on one sentence, with parts of the other views. */

import { useContext, useRef } from "preact/hooks";
import { addressOf, useKept } from "../address";
import chosen from "../examples.json";
import { within } from "../format";
import { Answer, useAnswer } from "../parts/answer";
import { Bars, nextSentenceRows, Scroll } from "../parts/charts";
import { Caption } from "../parts/forms";
import { RecordedAnswers } from "../parts/recorded";
import { Section } from "../parts/section";
import { isMask } from "../texts";
import { pieceClass } from "./attention";
import { type Embedded, type Found, Heads, Input } from "./inside";
import { Lens } from "./layers";
import type { Trace } from "./stations";

const { text, whole, follower, other, answer, token, layer, head } = chosen.tour;
const RECORDED_SEEDS = 4;
const KINDS = { mask: "[MASK]", random: "random token", keep: "stays" };

export function TourView() {
  const [kept, setStep] = useKept("step", "1");
  const top = useRef<HTMLDivElement>(null);
  const at = within(Number(kept) - 1 || 0, STEPS.length);
  const go = (step: number) => {
    setStep(String(step + 1), true);
    top.current!.scrollIntoView({ block: "nearest" });
  };
  const goOn = () => {
    go(at + 1);
    top.current!.querySelectorAll<HTMLElement>(".stop")[at + 1].focus();
  };
  const step = STEPS[at];
  const button = (name: string, to: number) => (
    <button type="button" class="quiet" aria-disabled={!(to in STEPS)} onClick={() => to in STEPS && go(to)}>{name}</button>
  );
  return (
    <>
      <div class="rail tour-steps" role="group" aria-label="Steps of the tour" ref={top}>
        {button("Back", at - 1)}
        {STEPS.map(({ title }, i) => (
          <button type="button" class="stop" aria-label={`${i + 1} ${title}`} aria-current={i === at ? "step" : undefined} aria-pressed={i === at} onClick={() => go(i)}>
            {i + 1} <small>{title}</small>
          </button>
        ))}
        {button("Next", at + 1)}
      </div>
      <Section key={at} {...step} title={`${at + 1}. ${step.title}`} />
      {at + 1 < STEPS.length && (
        <p class="examples later"><button type="button" class="quiet" onClick={goOn}>Step {at + 2}: {STEPS[at + 1].title}</button></p>
      )}
    </>
  );
}

/** A link to a view with the sentence of the tour. */
function More({ view, values, children }: { view: string; values: Record<string, string>; children: string }) {
  return <p class="note later"><a href={addressOf(view, values)}>{children}</a></p>;
}

function Embeddings({ model }: { model: string }) {
  const asked = useAnswer<Embedded>("explore/input", { model, text: whole, pair: follower });
  return (
    <>
      <Answer asked={asked}>{(found) => <Input found={found} />}</Answer>
      <More view="inside" values={{ text: whole, pair: follower }}>Your own sentences, in the view Inside</More>
    </>
  );
}

interface Masked {
  tokens: string[];
  token_type_ids: number[];
  masked: string[];
  /** The first draw of each token. */
  select: number[];
  positions: number[];
  /** The second draw of each position. */
  replace: number[];
  kinds: (keyof typeof KINDS)[];
  masked_lm_prob: number;
  limits: [number, number];
}

/** The tokens after masking, and the random numbers that choose them. */
function Masking({ model }: { model: string }) {
  const [kept, setSeed] = useKept("seed", "1");
  const isRecorded = useContext(RecordedAnswers) !== null;
  const seed = Math.max(0, Math.floor(Number(kept))) || 0;
  const asked = useAnswer<Masked>("explore/masking", { model, text: whole, pair: follower, seed });
  return (
    <>
      <p class="examples">
        <button type="button" class="chip" onClick={() => setSeed(String(isRecorded ? (seed % RECORDED_SEEDS) + 1 : seed + 1), true)}>Roll again</button>
        <span class="muted">Seed {seed}</span>
      </p>
      <Answer asked={asked} class="card" isLive>{(found) => <Draws found={found} />}</Answer>
    </>
  );
}

function Draws({ found }: { found: Masked }) {
  const { tokens, token_type_ids, masked, select, positions, replace, kinds, masked_lm_prob, limits } = found;
  const [, mask, random] = [masked_lm_prob, ...limits].map((share) => Math.round(100 * share));
  return (
    <>
      <h3>{positions.length} of {tokens.length} tokens are predicted</h3>
      <p class="note">
        Every token of the text draws a number; the {positions.length} lowest are chosen, {Math.round(100 * masked_lm_prob)}% of {tokens.length}. Each
        of these draws another: below {mask / 100} it becomes [MASK], below {random / 100} a random token of the vocabulary, else it stays.
      </p>
      <div class="pieces" role="group" aria-label="Tokens after masking">
        {masked.map((after, i) => (
          <span class={`${pieceClass(token_type_ids[i])}${positions.includes(i) ? " drawn" : ""}`}>
            {after}
            <small>{positions.includes(i) ? tokens[i] : "\u2007"}</small>
          </span>
        ))}
      </div>
      <Scroll label="Draws of the chosen tokens" class="later">
        <table class="numbers draws" aria-label="Draws of the chosen tokens">
          <thead>
            <tr><th scope="col">token</th><th scope="col">first draw</th><th scope="col">second draw</th><th scope="col">result</th><th scope="col">the model reads</th></tr>
          </thead>
          <tbody>
            {positions.map((place, i) => (
              <tr>
                <th scope="row">{tokens[place]}</th>
                <td>{select[place].toFixed(3)}</td>
                <td>{replace[i].toFixed(3)}</td>
                <td>{KINDS[kinds[i]]}</td>
                <td>{masked[place]}</td>
              </tr>
            ))}
          </tbody>
        </table>
      </Scroll>
    </>
  );
}

const INSIDE = { text, pair: "", layer: String(layer + 1), head: String(head + 1) };

function Attention({ model }: { model: string }) {
  const body = { model, text, pair: null, start: null };
  const asked = useAnswer<Found>("explore/inside", body);
  return (
    <>
      <Caption of={chosen.tour} />
      <Answer asked={asked} isShared={false}>
        {(found) => {
          const from = found.tokens.findIndex(isMask);
          return (
            <>
              <Heads found={found} text={body} initial={{ layer, head, from }} hasSteps={false} />
              <More view="inside" values={{ ...INSIDE, from: String(from + 1) }}>How its weights are computed, in the view Inside</More>
            </>
          );
        }}
      </Answer>
    </>
  );
}

function Layers({ model }: { model: string }) {
  const asked = useAnswer<Trace>("explore/layers", { model, text, token: null, start: null });
  const walk = addressOf("layers", { text });
  return (
    <>
      <Answer asked={asked}>{(trace) => trace.masked_lm && <Lens trace={trace} layer={null} go={() => (location.hash = walk)} />}</Answer>
      <More view="layers" values={{ text }}>Every step between two rows, with its numbers, in the view Layers</More>
    </>
  );
}

function NextSentence({ model }: { model: string }) {
  const pairs = [[whole, follower], [whole, other]];
  const asked = useAnswer<number[]>("next-sentence", { model, inputs: pairs });
  const titles = ["B is the next sentence of the article", "B is of another article"];
  return (
    <>
      <Answer asked={asked} class="masks" isLive>
        {(shares) =>
          shares.map((share, i) => (
            <div class="card">
              <h3>{titles[i]}</h3>
              <p class="note">A: {pairs[i][0]}</p>
              <p class="note">B: {pairs[i][1]}</p>
              <Bars rows={nextSentenceRows(share)} name={titles[i]} />
            </div>
          ))
        }
      </Answer>
      <More view="pairs" values={{ text: whole, pair: follower }}>Your own sentences, in the view Pairs</More>
    </>
  );
}

const STEPS = [
  {
    title: "Tokens and embeddings",
    lead: "BERT reads two sentences as one sequence: [CLS] goes before them, [SEP] after each. The vector of every token is the sum of three rows of tables (figure 2 of the paper).",
    needs: "encode" as const, Body: Embeddings,
  },
  {
    title: "Masking",
    lead: "Pre-training predicts 15% of the tokens. 80% of these become [MASK], 10% a random token, and 10% stay (section 3.1), because fine-tuning has no [MASK]. The draws are those of cloze pretrain for a seed.",
    needs: "encode" as const, Body: Masking,
  },
  {
    title: "Attention",
    lead: `From here on, “${answer}” is hidden. In ${chosen.model.name}, head ${head + 1} of layer ${layer + 1} looks from [MASK] at “${token}”, the word that decides; without this head, which the last part switches off, its answer is another.`,
    needs: "fill" as const, Body: Attention,
  },
  {
    title: "Layers",
    lead: "The heads of a layer add to the vector of [MASK] what they found in other tokens, and its feed-forward layer adds to that. The MLM head reads the vector after the last layer; here also after each earlier one.",
    needs: "fill" as const, recorded: "layers", Body: Layers,
  },
  {
    title: "Next sentence",
    lead: "The second task of pre-training: the last vector of [CLS] says whether B follows A. In training B is the next sentence half of the time, otherwise one of another document.",
    needs: "next-sentence" as const, Body: NextSentence,
  },
];
