/** Ablation: the answers of a model with all attention heads, and with some switched off. */

import { useKept } from "../address";
import { fixed, moveFocus, percent } from "../format";
import { Answer, useAnswer } from "../parts/answer";
import { type BarRow, Bars, nextSentenceRows } from "../parts/charts";
import { type Candidate, useModel } from "../parts/models";
import { isMask } from "../texts";
import { type Attention, formatHeads, HeadGrid, parseHeads, SPECIAL, type Text } from "./attention";

interface Answers {
  /** The candidates for each masked token. */
  masks: Candidate[][] | null;
  is_next: number | null;
  /** The probability of each label; a number is called score. */
  labels: Record<string, number> | null;
  is_truncated: boolean;
}
interface Found {
  tokens: string[];
  masked: number[];
  all: Answers;
  without: Answers;
}

/** A card for a model that answers with words or labels. */
export function Ablation({ attention, text }: { attention: Attention; text: Text }) {
  const model = useModel(text.model)!;
  const [kept, setOff] = useKept("off", ""); // as in 1.2-2.3
  const [masked, setMasked] = useKept("masked", "");
  const { layers, heads, tokens } = attention;
  const off = parseHeads(kept, layers, heads);
  const isOff = (layer: number, head: number) => off.some(([l, h]) => l === layer && h === head);
  const toggle = (chosen: [number, number][]) => {
    const others = off.filter(([l, h]) => !chosen.some(([layer, head]) => l === layer && h === head));
    const areOff = chosen.every(([layer, head]) => isOff(layer, head));
    setOff(formatHeads(areOff ? others : [...others, ...chosen]), true);
  };

  const fills = model.abilities.has("fill");
  const hides = fills && !tokens.some(isMask);
  const words = tokens.flatMap((token, i) => (SPECIAL.has(token) ? [] : [i]));
  const hidden = words.find((i) => i === Number(masked) - 1) ?? words[words.length >> 1];
  const refusal = !model.abilities.has("predict")
    ? ""
    : text.pair && model.readsPairs === false
      ? "The model classifies single texts. Remove the second text to see its answer."
      : !text.pair && model.readsPairs
        ? "The model classifies pairs. Write a second text to see its answer."
        : "";
  const asked = useAnswer<Found>("explore/ablation", refusal ? null : { ...text, heads: off, token: hides ? hidden : null }, off);
  if (!fills && !model.abilities.has("next-sentence") && !model.abilities.has("predict")) return null;
  return (
    <div class="card">
      <h3>Switch heads off</h3>
      <p class="note">
        Click a head: its output becomes 0, and the rest of the model computes on. The number of a layer or of a head switches
        a whole line.
      </p>
      <div class="ablation">
        <HeadGrid
          attention={attention}
          isChosen={isOff}
          hint="crossed out: off"
          headName={(layer, head) => `Head ${head + 1} of layer ${layer + 1} off`}
          lineName={(heads) => `Switch ${heads} off or on`}
          choose={({ layer, head }) => toggle([[layer, head]])}
          chooseLine={toggle}
        />
        <div>
          <p class="examples">
            <button type="button" class="chip" disabled={!off.length} onClick={() => setOff("", true)}>All heads on</button>
            <span class="muted" role="status">{off.length ? `Off: ${off.map(nameOf).join(", ")}` : "No head is off."}</span>
          </p>
          {hides && (
            <p class="examples" role="group" aria-label="Word to mask" onKeyDown={moveFocus}>
              <span class="muted">Mask</span>
              {words.map((i) => (
                <button type="button" class="chip" aria-pressed={i === hidden} tabIndex={i === hidden ? 0 : -1} onClick={() => setMasked(String(i + 1), true)}>{tokens[i]}</button>
              ))}
            </p>
          )}
          {refusal ? <p class="muted later">{refusal}</p> : <Answer asked={asked} isLive>{(found, _, off) => <Comparison found={found} off={off} />}</Answer>}
        </div>
      </div>
    </div>
  );
}

function nameOf([layer, head]: [number, number]): string {
  return `layer ${layer + 1} head ${head + 1}`;
}

/** Each answer with all heads, beside the one without some. */
function Comparison({ found, off }: { found: Found; off: [number, number][] }) {
  const { all, without, tokens, masked } = found;
  const reduced = off.length === 1 ? `Without ${nameOf(off[0])}` : `Without ${off.length} heads`;
  const both = (title: string, rows: (answers: Answers) => BarRow[]) => (
    <>
      <h4>{title}</h4>
      <div class="before-after">
        <div><p class="note">All heads</p><Bars rows={rows(all)} name={`${title}, all heads`} /></div>
        {off.length > 0 && <div><p class="note">{reduced}</p><Bars rows={rows(without)} name={`${title}, without heads`} /></div>}
      </div>
      {off.length > 0 && <p class="remark">{changeOf(rows(all), rows(without))}</p>}
    </>
  );
  const score = all.labels && "score" in all.labels && Object.keys(all.labels).length === 1;
  return (
    <>
      {all.masks?.map((_, i) =>
        both(isMask(tokens[masked[i]]) ? `${tokens[masked[i]]}${masked.length > 1 ? ` ${i + 1}` : ""}` : `“${tokens[masked[i]]}”, masked`, ({ masks }) =>
          masks![i].map(({ token, probability }) => ({ label: token, share: probability, strong: token === tokens[masked[i]] })),
        ),
      )}
      {all.is_next !== null &&
        both("Next sentence", ({ is_next }) => nextSentenceRows(is_next!))}
      {score ? (
        <p class="answer">{fixed(all.labels!.score)}{off.length > 0 && ` → ${fixed(without.labels!.score)}`}</p>
      ) : (
        all.labels && both("Labels", ({ labels }) => Object.entries(labels!).map(([label, share]) => ({ label, share })))
      )}
      {all.is_truncated && <p class="note">The text is longer than the classifier reads: only its beginning counts.</p>}
    </>
  );
}

/** The most probable answer before and after. */
function changeOf(before: BarRow[], after: BarRow[]): string {
  const best = (rows: BarRow[]) => rows.reduce((first, row) => (row.share > first.share ? row : first));
  const [a, b] = [best(before), best(after)];
  return a.label === b.label
    ? `“${a.label}” stays first: ${percent(a.share)}, then ${percent(b.share)}.`
    : `The first answer changes from “${a.label}” (${percent(a.share)}) to “${b.label}” (${percent(b.share)}).`;
}
