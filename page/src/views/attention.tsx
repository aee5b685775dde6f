/** Attention within a text: all heads as small maps, one head or the mean of several as a map and as lines. */

import type { ComponentChildren } from "preact";
import { useMemo } from "preact/hooks";
import { setValues, useKept } from "../address";
import { arrow, isMask, moveFocus, percent, within } from "../format";
import { CellGrid, linkPath, Picture, Pixels, range, Scroll, Select, Shades, Slider, strengthOf, Switch, useWidth } from "../parts";
import type { Cell } from "./row";

/** What is computed: a text, or a pair, from a token on, by a model. */
export type Text = {
  model: string;
  text: string;
  pair: string | null;
  start: number | null;
};

export interface Tokens {
  tokens: string[];
  /** Places of the tokens that the vocabulary does not know. */
  unknown: number[];
  token_type_ids: number[];
}

export interface Attention extends Tokens {
  layers: number;
  heads: number;
  /** A row of weights for each token that attends. */
  rows: (layer: number, head: number) => ArrayLike<number>[];
}

export type Head = [layer: number, head: number];

export const SPECIAL = new Set(["[CLS]", "[SEP]", "<s>", "</s>"]);
export const UNKNOWN = "The vocabulary does not know this: the model reads [UNK]";
const MIN_WINDOW = 6;
const WINDOW = 28;
const PHONE_WINDOW = 13;
const BETWEEN = { all: "All tokens", ab: "From A to B", ba: "From B to A", aa: "Within A", bb: "Within B" };

interface Shown {
  tokens: string[];
  weights: ArrayLike<number>[];
  rows: number[];
  columns: number[];
  from: number;
  to: number;
}

/** The heads, tokens, map and lines of a text; `children` draws the steps of the chosen weight. */
export function AttentionExplorer({ of: attention, children }: { of: Attention; children: (cell: Cell, choose: (to: number) => void) => ComponentChildren }) {
  const { tokens, token_type_ids: segments, layers, heads, unknown } = attention;
  const size = tokens.length;
  const kept = {
    layer: useKept("layer", String(Math.min(2, layers)))[0],
    head: useKept("head", "1")[0],
    from: useKept("from", String(tokens.findIndex(isMask) + 1 || Math.min(3, size)))[0],
    to: useKept("to", "")[0],
  };
  const [average, setAverage] = useKept("heads", ""); // as in 1.2-2.3; empty for one head
  const special = useKept("nospecial", "");
  const [between, setBetween] = useKept("between", "all");
  const [zoom, setZoom] = useKept("window", "");
  const [start, setStart] = useKept("at", "1.1");

  const layer = within(Number(kept.layer) - 1, layers);
  const head = within(Number(kept.head) - 1, heads);
  const averaged = parseHeads(average, layers, heads);
  const isMean = averaged.length > 0;
  const weights = useMemo(() => meanOf((isMean ? averaged : [[layer, head]]).map(([l, h]) => attention.rows(l, h))), [attention, average, layer, head]);
  const hasPair = segments.includes(1);
  const side = hasPair && between in BETWEEN ? between : "all";
  const tokensOf = (segment: string) =>
    range(size).filter((i) => !(special[0] && SPECIAL.has(tokens[i])) && (side === "all" || segments[i] === (segment === "b" ? 1 : 0)));
  const [fromTokens, toTokens] = [tokensOf(side[0]), tokensOf(side[1])];
  const from = nearest(fromTokens, Number(kept.from) - 1);
  const strongest = toTokens.reduce((best, i) => (weights[from]?.[i] > weights[from]?.[best] ? i : best), toTokens[0] ?? 0);
  const to = kept.to ? nearest(toTokens, Number(kept.to) - 1) : strongest;

  const choose = (change: Partial<Cell>) => {
    const next = { layer, head, from, to: undefined, ...change };
    const text = (number?: number) => (number === undefined ? undefined : String(number + 1));
    setValues({ layer: text(next.layer), head: text(next.head), from: text(next.from), to: text(next.to) });
  };
  const averageAll = (chosen: Head[]) => setAverage(formatHeads(chosen), true);
  const isChosen = (l: number, h: number) => (isMean ? averaged.some(([a, b]) => a === l && b === h) : l === layer && h === head);
  const chooseHead = (l: number, h: number) => {
    if (!average) return choose({ layer: l, head: h });
    const others = averaged.filter(([a, b]) => a !== l || b !== h);
    averageAll(others.length === averaged.length ? [...others, [l, h]] : others.length ? others : averaged);
  };

  const longest = Math.max(fromTokens.length, toTokens.length);
  const count = Math.min(longest, Number(zoom) || (window.innerWidth < NARROW ? PHONE_WINDOW : WINDOW));
  const [rowStart, columnStart] = start.split(".").map(Number);
  const shown = { tokens, weights, rows: windowOf(fromTokens, count, rowStart - 1, from), columns: windowOf(toTokens, count, columnStart - 1, to), from, to };
  const startOf = (all: number[], token: number) => Math.max(0, all.indexOf(nearest(all, token))) - (count >> 1) + 1;
  const title = isMean ? `mean of ${averaged.length} ${averaged.length === 1 ? "head" : "heads"}` : `layer ${layer + 1}, head ${head + 1}`;
  const file = isMean ? "attention-mean" : `attention-layer-${layer + 1}-head-${head + 1}`;
  const isEmpty = !fromTokens.length || !toTokens.length;
  return (
    <>
      <div class="card">
        <h3>Attention: {title}</h3>
        <p class="note">
          Choose a head; a row of its map is a token that attends, a column a token it attends to. Then point at a token or
          move to it by arrow keys: the stronger the color of another token, the larger its weight.
        </p>
        <div class="pieces" role="group" aria-label="Tokens" onKeyDown={moveFocus}>
          {tokens.map((token, i) => (
            <button
              type="button"
              class={`piece${segments[i] ? " second" : ""}${unknown.includes(i) ? " unknown" : ""}`}
              title={unknown.includes(i) ? UNKNOWN : undefined}
              aria-pressed={i === from}
              tabIndex={i === from ? 0 : -1}
              aria-label={`${token}, attention weight ${percent(weights[from]?.[i] ?? 0)}`}
              style={strengthOf(Math.sqrt(weights[from]?.[i] ?? 0))}
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
          <Switch label="Mean of several heads" kept={[isMean ? "1" : "", (value) => averageAll(value ? range(heads).map((h) => [layer, h]) : [])]} />
          <Switch label="Hide [CLS] and [SEP]" kept={special} />
          {hasPair && <Select name="Which tokens attend to which" all={Object.entries(BETWEEN)} value={side} set={setBetween} />}
          {longest > MIN_WINDOW && <Slider label="Tokens in view" min={MIN_WINDOW} max={longest} value={count} text={`${count} of ${longest}`} set={(value) => setZoom(String(value))} />}
        </div>
        {isEmpty ? (
          <p class="muted later">No token is left to show.</p>
        ) : (
          <>
            <div class="look">
              <div>
                <p class="axis">Heads across, layers up{isMean && "; click to add or to leave out"}</p>
                <CellGrid
                  name="Layers and heads"
                  class="heads"
                  rows={range(layers)}
                  columns={heads}
                  heads={lineHeads(layers, heads, (line) => `Mean of ${line}`, averageAll)}
                  follows={!isMean}
                  cell={(l, h) => ({
                    name: `layer ${l + 1}, head ${h + 1}`,
                    isChosen: isChosen(l, h),
                    children: <Thumbnail attention={attention} layer={l} head={h} />,
                    choose: () => chooseHead(l, h),
                  })}
                />
                {longest > count && <Overview of={shown} move={(row, column) => setStart(`${startOf(fromTokens, row)}.${startOf(toTokens, column)}`)} />}
              </div>
              <Picture name={file}>
                <Matrix of={shown} allRows={fromTokens} allColumns={toTokens} choose={(from, to) => choose({ from, to })} />
              </Picture>
            </div>
            <h3 class="later">As lines</h3>
            <p class="note">
              From each token on the left to the tokens it attends to, where the weight is at least {percent(MIN_WEIGHT)}. Point at a token
              to see its lines in full color.
            </p>
            <Picture name={`${file}-lines`}>
              <Scroll label="Attention as lines"><Lines of={shown} choose={(from) => choose({ from })} /></Scroll>
            </Picture>
          </>
        )}
      </div>
      <div class="card">
        <h3>One attention weight, step by step</h3>
        {isMean && <p class="note">A mean of heads is not computed from one query and one key. Switch the mean off to see the steps of a head.</p>}
        {!isMean && !isEmpty && <p class="note">Choose a square of the map above, or a bar below.</p>}
        {!isMean && !isEmpty && children({ layer, head, from, to }, (to) => choose({ to }))}
      </div>
    </>
  );
}

export function parseHeads(text: string, layers: number, heads: number): Head[] {
  const all = text.split("-").map((pair) => pair.split(".").map((number) => Number(number) - 1) as Head);
  return all.filter(([layer, head]) => layer >= 0 && layer < layers && head >= 0 && head < heads);
}

export function formatHeads(chosen: Head[]): string {
  return chosen.map(([layer, head]) => `${layer + 1}.${head + 1}`).sort().join("-");
}

/** The mean of maps; a map alone as it is. */
function meanOf(maps: ArrayLike<number>[][]): ArrayLike<number>[] {
  if (maps.length === 1) return maps[0];
  return maps[0].map((row, from) => Array.from(row, (_, to) => maps.reduce((sum, weights) => sum + weights[from][to], 0) / maps.length));
}

function nearest(tokens: number[], wanted: number): number {
  return tokens.reduce((best, i) => (Math.abs(i - wanted) < Math.abs(best - wanted) ? i : best), tokens[0] ?? 0);
}

/** The `count` tokens from index `start`, moved so that they include the chosen one. */
function windowOf(tokens: number[], count: number, start: number, chosen: number): number[] {
  const at = Math.max(0, tokens.indexOf(chosen));
  const clamped = within(start || 0, Math.max(0, tokens.length - count) + 1);
  const first = Math.max(Math.min(clamped, at), at - count + 1);
  return tokens.slice(first, first + count);
}

/** The numbers of layers and heads as buttons, which choose all heads of a line. */
export function lineHeads(layers: number, heads: number, name: (line: string) => string, choose: (heads: Head[]) => void) {
  return (layer: number | null, head: number | null) =>
    layer === null
      ? { name: head! + 1, label: name(`head ${head! + 1} of all layers`), choose: () => choose(range(layers).map((layer) => [layer, head!])) }
      : { name: layer + 1, label: name(`all heads of layer ${layer + 1}`), choose: () => choose(range(heads).map((head) => [layer, head])) };
}

/** A small map of all tokens; a click moves the frame, which is the part in the large map. */
function Overview({ of: { tokens, weights, rows, columns }, move }: { of: Shown; move: (row: number, column: number) => void }) {
  const size = tokens.length;
  const place = (event: { clientX: number; clientY: number; currentTarget: Element }) => {
    const { left, top, width, height } = event.currentTarget.getBoundingClientRect();
    move(Math.floor(((event.clientY - top) / height) * size), Math.floor(((event.clientX - left) / width) * size));
  };
  const share = (value: number) => `${(100 * value) / size}%`;
  const length = (shown: number[]) => share(shown[shown.length - 1] - shown[0] + 1);
  return (
    <div class="later">
      <p class="axis">All {size} tokens; click to move the frame</p>
      <div class="overview" aria-hidden="true" onPointerDown={place} onPointerMove={(event) => event.buttons === 1 && place(event)}>
        <Pixels rows={weights} largest={1} />
        <span style={{ left: share(columns[0]), top: share(rows[0]), width: length(columns), height: length(rows) }} />
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

function Matrix({ of, allRows, allColumns, choose }: { of: Shown; allRows: number[]; allColumns: number[]; choose: (from: number, to: number) => void }) {
  const { tokens, weights, rows, columns, from, to } = of;
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
    const next = (all: number[], token: number, step: number) => all[within(all.indexOf(token) + step, all.length)];
    choose(next(allRows, from, down), next(allColumns, to, right));
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
function Lines({ of: { tokens, weights, rows, columns, from }, choose }: { of: Shown; choose: (from: number) => void }) {
  const left = 4 + marginOf(rows.map((i) => tokens[i]));
  const right = left + (window.innerWidth < NARROW ? LINES_WIDTH.narrow : LINES_WIDTH.wide);
  const y = (i: number) => (i + 0.5) * LINE_HEIGHT;
  const [width, height] = [right + 4 + marginOf(columns.map((i) => tokens[i])), Math.max(rows.length, columns.length) * LINE_HEIGHT];
  const lines = useMemo(() => {
    const all = rows.flatMap((i, row) => columns.map((j, column) => ({ i, weight: weights[i][j], d: linkPath([left, y(row)], [right, y(column)]) })));
    return all.filter(({ weight }) => weight >= MIN_WEIGHT);
  }, [weights, rows.join(), columns.join()]);
  return (
    <svg class="lines" viewBox={`0 0 ${width} ${height}`} width={width} role="img" aria-label="Lines from each token to the tokens it attends to">
      {lines.map(({ i, weight, d }) => (
        <path class={i === from ? "line here" : "line"} d={d} stroke-width={(0.5 + 3.5 * weight).toFixed(2)} opacity={(i === from ? 0.35 + 0.65 * weight : 0.45 * weight).toFixed(2)} />
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
