/** Errors: the answers to labeled texts from `cloze evaluate`, the confusion matrix, and why a model gives an answer. */

import { useContext, useEffect, useMemo, useState } from "preact/hooks";
import { setValues, useKept, usePlace } from "../address";
import { type GradedAnswer, readAnswers, SET_SEPARATOR } from "../answers-file";
import { grouped, percent } from "../format";
import { type LabelScore, predictedOf } from "../labels";
import { Choice, Command, Explanations, Head, Models, Problem, Scroll, Shades, strengthOf, Table, TextField, useParts, useSecond } from "../parts";
import { ask, refused } from "../server";
import { Slices, useSlices } from "./slices";

const MAX_CLASSES = 20; // of the matrix
const OTHERS = "(others)";
const NO_ROW = { row: undefined, edit: undefined, "edit-pair": undefined }; // closes the open row
const EMPTY_SET = "–"; // no labels
const ROWS_AT_ONCE = 50;
const INPUTS_AT_ONCE = 32; // answers appear while others are computed
const COMMAND = "cloze evaluate -m RUN -d FILE -o answers.jsonl && cloze serve -m RUN --evaluation answers.jsonl";

interface File {
  name: string;
  rows: GradedAnswer[];
}

/** The answer of the second model; a set of labels has no confidence. */
type OtherAnswer = Pick<GradedAnswer, "answer" | "confidence">;

type SortKey = "number" | "gold" | "answer" | "confidence" | "other";

let kept: File | null = null; // while another view is open

export function Errors() {
  const [file, setFile] = useState<File | null>(kept);
  const [error, setError] = useState("");
  const [isAsked, setIsAsked] = useState(kept !== null);
  const read = (name: string, content: string) => {
    try {
      kept = { name, rows: readAnswers(name, content) };
      setFile(kept);
      setError("");
    } catch (problem) {
      setError((problem as Error).message);
    }
  };
  const open = async (chosen?: globalThis.File) => {
    if (!chosen) return;
    const content = await chosen.text();
    setValues({ gold: undefined, answer: undefined, slice: undefined, ...NO_ROW });
    read(chosen.name, content);
  };
  useEffect(() => {
    if (kept) return;
    ask("explore/evaluation").then(({ name, content }) => {
      if (name !== null && !kept) read(name, content);
      setIsAsked(true);
    }, refused(setError));
  }, []);
  const drop = (event: DragEvent) => {
    event.preventDefault();
    open(event.dataTransfer?.files[0]);
  };
  return (
    <section class="part" onDragOver={(event) => event.preventDefault()} onDrop={drop}>
      <Head title="Where is the model wrong?">
        <label class="chip open-file">
          Open a file
          <input type="file" accept=".jsonl,.ndjson,.csv,.tsv" onChange={(event) => open(event.currentTarget.files?.[0])} />
        </label>
      </Head>
      <p class="lead">
        The answers to labeled texts that <code>cloze evaluate</code> wrote. A cell of the confusion matrix selects its rows, and a row shows why:
        change its text there, and see what changes the answer.
      </p>
      <Problem>{error}</Problem>
      <div class="part-body">
        {file ? (
          <Answers key={file.name} file={file} />
        ) : (
          isAsked && <p class="missing">Open or drop a file that <code>cloze evaluate</code> wrote with -o or --errors, or serve it beside the model: <Command>{COMMAND}</Command></p>
        )}
      </div>
    </section>
  );
}

/** The served models with the labels of a file's answers; the first one explains. */
function useModelsOf({ rows }: File): string[] {
  const models = useContext(Models);
  return useMemo(() => {
    const answers = [...new Set(rows.map(({ answer }) => answer))];
    const knows = (labels: string[], answer: string) => labels.includes(answer) || answer.split(SET_SEPARATOR).every((label) => !label || labels.includes(label));
    return models.filter(({ abilities, labels }) => abilities.includes("predict") && answers.every((answer) => knows(labels, answer))).map(({ name }) => name);
  }, [models, rows]);
}

function Answers({ file }: { file: File }) {
  const { rows } = file;
  const { values } = usePlace();
  const able = useModelsOf(file);
  const [kept, setModel] = useKept("model", able[0] ?? "");
  const model = able.includes(kept) ? kept : able[0];
  const [second, choiceOfSecond] = useSecond(model ?? "");
  const { key: other, found: others, error } = useParts(second, rows, INPUTS_AT_ONCE, async (part, signal) => {
    const found: LabelScore[][] = await ask("predict", { model: second, inputs: part.map(({ texts }) => texts) }, signal);
    return found.map(answerOf);
  });
  const slices = useSlices(rows, model);
  const slice = slices.slices.find(({ name }) => name === values.slice);
  const areAllWrong = rows.every(({ gold, answer }) => gold !== answer);
  const areSuspected = rows.some(({ doubt }) => doubt);
  const [show, setShow] = useKept("show", areSuspected ? "suspected" : areAllWrong ? "all" : "wrong");
  const [sort] = useKept("sort", "confidence");
  const isDown = (values.down ?? (sort === "confidence" || sort === "other" ? "1" : "")) === "1";
  const matrix = useMemo(() => confusionMatrix(rows), [rows]);
  const [most, setMost] = useState(ROWS_AT_ONCE);
  const inCell = useCell(matrix.classes);
  const isWrong = (i: number) => rows[i].gold !== rows[i].answer;
  const filters: [string, string, (i: number) => boolean][] = [["all", "All", () => true]];
  if (!areAllWrong) filters.push(["wrong", "Wrong", isWrong]);
  if (areSuspected) filters.push(["suspected", "Label probably wrong", (i) => rows[i].doubt !== ""]);
  if (other) filters.push(["differ", `${other} differs`, (i) => others[i] !== undefined && others[i].answer !== rows[i].answer]);
  const [, , isShown] = filters.find(([key]) => key === show) ?? ["", "", isWrong];
  const inSlice = slice && new Set(slice.rows);
  const numbers = rows.flatMap((row, i) => (inCell(row) && (!inSlice || inSlice.has(i)) ? [i] : []));
  const keyOf = (i: number) => (({ ...rows[i], number: i, confidence: rows[i].confidence ?? -1, other: others[i]?.confidence ?? -1 })[sort as SortKey]);
  const compare = (a: number | string, b: number | string) => (a < b ? -1 : Number(a > b));
  const shown = numbers.filter(isShown).sort((a, b) => (isDown ? -1 : 1) * compare(keyOf(a), keyOf(b)) || a - b);
  const sortBy = (key: SortKey) => {
    const isNumber = key === "confidence" || key === "other";
    const down = key === sort ? !isDown : isNumber;
    setValues({ sort: key === "confidence" ? undefined : key, down: down === isNumber ? undefined : down ? "1" : "0" }, true);
  };
  const cell = values.gold !== undefined ? `${values.gold || EMPTY_SET} → ${values.answer || EMPTY_SET}` : "";
  const leave = (kind: string, name: string, values: Record<string, undefined>) => (
    <button type="button" class="chip" aria-pressed="true" aria-label={`Leave the ${kind} ${name}`} onClick={() => setValues(values, true)}>{name} ✕</button>
  );
  const heading = (key: SortKey, name: string, css?: string) => (
    <th scope="col" class={css} aria-sort={sort === key ? (isDown ? "descending" : "ascending") : undefined}>
      <button type="button" class="link" onClick={() => sortBy(key)}>{name}<span aria-hidden="true">{sort === key ? (isDown ? " ↓" : " ↑") : ""}</span></button>
    </th>
  );
  return (
    <>
      <div class="card answers-overview">
        {matrix.classes.length > 1 && <Matrix {...matrix} of={areAllWrong ? "wrong answers to" : "texts of"} />}
        <div>
          <p><b>{file.name}</b>: {areAllWrong ? `${grouped(rows.length)} wrong answers` : `${grouped(rows.length)} answers, ${rightOf(rows, rows)}`}.</p>
          {other && !error && (
            <p role="status"><b>{other}</b>: {others.length < rows.length ? `${grouped(others.length)} of ${grouped(rows.length)} answered` : rightOf(rows, others)}.</p>
          )}
          <Problem>{error}</Problem>
          <p class="controls">
            {able.length > 1 && <Choice label="Explained by" all={able} value={model} set={setModel} />}
            {choiceOfSecond}
          </p>
          <p class="examples">
            <span class="muted">Show</span>
            {filters.map(([key, name, test]) => (
              <button type="button" class="chip" aria-pressed={show === key} onClick={() => setShow(key, true)}>{name}: {grouped(numbers.filter(test).length)}</button>
            ))}
            {cell && leave("cell", cell, { gold: undefined, answer: undefined })}
            {slice && leave("slice", slice.name, { slice: undefined })}
          </p>
        </div>
      </div>
      <Slices rows={rows} found={slices} second={other} others={others} areAllWrong={areAllWrong} />
      <div class="card">
        <table class="answers" aria-label="Answers">
          <thead>
            <tr>
              {heading("number", "row", "number")}
              <th scope="col">text</th>
              {heading("gold", "gold", "class")}
              {heading("answer", "answer", "class")}
              {heading("confidence", "confidence", "share")}
              {other && heading("other", other, "class")}
            </tr>
          </thead>
          <tbody>
            {shown.slice(0, most).map((i) => <Row row={rows[i]} key={i} index={i} model={model} second={other} other={others[i]} />)}
          </tbody>
        </table>
        {shown.length === 0 && <p class="muted">No row.</p>}
        {shown.length > most && <p class="examples"><button type="button" class="chip" onClick={() => setMost(most + ROWS_AT_ONCE)}>Show {Math.min(ROWS_AT_ONCE, shown.length - most)} more of {grouped(shown.length)}</button></p>}
      </div>
    </>
  );
}

/** A row of the file, which `model` explains, and once it is there the answer of the second model. */
function Row({ row, index, model, second, other }: { row: GradedAnswer; index: number; model?: string; second: string; other?: OtherAnswer }) {
  const [chosen] = useKept("row", "");
  const isOpen = chosen === String(index);
  const toggle = () => setValues({ ...NO_ROW, row: isOpen ? undefined : String(index) }, true);
  return (
    <>
      <tr class={isOpen ? "open" : undefined}>
        <td class="number">{row.number}</td>
        <td>
          <button type="button" class="link text" dir="auto" aria-expanded={isOpen} onClick={toggle}>
            {row.part && <b>{row.part}: </b>}
            {row.texts.join(" ⸱ ") || "(no text)"}
          </button>
        </td>
        <td>{row.gold || EMPTY_SET}</td>
        <td class={row.gold === row.answer ? undefined : "wrong"}>{row.answer || EMPTY_SET}</td>
        <td class="share">{row.confidence === null ? "–" : percent(row.confidence)}</td>
        {second && <td class={!other || other.answer === row.gold ? undefined : "wrong"}>{other && <>{other.answer || EMPTY_SET} {other.confidence !== null && <small>{percent(other.confidence)}</small>}</>}</td>}
      </tr>
      {isOpen && <tr class="reason"><td colSpan={second ? 6 : 5}>{row.doubt && <p class="note">{row.doubt}</p>}<Reason row={row} model={model} second={second} /></td></tr>}
    </>
  );
}

/** The explanation of an answer, below the text of its row, which can be edited. */
function Reason({ row, model, second }: { row: GradedAnswer; model?: string; second: string }) {
  const text = useKept("edit", row.texts[0]);
  const pair = useKept("edit-pair", row.texts[1] ?? "");
  const isEdited = text[0] !== row.texts[0] || pair[0] !== (row.texts[1] ?? "");
  if (!model) return <p class="note">No model that is served here has these classes. Serve the one that gave these answers: <Command>cloze serve -m RUN</Command></p>;
  if (!row.texts[0]) return <p class="note">The file has no texts.</p>;
  return (
    <>
      <div class={row.texts.length > 1 ? "text-and-pair" : undefined}>
        <TextField label="Text: change it to see what changes the answer" kept={text} />
        {row.texts.length > 1 && <TextField label="Second text" kept={pair} />}
      </div>
      {isEdited && <p class="examples"><button type="button" class="chip" onClick={() => setValues({ edit: undefined, "edit-pair": undefined }, true)}>Undo the edit</button></p>}
      <Explanations key={`${model} ${second}`} models={second ? [model, second] : [model]} texts={row.texts.length > 1 ? [text[0], pair[0]] : [text[0]]} before={row.texts} apply={([edit, other]) => setValues({ edit, ...(other !== undefined && { "edit-pair": other }) }, true)} />
    </>
  );
}

function rightOf(rows: GradedAnswer[], answers: { answer: string }[]): string {
  const right = rows.filter(({ gold }, i) => gold === answers[i].answer).length;
  return `${grouped(right)} right (${percent(right / rows.length)})`;
}

/** The classes, or those with the most errors and OTHERS, and counts by gold (row) and answer (column). */
function confusionMatrix(rows: GradedAnswer[]): { classes: string[]; counts: number[][] } {
  const errors = new Map<string, number>();
  for (const { gold, answer } of rows) {
    for (const name of [gold, answer]) errors.set(name, (errors.get(name) ?? 0) + (gold === answer ? 0 : 1));
  }
  let classes = [...errors.keys()].sort();
  if (classes.length > MAX_CLASSES) {
    const worst = classes.sort((a, b) => errors.get(b)! - errors.get(a)!).slice(0, MAX_CLASSES - 1);
    classes = [...worst.sort(), OTHERS];
  }
  const place = new Map(classes.map((name, i) => [name, i]));
  const counts = classes.map(() => classes.map(() => 0));
  for (const { gold, answer } of rows) counts[place.get(gold) ?? classes.length - 1][place.get(answer) ?? classes.length - 1]++;
  return { classes, counts };
}

/** Whether a row is in the selected cell of the matrix; true for all rows if no cell is selected. */
function useCell(classes: string[]): (row: GradedAnswer) => boolean {
  const { gold, answer } = usePlace().values;
  const is = (wanted: string, name: string) => wanted === name || (wanted === OTHERS && !classes.includes(name));
  return (row) => gold === undefined || (is(gold, row.gold) && is(answer ?? "", row.answer));
}

function Matrix({ classes, counts, of }: { classes: string[]; counts: number[][]; of: string }) {
  const { values } = usePlace();
  const cell = (gold: string, answer: string, count: number, share: number) => {
    const isChosen = values.gold === gold && values.answer === answer;
    const choose = () => setValues(isChosen ? { gold: undefined, answer: undefined } : { gold, answer, show: "all", ...NO_ROW }, true);
    const name = `gold ${gold || EMPTY_SET}, answer ${answer || EMPTY_SET}: ${count}`;
    return (
      <td style={strengthOf(share)}>
        {count > 0 && <button type="button" class="link" aria-pressed={isChosen} aria-label={name} onClick={choose}>{grouped(count)}</button>}
      </td>
    );
  };
  const rows = classes.map((gold, y) => {
    const sum = counts[y].reduce((total, count) => total + count, 0);
    return { cells: [gold || EMPTY_SET, ...classes.map((answer, x) => cell(gold, answer, counts[y][x], counts[y][x] / (sum || 1)))] };
  });
  return (
    <div>
      <Scroll label="Confusion matrix">
        <Table class="heat confusion" name="Confusion matrix" head={["gold ↓ answer →", ...classes.map((name) => name || EMPTY_SET)]} rows={rows} />
      </Scroll>
      <Shades kind="cell" from="0%" to="100%">of the {of} a gold class</Shades>
    </div>
  );
}

/** The answer of a model as in a file: a label with its probability, or a set of labels. */
function answerOf(scores: LabelScore[]): OtherAnswer {
  const answer = predictedOf(scores).map(({ label }) => label).sort().join(SET_SEPARATOR);
  return { answer, confidence: scores[0].threshold === undefined ? scores[0].score : null };
}
