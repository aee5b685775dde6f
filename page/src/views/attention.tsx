/** Attention within a text: all heads as small maps, one head or the mean of several as a map and as lines. */

import type { ComponentChildren } from "preact";
import { useMemo } from "preact/hooks";
import { setValues, useKept } from "../address";
import { arrow, moveFocus, percent, within } from "../format";
import { useWidth } from "../parts/chart";
import { Scroll, Shades } from "../parts/charts";
import { linkPath, range } from "../parts/drawing";
import { Slider, Switch } from "../parts/forms";
import { CellGrid } from "../parts/grid";
import { Pixels } from "../parts/pixels";
import { Picture } from "../parts/save";
import { isMask } from "../texts";
import { noteTyping } from "../typing";
import type { Cell } from "./row";

/** What is computed: a text, or a pair, from a token on, by a model. */
export type Text = {
  model: string;
  text: string;
  pair: string | null;
  start: number | null;
};

export interface Attention {
  tokens: string[];
  /** Places of the tokens that the vocabulary does not know. */
  unknown?: number[];
  segments: number[];
  layers: number;
  heads: number;
  /** A row of weights for each token that attends. */
  rows: (layer: number, head: number) => ArrayLike<number>[];
}

export const SPECIAL = new Set(["[CLS]", "[SEP]", "<s>", "</s>"]);
export const UNKNOWN = "The vocabulary does not know this: the model reads [UNK]";
const MIN_WINDOW = 6;
const WINDOW = 28;
const PHONE_WINDOW = 13;
const BETWEEN = {
  all: "All tokens",
  ab: "From A to B",
  ba: "From B to A",
  aa: "Within A",
  bb: "Within B",
};
type Between = keyof typeof BETWEEN;

/** The heads, tokens, map and lines of a text; `children` draws the steps of the chosen weight. */
export function AttentionExplorer({
  of: attention,
  children,
}: {
  of: Attention;
  children: (cell: Cell, choose: (to: number) => void) => ComponentChildren;
}) {
  const { tokens, segments, layers, heads } = attention;
  const size = tokens.length;
  const numbers = {
    layer: useKept("layer", String(Math.min(2, layers))),
    head: useKept("head", "1"),
    from: useKept("from", String(tokens.findIndex(isMask) + 1 || Math.min(3, size))),
    to: useKept("to", ""),
  };
  const [average, setAverage] = useKept("heads", ""); // as in 1.2-2.3; empty for one head
  const special = useKept("nospecial", "");
  const [between, setBetween] = useKept("between", "all");
  const [zoom, setZoom] = useKept("window", "");
  const [start, setStart] = useKept("at", "1.1");

  const layer = within(Number(numbers.layer[0]) - 1, layers);
  const head = within(Number(numbers.head[0]) - 1, heads);
  const averaged = parseHeads(average, layers, heads);
  const weights = useMemo(
    () => (averaged.length ? meanOf(averaged.map(([l, h]) => attention.rows(l, h))) : attention.rows(layer, head)),
    [attention, average, layer, head],
  );
  const hasPair = segments.includes(1);
  const side = (hasPair && between in BETWEEN ? between : "all") as Between;
  const isShown = (i: number, segment?: "a" | "b") =>
    !(special[0] && SPECIAL.has(tokens[i])) && (!segment || segments[i] === (segment === "b" ? 1 : 0));
  const fromTokens = range(size).filter((i) => isShown(i, side === "all" ? undefined : (side[0] as "a" | "b")));
  const toTokens = range(size).filter((i) => isShown(i, side === "all" ? undefined : (side[1] as "a" | "b")));
  const from = nearest(fromTokens, Number(numbers.from[0]) - 1);
  const strongest = toTokens.reduce((best, i) => (weights[from]?.[i] > weights[from]?.[best] ? i : best), toTokens[0] ?? 0);
  const to = numbers.to[0] ? nearest(toTokens, Number(numbers.to[0]) - 1) : strongest;

  const choose = (change: Partial<Cell>) => {
    noteTyping(); // no requests while the pointer moves over tokens
    const next = { layer, head, from, to: undefined as number | undefined, ...change };
    setValues({
      layer: String(next.layer + 1),
      head: String(next.head + 1),
      from: String(next.from + 1),
      to: next.to === undefined ? undefined : String(next.to + 1),
    });
  };
  const chooseHead = (next: { layer: number; head: number }) => {
    if (!average) return choose(next);
    const others = averaged.filter(([l, h]) => l !== next.layer || h !== next.head);
    const isNew = others.length === averaged.length;
    const kept = isNew ? [...others, [next.layer, next.head] as [number, number]] : others;
    setAverage(formatHeads(kept.length ? kept : averaged), true);
  };
  const averageAll = (chosen: [number, number][]) => setAverage(formatHeads(chosen), true);

  const longest = Math.max(fromTokens.length, toTokens.length);
  const count = Math.min(longest, Number(zoom) || (window.innerWidth < NARROW ? PHONE_WINDOW : WINDOW));
  const [rowStart, columnStart] = start.split(".").map(Number);
  const view = {
    rows: windowOf(fromTokens, count, rowStart - 1, from),
    columns: windowOf(toTokens, count, columnStart - 1, to),
  };
  const isWindowed = longest > Math.min(longest, MIN_WINDOW);
  const title = averaged.length
    ? `Mean of ${averaged.length} ${averaged.length === 1 ? "head" : "heads"}`
    : `Layer ${layer + 1}, head ${head + 1}`;
  const file = averaged.length ? "attention-mean" : `attention-layer-${layer + 1}-head-${head + 1}`;
  const isEmpty = !fromTokens.length || !toTokens.length;
  return (
    <>
      <div class="card">
        <h3>Attention: {title[0].toLowerCase() + title.slice(1)}</h3>
        <p class="note">
          Choose a head; a row of its map is a token that attends, a column a token it attends to. Then point at a token or
          move to it by arrow keys: the stronger the color of another token, the larger its weight.
        </p>
        <div class="pieces" role="group" aria-label="Tokens" onKeyDown={moveFocus}>
          {tokens.map((token, i) => (
            <button
              type="button"
              class={pieceClass(segments[i], attention.unknown?.includes(i))}
              title={attention.unknown?.includes(i) ? UNKNOWN : undefined}
              aria-pressed={i === from}
              tabIndex={i === from ? 0 : -1}
              aria-label={`${token}, attention weight ${percent(weights[from]?.[i] ?? 0)}`}
              style={{ "--strength": `${Math.round(100 * Math.sqrt(weights[from]?.[i] ?? 0))}%` }}
              onPointerEnter={(event) => event.pointerType === "mouse" && choose({ from: i })}
              onFocus={() => choose({ from: i })}
              onClick={() => choose({ from: i })}
            >
              {token}
              <small>{percent(weights[from]?.[i] ?? 0)}</small>
            </button>
          ))}
        </div>
        <Shades kind="cell" from="0%" to="100%">weight, in the maps too; the color grows with its square root</Shades>
        <div class="controls">
          <Switch label="Mean of several heads" kept={[averaged.length ? "1" : "", (value) => setAverage(value && formatHeads(range(heads).map((h) => [layer, h])), true)]} />
          <Switch label="Hide [CLS] and [SEP]" kept={special} />
          {hasPair && (
            <select aria-label="Which tokens attend to which" value={side} onChange={(event) => setBetween(event.currentTarget.value, true)}>
              {Object.entries(BETWEEN).map(([key, name]) => <option value={key}>{name}</option>)}
            </select>
          )}
          {isWindowed && (
            <Slider
              label="Tokens in view"
              min={MIN_WINDOW}
              max={longest}
              value={count}
              text={`${count} of ${longest}`}
              set={(value) => setZoom(String(value))}
            />
          )}
        </div>
        {isEmpty ? (
          <p class="muted later">No token is left to show.</p>
        ) : (
          <div class="look">
            <HeadGrid
              attention={attention}
              isChosen={(l, h) => (averaged.length ? averaged.some(([a, b]) => a === l && b === h) : l === layer && h === head)}
              isMean={averaged.length > 0}
              choose={chooseHead}
              chooseLine={averageAll}
              box={longest > count ? { ...view, size } : undefined}
              moveWindow={(row, column) => setStart(`${indexIn(fromTokens, row) - (count >> 1) + 1}.${indexIn(toTokens, column) - (count >> 1) + 1}`)}
              weights={weights}
            />
            <Picture name={file}>
              <Matrix
                tokens={tokens}
                weights={weights}
                rows={view.rows}
                columns={view.columns}
                from={from}
                to={to}
                allRows={fromTokens}
                allColumns={toTokens}
                choose={(from, to) => choose({ from, to })}
              />
            </Picture>
          </div>
        )}
        {!isEmpty && (
          <>
            <h3 class="later">As lines</h3>
            <p class="note">
              From each token on the left to the tokens it attends to, where the weight is at least {percent(MIN_WEIGHT)}. Point at a token
              to see its lines in full color.
            </p>
            <Picture name={`${file}-lines`}>
              <Scroll label="Attention as lines">
                <Lines tokens={tokens} weights={weights} rows={view.rows} columns={view.columns} from={from} choose={(from) => choose({ from })} />
              </Scroll>
            </Picture>
          </>
        )}
      </div>
      <div class="card">
        <h3>One attention weight, step by step</h3>
        {averaged.length ? (
          <p class="note">A mean of heads is not computed from one query and one key. Switch the mean off to see the steps of a head.</p>
        ) : isEmpty ? null : (
          <>
            <p class="note">Choose a square of the map above, or a bar below.</p>
            {children({ layer, head, from, to }, (to) => choose({ to }))}
          </>
        )}
      </div>
    </>
  );
}

export function parseHeads(text: string, layers: number, heads: number): [number, number][] {
  return text
    .split("-")
    .map((pair) => pair.split(".").map((number) => Number(number) - 1) as [number, number])
    .filter(([layer, head]) => layer >= 0 && layer < layers && head >= 0 && head < heads);
}

export function pieceClass(segment: number, isUnknown = false): string {
  return `piece${segment ? " second" : ""}${isUnknown ? " unknown" : ""}`;
}

export function formatHeads(chosen: [number, number][]): string {
  return chosen.map(([layer, head]) => `${layer + 1}.${head + 1}`).sort().join("-");
}

function meanOf(maps: ArrayLike<number>[][]): number[][] {
  return maps[0].map((row, from) => Array.from(row, (_, to) => maps.reduce((sum, weights) => sum + weights[from][to], 0) / maps.length));
}

function nearest(tokens: number[], wanted: number): number {
  return tokens.reduce((best, i) => (Math.abs(i - wanted) < Math.abs(best - wanted) ? i : best), tokens[0] ?? 0);
}

function indexIn(tokens: number[], token: number): number {
  return Math.max(0, tokens.indexOf(nearest(tokens, token)));
}

/** The `count` tokens from index `start`, moved so that they include the chosen one. */
function windowOf(tokens: number[], count: number, start: number, chosen: number): number[] {
  const at = Math.max(0, tokens.indexOf(chosen));
  const last = Math.max(0, tokens.length - count);
  const clamped = within(start || 0, last + 1);
  const first = at < clamped ? at : at >= clamped + count ? at - count + 1 : clamped;
  return tokens.slice(first, first + count);
}

interface Window {
  rows: number[];
  columns: number[];
  size: number;
}

/** Small maps of all heads; numbers of layers and heads choose a whole row or column. */
function HeadGrid(props: {
  attention: Attention;
  isChosen: (layer: number, head: number) => boolean;
  /** Whether a click adds or removes a head of the mean. */
  isMean: boolean;
  choose: (head: { layer: number; head: number }) => void;
  chooseLine: (heads: [number, number][]) => void;
  box?: Window;
  moveWindow: (row: number, column: number) => void;
  weights: ArrayLike<number>[];
}) {
  const { attention, isChosen, choose, chooseLine, isMean, box } = props;
  const { layers, heads } = attention;
  return (
    <div>
      <p class="axis">Heads across, layers up{isMean && "; click to add or to leave out"}</p>
      <CellGrid
        name="Layers and heads"
        class="heads"
        rows={range(layers)}
        columns={heads}
        heads={lineHeads(layers, heads, (line) => `Mean of ${line}`, chooseLine)}
        follows={!isMean}
        cell={(layer, head) => ({
          name: `layer ${layer + 1}, head ${head + 1}`,
          isChosen: isChosen(layer, head),
          children: <Thumbnail attention={attention} layer={layer} head={head} />,
          choose: () => choose({ layer, head }),
        })}
      />
      {box && <Overview weights={props.weights} box={box} move={props.moveWindow} />}
    </div>
  );
}

/** The numbers of layers and heads as buttons, which choose all heads of a line. */
export function lineHeads(layers: number, heads: number, name: (line: string) => string, choose: (heads: [number, number][]) => void) {
  return (layer: number | null, head: number | null) =>
    layer === null
      ? { name: head! + 1, label: name(`head ${head! + 1} of all layers`), choose: () => choose(range(layers).map((layer) => [layer, head!])) }
      : { name: layer + 1, label: name(`all heads of layer ${layer + 1}`), choose: () => choose(range(heads).map((head) => [layer, head])) };
}

/** A small map of all tokens; a click moves the frame, which is the part in the large map. */
function Overview({ weights, box, move }: { weights: ArrayLike<number>[]; box: Window; move: (row: number, column: number) => void }) {
  const { rows, columns, size } = box;
  const place = (event: { clientX: number; clientY: number; currentTarget: Element }) => {
    const { left, top, width, height } = event.currentTarget.getBoundingClientRect();
    move(Math.floor(((event.clientY - top) / height) * size), Math.floor(((event.clientX - left) / width) * size));
  };
  const share = (value: number) => `${(100 * value) / size}%`;
  return (
    <div class="later">
      <p class="axis">All {size} tokens; click to move the frame</p>
      <div class="overview" aria-hidden="true" onPointerDown={place} onPointerMove={(event) => event.buttons === 1 && place(event)}>
        <Pixels rows={weights} largest={1} />
        <span
          style={{
            left: share(columns[0]),
            top: share(rows[0]),
            width: share(columns[columns.length - 1] - columns[0] + 1),
            height: share(rows[rows.length - 1] - rows[0] + 1),
          }}
        />
      </div>
    </div>
  );
}

function Thumbnail({ attention, layer, head }: { attention: Attention; layer: number; head: number }) {
  return <Pixels rows={useMemo(() => attention.rows(layer, head), [attention, layer, head])} largest={1} />;
}

const LEVELS = 10;

/** A matrix of weights as squares of side 1, as one path for each level of opacity. */
function Squares({ rows }: { rows: ArrayLike<number>[] }) {
  const paths = useMemo(() => {
    const byLevel = Array.from({ length: LEVELS + 1 }, () => "");
    rows.forEach((row, y) =>
      Array.from(row).forEach((weight, x) => {
        // the root shows small weights, too
        byLevel[Math.round(LEVELS * Math.sqrt(weight))] += `M${x} ${y}h1v1h-1z`;
      }),
    );
    return byLevel;
  }, [rows]);
  return <>{paths.map((d, level) => (level && d ? <path class="fill" d={d} opacity={level / LEVELS} /> : null))}</>;
}

const MAX_UNIT = 27; // pixels of a square
const LETTER = 7.2;
const LABEL_HEIGHT = 13;
const MAX_LETTERS = 14;

function clipped(token: string): string {
  return token.length > MAX_LETTERS ? `${token.slice(0, MAX_LETTERS - 1)}…` : token;
}

function marginOf(tokens: string[]): number {
  return 9 + LETTER * Math.min(MAX_LETTERS, Math.max(...tokens.map((token) => token.length)));
}

/** Tokens to label, with their positions: the chosen one and every n-th, so that labels do not overlap. */
function labeled(tokens: number[], chosen: number, unit: number): [number, number][] {
  const [step, at] = [Math.ceil(LABEL_HEIGHT / unit), tokens.indexOf(chosen)];
  return tokens
    .map((token, place): [number, number] => [token, place])
    .filter(([, place]) => place === at || (place % step === 0 && Math.abs(place - at) >= step));
}

/** The map of weights, with the names of its rows and columns. */
function Matrix(props: {
  tokens: string[];
  weights: ArrayLike<number>[];
  rows: number[];
  columns: number[];
  from: number;
  to: number;
  allRows: number[];
  allColumns: number[];
  choose: (from: number, to: number) => void;
}) {
  const { tokens, weights, rows, columns, from, to, allRows, allColumns, choose } = props;
  const [left, top] = [marginOf(rows.map((i) => tokens[i])), marginOf(columns.map((i) => tokens[i]))];
  const cells = useMemo(() => rows.map((i) => columns.map((j) => weights[i][j])), [weights, rows.join(), columns.join()]);
  const [place, room] = useWidth();
  const unit = Math.min(MAX_UNIT, (room - left - 2) / columns.length);
  const [width, height] = [left + columns.length * unit + 2, top + rows.length * unit + 2];
  const click = (event: MouseEvent & { currentTarget: Element }) => {
    const { left: x, top: y } = event.currentTarget.getBoundingClientRect();
    const row = rows[Math.floor((event.clientY - y - top) / unit)];
    const column = columns[Math.floor((event.clientX - x - left) / unit)];
    if (row !== undefined && column !== undefined) choose(row, column);
  };
  const press = (event: KeyboardEvent) => {
    const [down, right] = arrow(event);
    if (!down && !right) return;
    choose(
      allRows[within(allRows.indexOf(from) + down, allRows.length)],
      allColumns[within(allColumns.indexOf(to) + right, allColumns.length)],
    );
  };
  return (
    <div ref={place}>
      <svg
        class="matrix"
        viewBox={`0 0 ${width} ${height}`}
        width={width}
        tabindex={0}
        role="application"
        aria-label="Map of the head: the arrow keys move from square to square"
        onClick={click}
        onKeyDown={press}
      >
        <rect class="ground" x={left} y={top} width={columns.length * unit} height={rows.length * unit} />
        <g transform={`translate(${left} ${top}) scale(${unit})`}><Squares rows={cells} /></g>
        {labeled(rows, from, unit).map(([i, y]) => (
          <text class={i === from ? "here" : undefined} x={left - 6} y={top + (y + 0.5) * unit + 4} text-anchor="end">{clipped(tokens[i])}</text>
        ))}
        {labeled(columns, to, unit).map(([i, x]) => (
          <text class={i === to ? "here" : undefined} transform={`translate(${left + (x + 0.5) * unit + 4} ${top - 6}) rotate(-90)`}>{clipped(tokens[i])}</text>
        ))}
        <rect class="chosen" width={unit} height={unit} rx={Math.min(3, unit / 4)} x={left + columns.indexOf(to) * unit} y={top + rows.indexOf(from) * unit} />
      </svg>
    </div>
  );
}

const LINE_HEIGHT = 24;
const LINES_WIDTH = { wide: 420, narrow: 130 };
const NARROW = 700; // pixels of the window
const MIN_WEIGHT = 0.02;

/** Two columns of tokens, with a line from each token to those it attends to: the thicker, the larger the weight. */
function Lines(props: { tokens: string[]; weights: ArrayLike<number>[]; rows: number[]; columns: number[]; from: number; choose: (from: number) => void }) {
  const { tokens, weights, rows, columns, from, choose } = props;
  const left = 4 + marginOf(rows.map((i) => tokens[i]));
  const right = left + (window.innerWidth < NARROW ? LINES_WIDTH.narrow : LINES_WIDTH.wide);
  const y = (i: number) => (i + 0.5) * LINE_HEIGHT;
  const [width, height] = [right + 4 + marginOf(columns.map((i) => tokens[i])), Math.max(rows.length, columns.length) * LINE_HEIGHT];
  const lines = useMemo(
    () =>
      rows.flatMap((i, row) =>
        columns.flatMap((j, column) => (weights[i][j] < MIN_WEIGHT ? [] : [{ i, j, weight: weights[i][j], d: linkPath([left, y(row)], [right, y(column)]) }])),
      ),
    [weights, rows.join(), columns.join()],
  );
  return (
    <svg class="lines" viewBox={`0 0 ${width} ${height}`} width={width} role="img" aria-label="Lines from each token to the tokens it attends to">
      {lines.map(({ i, weight, d }) => (
        <path
          class={i === from ? "line here" : "line"}
          d={d}
          stroke-width={(0.5 + 3.5 * weight).toFixed(2)}
          opacity={(i === from ? 0.35 + 0.65 * weight : 0.45 * weight).toFixed(2)}
        />
      ))}
      {rows.map((i, row) => (
        <>
          <rect class="target" width={left} y={row * LINE_HEIGHT} height={LINE_HEIGHT} onPointerEnter={() => choose(i)} onClick={() => choose(i)} />
          <text class={i === from ? "here" : undefined} x={left - 8} y={y(row) + 4} text-anchor="end">{clipped(tokens[i])}</text>
        </>
      ))}
      {columns.map((i, column) => (
        <text class={weights[from][i] >= 0.1 ? "here" : undefined} x={right + 8} y={y(column) + 4}>{clipped(tokens[i])}</text>
      ))}
    </svg>
  );
}
