/** Slices of the answers of a file: how many rows of each are wrong, by label, length or unknown words. */

import { setValues, useKept } from "../address";
import type { GradedAnswer } from "../answers-file";
import { grouped, percent } from "../format";
import { barCell, Choice, range, Table, useParts } from "../parts";
import { ask } from "../server";

const BINS = 4;
const TEXTS_AT_ONCE = 128;
const UNKNOWN = new Set(["[UNK]", "<unk>"]);
const KINDS = [["label", "gold label"], ["length", "length"], ["unknown", "unknown words"]] as const;

interface Slice {
  name: string;
  rows: number[];
}

/** A table of slices, one of which may be chosen. The second model has answered if `others` is as long as the rows. */
export function Slices(props: { rows: GradedAnswer[]; found: ReturnType<typeof useSlices>; second: string; others: { answer: string }[]; areAllWrong: boolean }) {
  const { rows, second, others, areAllWrong, found: { kind, slices, note } } = props;
  const [chosen] = useKept("slice", "");
  const choose = (slice?: string, by = kind) => setValues({ slice, by, ...(slice && { show: "all" }) }, true);
  const hasSecond = Boolean(second) && others.length === rows.length;
  const wrongOf = (slice: Slice, answers: { answer: string }[]) => slice.rows.filter((i) => answers[i].answer !== rows[i].gold).length;
  const rate = (wrong: number, { rows }: Slice) => [barCell(wrong / rows.length), percent(wrong / rows.length)];
  const rateHead = (title: string) => [<th scope="col" class="rate">{title}</th>, <td />];
  const button = ({ name }: Slice) => (
    <button type="button" class="link" aria-pressed={chosen === name} onClick={() => choose(chosen === name ? undefined : name)}>{name}</button>
  );
  const cellsOf = (slice: Slice) => [
    button(slice),
    grouped(slice.rows.length),
    ...(areAllWrong ? [] : [grouped(wrongOf(slice, rows)), ...rate(wrongOf(slice, rows), slice)]),
    ...(hasSecond ? rate(wrongOf(slice, others), slice) : []),
  ];
  return (
    <div class="card">
      <p class="controls"><Choice label="Errors by" all={KINDS} value={kind} set={(value) => choose(undefined, value)} /></p>
      {note !== undefined ? <p class="note" role="status">{note}</p> : (
        <Table
          class="bars slices"
          name={`Errors by ${KINDS.find(([key]) => key === kind)?.[1]}`}
          head={["slice", "rows", ...(areAllWrong ? [] : ["wrong", ...rateHead("error rate")]), ...(hasSecond ? rateHead(second) : [])]}
          rows={slices.map((slice) => ({ cells: cellsOf(slice) }))}
        />
      )}
      {areAllWrong && <p class="note">The file has wrong answers alone: which share of a slice is wrong cannot be known. <code>cloze evaluate -o</code> writes all answers.</p>}
    </div>
  );
}

/** The slices of the chosen kind, or a note why there are none yet. */
export function useSlices(rows: GradedAnswer[], model?: string): { kind: string; slices: Slice[]; note?: string } {
  const [kind] = useKept("by", "label");
  const { found: counts, error } = useParts(kind === "unknown" && model ? model : "", rows, TEXTS_AT_ONCE, async (part, signal) => {
    const tokens: { text: string }[][] = await ask("tokenize", { model, inputs: part.map(({ texts }) => texts.join(" ")) }, signal);
    return tokens.map((all) => all.filter(({ text }) => UNKNOWN.has(text)).length);
  });
  if (kind === "length") return { kind, slices: byLength(rows) };
  if (kind !== "unknown") return { kind, slices: sliced(rows, ({ gold }) => gold || "–") };
  if (!model) return { kind, slices: [], note: "Unknown words are those of a vocabulary: serve the model that gave these answers." };
  if (error || counts.length < rows.length) return { kind, slices: [], note: error || `${grouped(counts.length)} of ${grouped(rows.length)} texts tokenized` };
  return { kind, slices: sliced(rows, (_, i) => ["no unknown word", "1 unknown word", "2 or more unknown words"][Math.min(2, counts[i])]) };
}

function sliced(rows: GradedAnswer[], nameOf: (row: GradedAnswer, i: number) => string): Slice[] {
  const all = new Map<string, number[]>();
  rows.forEach((row, i) => {
    const name = nameOf(row, i);
    all.set(name, [...(all.get(name) ?? []), i]);
  });
  return [...all].map(([name, rows]) => ({ name, rows })).sort((a, b) => (a.name < b.name ? -1 : 1));
}

/** Slices of about the same number of rows, by the number of words. */
function byLength(rows: GradedAnswer[]): Slice[] {
  const lengths = rows.map(({ texts }) => texts.join(" ").match(/\S+/g)?.length ?? 0);
  const sorted = [...lengths].sort((a, b) => a - b);
  const ends = [...new Set(range(BINS).map((bin) => sorted[Math.ceil(((bin + 1) * sorted.length) / BINS) - 1]))];
  return ends.map((end, bin) => {
    const start = bin ? ends[bin - 1] + 1 : sorted[0];
    return { name: start === end ? `${end} words` : `${start} to ${end} words`, rows: range(rows.length).filter((i) => lengths[i] >= start && lengths[i] <= end) };
  });
}
