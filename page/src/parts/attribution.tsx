/** Words shaded by their contribution to a score. */

import { fixed, part } from "../format";
import { Shades } from "./shades";

export interface AttributedWord {
  word: string;
  segment: string;
  start: number;
  end: number;
  attribution: number;
}

const LISTED = 8;

/** Texts with their words shaded: one color for the prediction, the other against it, gray what was not read. */
export function ShadedTexts({ texts, words, isTruncated }: { texts: string[]; words: AttributedWord[]; isTruncated: boolean }) {
  const largest = Math.max(1e-9, ...words.map(({ attribution }) => Math.abs(attribution)));
  return (
    <>
      {texts.map((text, i) => {
        if (!text) return null;
        let end = 0;
        return (
          <p class="running" dir="auto">
            {words.filter(({ segment }) => segment === "AB"[i]).map((word) => {
              const before = part(text, end, word.start);
              end = word.end;
              return (
                <>
                  {before}
                  <mark
                    class={word.attribution < 0 ? "against" : "for"}
                    title={fixed(word.attribution, 4)}
                    style={{ "--strength": `${Math.round((100 * Math.abs(word.attribution)) / largest)}%` }}
                  >
                    {part(text, word.start, end)}
                  </mark>
                </>
              );
            })}
            {isTruncated ? <s class="unread" title="The model did not read this">{part(text, end)}</s> : part(text, end)}
          </p>
        );
      })}
      <Shades kind="signed-cell" from={fixed(-largest)} to={`+${fixed(largest)}`}>
        A word <span class="key fill-key">for</span> the class raises its score, a word <span class="key below-key">against</span> it lowers
        it: the full color is the largest contribution here.
      </Shades>
    </>
  );
}

/** The words with the largest contributions, as bars to both sides. */
export function Contributions({ words }: { words: AttributedWord[] }) {
  const ranked = [...words].sort((a, b) => Math.abs(b.attribution) - Math.abs(a.attribution)).slice(0, LISTED);
  const largest = Math.max(1e-9, Math.abs(ranked[0]?.attribution ?? 0));
  return (
    <table class="bars" aria-label="Largest contributions">
      <tbody>
        {ranked.map(({ word, attribution }) => {
          const width = (50 * Math.abs(attribution)) / largest;
          return (
            <tr>
              <th scope="row">{word}</th>
              <td class="bar">
                <svg viewBox="0 0 100 8" preserveAspectRatio="none" aria-hidden="true">
                  <rect class={attribution < 0 ? "below" : "fill"} x={attribution < 0 ? 50 - width : 50} width={width} height={8} />
                  <rect class="zero" x={49.9} width={0.2} height={8} />
                </svg>
              </td>
              <td>{(attribution > 0 ? "+" : "") + fixed(attribution)}</td>
            </tr>
          );
        })}
      </tbody>
    </table>
  );
}
