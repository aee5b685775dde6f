/** The answers of a model without attention heads: beside those with all heads, and as the effect of each head. */

import { fixed, isMask, percent } from "../format";
import { type BarRow, Bars, nextSentenceRows } from "../parts/charts";
import type { Candidate } from "../parts/models";

interface Answers {
  /** The candidates for each masked token. */
  masks: Candidate[][] | null;
  /** The probability of the token that is the first candidate with all heads. */
  first: number[] | null;
  is_next: number | null;
  /** The probability of each label; a number is called score. */
  labels: Record<string, number> | null;
}
export interface Ablated {
  tokens: string[];
  masked: number[];
  all: Answers;
  /** Without the heads of the question, or without each head alone. */
  without: Answers[];
  is_truncated: boolean;
}

/** What removing heads does to one answer. */
export interface Effect {
  name: string;
  /** A probability, or the number of a regression. */
  isShare: boolean;
  before: number;
  after: number[];
  /** The most probable answer instead of the first one, or undefined. */
  becomes: (string | undefined)[];
}

export function effectsOf({ tokens, masked, all, without }: Ablated): Effect[] {
  const best = (labels: Record<string, number>) => Object.keys(labels).reduce((a, b) => (labels[b] > labels[a] ? b : a));
  const other = (now: string, then: string) => (now === then ? undefined : now);
  const labels = Object.entries(all.labels ?? {}).sort(([, a], [, b]) => b - a);
  return [
    ...(all.masks ?? []).map(([{ token }], i) => ({
      name: `“${token}” for ${placeOf(tokens, masked, i)}`,
      isShare: true,
      before: all.first![i],
      after: without.map(({ first }) => first![i]),
      becomes: without.map(({ masks }) => other(masks![i][0].token, token)),
    })),
    ...(all.is_next === null ? [] : [{
      name: "B follows A",
      isShare: true,
      before: all.is_next,
      after: without.map(({ is_next }) => is_next!),
      becomes: without.map(({ is_next }) => (is_next! > 0.5 === all.is_next! > 0.5 ? undefined : is_next! > 0.5 ? "B follows A" : "B does not")),
    }]),
    ...labels.map(([label, before]) => ({
      name: label === "score" && labels.length === 1 ? "the number" : `“${label}”`,
      isShare: !(label === "score" && labels.length === 1),
      before,
      after: without.map(({ labels }) => labels![label]),
      becomes: without.map(({ labels }) => other(best(labels!), best(all.labels!))),
    })),
  ];
}

function placeOf(tokens: string[], masked: number[], i: number): string {
  const token = tokens[masked[i]];
  return isMask(token) ? `${token}${masked.length > 1 ? ` ${i + 1}` : ""}` : `“${token}”, masked`;
}

/** Each answer with all heads, beside the one without some, if any. */
export function Comparison({ found, without, reduced }: { found: Ablated; without?: Answers; reduced: string }) {
  const { all, tokens, masked } = found;
  const both = (title: string, rows: (answers: Answers) => BarRow[]) => (
    <>
      <h4>{title}</h4>
      <div class="before-after">
        <div><p class="note">All heads</p><Bars rows={rows(all)} name={`${title}, all heads`} /></div>
        {without && <div><p class="note">{reduced}</p><Bars rows={rows(without)} name={`${title}, without heads`} /></div>}
      </div>
      {without && <p class="remark">{changeOf(rows(all), rows(without))}</p>}
    </>
  );
  const isNumber = all.labels && "score" in all.labels && Object.keys(all.labels).length === 1;
  return (
    <>
      {all.masks?.map((_, i) =>
        both(placeOf(tokens, masked, i), ({ masks }) =>
          masks![i].map(({ token, probability }) => ({ label: token, share: probability, strong: token === tokens[masked[i]] })),
        ),
      )}
      {all.is_next !== null && both("Next sentence", ({ is_next }) => nextSentenceRows(is_next!))}
      {isNumber ? (
        <p class="answer">{fixed(all.labels!.score)}{without && ` → ${fixed(without.labels!.score)}`}</p>
      ) : (
        all.labels && both("Labels", ({ labels }) => Object.entries(labels!).map(([label, share]) => ({ label, share })))
      )}
      {found.is_truncated && <p class="note">The text is longer than the classifier reads: only its beginning counts.</p>}
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
