/** Texts with marked spans, and the part of a text beyond the limit of the model. */

import type { ComponentChildren } from "preact";
import { part } from "../format";

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
