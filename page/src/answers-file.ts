/** The answers to labeled texts that `cloze evaluate` writes with -o or --errors, or `finetune --folds`, as JSON lines, CSV or TSV. */

/** The answer to a labeled text, or to a part of it. */
export interface GradedAnswer {
  /** The number of the example in the data, from 1, or its id. */
  number: string;
  texts: string[];
  /** The part of the text that the answer is for, such as a tagged word. */
  part: string;
  gold: string;
  answer: string;
  /** Probability of the answer; null if the file has none. */
  confidence: number | null;
  /** Why the gold label is probably wrong; "" if it is not suspected. */
  doubt: string;
}

type Row = Record<string, unknown>;

const ANSWERS = ["prediction", "label", "labels"]; // of --errors, of classes, of sets of labels
/** Between the labels of a set, which are in alphabetical order. */
export const SET_SEPARATOR = ", ";

/** Read a file; throws an error with a message for the reader. */
export function readAnswers(name: string, content: string): GradedAnswer[] {
  const rows = /^\s*\{/.test(content) ? jsonRows(name, content) : tableRows(content, /\.tsv$/i.test(name) ? "\t" : ",");
  if (!rows.length) throw new Error(`${name} has no rows.`);
  const key = ANSWERS.find((column) => column in rows[0]);
  if (!("gold" in rows[0]) || !key) {
    throw new Error(`${name} has no column “${key ? "gold" : "prediction"}”. Open a file that cloze evaluate wrote: of classes with -o or --errors, of other tasks with --errors.`);
  }
  const shownAnswer = key === "labels" ? shownSet : shown;
  return rows.map((row, i) => {
    const confidence = row.confidence ?? row.probability ?? "";
    return {
      number: shown(row.id ?? row.row ?? i + 1),
      texts: [row.text ?? row.question ?? row.prompt ?? "", row.pair ?? ""].map(shown).filter((text, place) => place === 0 || text),
      part: shown(row.word ?? ""),
      gold: shownAnswer(row.gold),
      answer: shownAnswer(row[key]),
      confidence: confidence === "" ? null : Number(confidence),
      doubt: shown(row.reason),
    };
  });
}

function jsonRows(name: string, content: string): Row[] {
  return content.split("\n").flatMap((line, i) => {
    if (!line.trim()) return [];
    try {
      return [JSON.parse(line)];
    } catch {
      throw new Error(`${name}:${i + 1} is not JSON.`);
    }
  });
}

/** The rows of CSV or TSV; cells in quotation marks may have separators, line ends and doubled quotation marks. */
function tableRows(content: string, separator: string): Row[] {
  const cell = new RegExp(`(?:"([^"]*(?:""[^"]*)*)"|([^${separator}\\r\\n]*))(${separator}|\\r?\\n|$)`, "y");
  const rows: string[][] = [[]];
  while (cell.lastIndex < content.length) {
    const [, quoted, plain, end] = cell.exec(content) ?? ["", undefined, content.slice(cell.lastIndex), ""];
    rows[rows.length - 1].push(quoted === undefined ? plain : quoted.replaceAll('""', '"'));
    if (!end) break;
    if (end !== separator) rows.push([]);
  }
  const [names, ...cells] = rows.filter((row) => row.length);
  return cells.map((row) => Object.fromEntries(names.map((name, i) => [name, row[i] ?? ""])));
}

function shown(value: unknown): string {
  return String(value ?? "");
}

/** A set of labels as text; in a table it is JSON. */
function shownSet(value: unknown): string {
  const labels = typeof value === "string" && value.startsWith("[") ? JSON.parse(value) : value;
  return Array.isArray(labels) ? [...labels].sort().join(SET_SEPARATOR) : shown(value);
}
