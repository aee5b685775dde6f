/** Texts with marked spans, the contributions of words to the score of a class, and the part of a text beyond the limit of the model. */

import type { ComponentChildren } from "preact";
import { fixed, part, positive } from "../format";
import { Shades, Table } from "./charts";
import { largestOf, strengthOf } from "./drawing";

const LISTED = 8;

interface Span {
  start: number;
  end: number;
}

/** A text with its spans as `children` draws them; with `isTruncated` the rest is gray, which the model did not read. */
export function MarkedText<T extends Span>(props: { text: string; spans: T[]; class?: string; isTruncated?: boolean; children: (span: T, words: string) => ComponentChildren }) {
  const { text, spans, class: css, isTruncated, children } = props;
  const ends = [0, ...spans.map(({ end }) => end)];
  const rest = part(text, ends[spans.length]);
  return (
    <p class={css ? `running ${css}` : "running"} dir="auto">
      {spans.map((span, i) => <>{part(text, ends[i], span.start)}{children(span, part(text, span.start, span.end))}</>)}
      {isTruncated ? <s class="unread" title="The model did not read this">{rest}</s> : rest}
    </p>
  );
}

export function Truncated() {
  return <p class="note">The text is longer than the model reads: the gray part does not count.</p>;
}

interface AttributedWord extends Span {
  word: string;
  segment: string;
  attribution: number;
}

export interface Explanation {
  texts: string[];
  explained: string;
  output: number;
  baseline_output: number;
  convergence_gap: number;
  steps: number;
  truncated: boolean;
  words: AttributedWord[];
}

/** The end of the color scale of explanations that are side by side, or of one alone. */
export function largestContribution(explanations: { words: AttributedWord[] }[]): number {
  return largestOf(explanations.flatMap(({ words }) => words.map(({ attribution }) => attribution)));
}

/** An explained prediction: its texts, the largest contributions, and their sum. */
export function Attribution(props: Explanation & { largest?: number; isTitled?: boolean }) {
  const { texts, words, explained, truncated, output, baseline_output, steps, convergence_gap, largest = largestContribution([props]), isTitled } = props;
  return (
    <>
      {isTitled && <h3>Words for and against “{explained}”</h3>}
      <ShadedTexts texts={texts} words={words} isTruncated={truncated} largest={largest} />
      {truncated && <Truncated />}
      <h3 class="later">Largest contributions</h3>
      <Contributions words={words} largest={largest} />
      <p class="remark">
        A text of masks scores {fixed(baseline_output)}, and the words add {fixed(output - baseline_output)}, which makes {fixed(output)}.
        Their sum in {steps} steps is off by {positive(Math.abs(convergence_gap), 4)}.
      </p>
    </>
  );
}

/** Texts with words shaded in one color for the class, in another against it. */
function ShadedTexts({ texts, words, isTruncated, largest }: { texts: string[]; words: AttributedWord[]; isTruncated: boolean; largest: number }) {
  return (
    <>
      {texts.map((text, i) => text && (
        <MarkedText text={text} spans={words.filter(({ segment }) => segment === "AB"[i])} isTruncated={isTruncated}>
          {({ attribution }, shown) => <mark class={attribution < 0 ? "against" : "for"} title={fixed(attribution, 4)} style={strengthOf(Math.abs(attribution) / largest)}>{shown}</mark>}
        </MarkedText>
      ))}
      <Shades kind="signed-cell" from={fixed(-largest)} to={`+${fixed(largest)}`}>
        A word <span class="key">for</span> it raises the score, a word <span class="key below-key">against</span> it lowers
        the score: the full color is the largest contribution here.
      </Shades>
    </>
  );
}

/** The words with the largest contributions, as bars to the left or right of zero. */
function Contributions({ words, largest }: { words: AttributedWord[]; largest: number }) {
  const ranked = [...words].sort((a, b) => Math.abs(b.attribution) - Math.abs(a.attribution)).slice(0, LISTED);
  const bar = (value: number) => {
    const width = (50 * Math.abs(value)) / largest;
    return (
      <td class="bar">
        <svg viewBox="0 0 100 8" preserveAspectRatio="none" aria-hidden="true">
          <rect class={value < 0 ? "below" : "fill"} x={value < 0 ? 50 - width : 50} width={width} height={8} />
        </svg>
      </td>
    );
  };
  const rows = ranked.map(({ word, attribution: value }) => ({ cells: [word, bar(value), (value > 0 ? "+" : "") + fixed(value)] }));
  return <Table class="bars signed" name="Largest contributions" rows={rows} />;
}
