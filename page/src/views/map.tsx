/** Map: layers up and tokens along, and the heads of each layer beside them; a cell opens its steps. */

import { type Kept, setValues, useKept } from "../address";
import chosen from "../examples.json";
import { fixed, percent, within } from "../format";
import {
  Answer, type Asked, type Candidate, Caption, CellGrid, Choice, type Example, Examples, largestOf, type Model, parts, Problem, range, Shades,
  strengthOf, Switch, TextField, type TextWindow, useAnswer, useModel, WindowBar,
} from "../parts";
import { formatHeads, type Head, lineHeads, parseHeads, SPECIAL, type Text, type Tokens, UNKNOWN } from "./attention";
import { type Ablated, Comparison, type Effect, effectsOf, Heads, Inputs } from "./inside";
import { Walk } from "./walk";

const EXAMPLES: Example[] = [
  ...chosen.layers,
  { name: "A pair", text: "The man went to the store.", pair: "He bought a gallon of milk." },
  { name: "It", text: "The animal did not cross the street because it was too tired." },
];

interface Found extends Tokens {
  window: TextWindow;
  layers: number;
  heads: number;
  masked: number[];
  movements: number[][];
  /** Of each token after the embeddings and after each layer; null without an MLM head. */
  lens: Candidate[][] | null;
}

export const MapView = parts({
  title: "The model as a map",
  lead: "Read a column upwards: what the MLM head would answer for a token after each layer. Beside it are the attention heads of each layer, in the color of what removing them does to the answer. A cell opens its steps.",
  needs: "encode",
  Body: ModelMap,
});

function ModelMap({ model }: { model: string }) {
  const text = useKept("text", EXAMPLES[0].text);
  const pair = useKept("pair", "");
  const [start] = useKept("start", "");
  const body = { model, text: text[0], pair: pair[0] || null, start: start === "" ? null : Number(start) };
  const asked = useAnswer<Found>("explore/map", text[0].trim() ? body : null);
  return (
    <>
      <div class="text-and-pair">
        <TextField label="Text; [MASK] hides a word" kept={text} />
        <TextField label="Second text, if there is one" kept={pair} />
      </div>
      <Examples all={EXAMPLES} />
      <Caption all={chosen.layers} text={text[0]} />
      <Answer asked={asked}>{(found, text: Text) => <Shown found={found} text={text} />}</Answer>
    </>
  );
}

/** The map, or one of its parts in a lesson. */
function Shown({ found, text }: { found: Found; text: Text }) {
  const [part] = useKept("part", "");
  if (part === "input") return <Inputs text={text} />;
  return part === "attention" ? <Heads text={text} /> : <Picture found={found} text={text} />;
}

/** What is open: a token after a layer, or a head; numbers count from 1. */
function useOpen() {
  const [[open], [token], [box], [layer], [head]] = (["open", "token", "box", "layer", "head"] as const).map((key) => useKept(key, "")); // always these
  return { open, token: Number(token) - 1, box, layer: Number(layer) - 1, head: Number(head) - 1 };
}

function Picture({ found, text }: { found: Found; text: Text }) {
  const model = useModel(text.model)!;
  const { tokens, layers, heads, lens } = found;
  const [shows, setShows] = useKept("cells", "");
  const [wanted, setAnswer] = useKept("answer", "");
  const [masked, setMasked] = useKept("masked", "");
  const several = useKept("several", "");
  const [kept, setOff] = useKept("off", ""); // as in 1.2-2.3
  const off = several[0] ? parseHeads(kept, layers, heads) : null;
  const { open: opened, box, token } = useOpen();
  const open = off ? "head" : opened;
  const words = tokens.flatMap((token, i) => (SPECIAL.has(token) ? [] : [i]));
  const hides = model.abilities.includes("fill") && !found.masked.length && words.length > 0;
  const hidden = words.find((i) => i === Number(masked) - 1) ?? words[words.length >> 1];
  const refusal = refusalOf(model, text);
  const question = { ...text, token: hides ? hidden : null };
  const isAnswered = !refusal && (["fill", "next-sentence", "predict"] as const).some((ability) => model.abilities.includes(ability));
  const asked = useAnswer<Ablated>("explore/ablation", isAnswered ? { ...question, heads: null } : null);
  const effects = asked.answer ? effectsOf(asked.answer) : [];
  const effect = effects[Number(wanted)] ?? effects[0];
  const turns = shows !== "" || !lens;
  return (
    <>
      <div class="card map-card">
        <WindowBar of={found.window} />
        <p class="controls">
          {lens && <Choice label="Cells show" all={[["", "the word that the MLM head reads"], ["turn", "how far the vector turned"]]} value={shows} set={setShows} />}
          {hides && <Choice label="Masked for the heads" all={words.map((i) => [String(i + 1), tokens[i]])} value={String(hidden + 1)} set={setMasked} />}
          {effects.length > 1 && <Choice label="Heads show" all={effects.map(({ name }, i) => [String(i), name])} value={String(effects.indexOf(effect))} set={setAnswer} />}
          <Switch label="Switch several heads off" kept={several} />
        </p>
        <div class="map">
          <div>
            <Tokens found={found} turns={turns} isOpen={open === "token"} />
            {turns && <Shades kind="cell" from="0.00" to={fixed(largestOf(found.movements.flat()), 2)}>1 − cosine of the vectors before and after the layer</Shades>}
            {!turns && <Shades kind="cell" from="0%" to="100%">probability of the word; bold: the word after the last layer. The MLM head was trained on that layer only: below it, it shows what a vector is already like.</Shades>}
          </div>
          <div aria-busy={asked.isBusy || undefined}>
            <HeadEffects layers={layers} heads={heads} effect={effect} off={off} setOff={setOff} isOpen={open === "head"} />
            {effect && <EffectLegend effect={effect} />}
            <Problem>{asked.error}</Problem>
            {refusal && <p class="note">{refusal}</p>}
          </div>
        </div>
      </div>
      {!open && <p class="muted later">Choose a cell of the map: its steps open here.</p>}
      {open === "token" && rowOf(box, layers) === 0 && <Inputs text={text} />}
      {open === "token" && <Walk text={text} token={within(token || 0, tokens.length)} />}
      {open === "head" && isAnswered && <OpenHead all={asked} heads={heads} question={question} off={off} setOff={setOff} />}
      {open === "head" && !off && <Heads text={text} />}
    </>
  );
}

/** Why a classifier cannot answer; empty if it can. */
function refusalOf({ abilities, reads_pairs }: Model, { pair }: Text): string {
  if (!abilities.includes("predict")) return "";
  if (pair && reads_pairs === false) return "The model classifies single texts. Remove the second text to see its answer.";
  return !pair && reads_pairs ? "The model classifies pairs. Write a second text to see its answer." : "";
}

/** The row of the box that is open: 0 are the embeddings. */
function rowOf(box: string, layers: number): number {
  return box.startsWith("output") ? layers : Number.parseInt(box) || 0;
}

function Tokens({ found: { tokens, token_type_ids, unknown, layers, movements, lens }, turns, isOpen }: { found: Found; turns: boolean; isOpen: boolean }) {
  const { token, box } = useOpen();
  const largest = largestOf(movements.flat());
  const here = isOpen ? `${rowOf(box, layers)}.${token}` : "";
  const headOf = (row: number | null, i: number | null) => {
    if (i === null) return { name: row || "input" };
    const isUnknown = unknown.includes(i);
    return { name: <bdi title={isUnknown ? UNKNOWN : tokens[i]}>{tokens[i]}</bdi>, class: `${token_type_ids[i] ? "second" : "first"}${isUnknown ? " unknown" : ""}` };
  };
  const cell = (row: number, i: number) => {
    const place = `${tokens[i]}, ${row ? `after layer ${row}` : "embeddings"}`;
    const choose = () => setValues({ open: "token", several: undefined, token: String(i + 1), box: row ? `${row}.query` : "input.token" }, true);
    const button = { isChosen: here === `${row}.${i}`, choose };
    if (turns) {
      const turn = row ? movements[row - 1][i] : 0;
      return { ...button, name: row ? `${place}: turned by ${fixed(turn, 2)}` : place, children: row ? fixed(turn, 2) : "·", style: strengthOf(turn / largest) };
    }
    const { token, probability } = lens![row][i];
    const css = token === lens![layers][i].token ? "last" : undefined;
    return { ...button, name: `${place}: ${token} ${percent(probability)}`, children: <bdi>{token}</bdi>, style: strengthOf(probability), class: css };
  };
  return <CellGrid name="Layers and tokens" class="tokens" rows={range(layers + 1)} columns={tokens.length} heads={headOf} cell={cell} />;
}

/** The largest change of the answer without a head, which has the full color if it is 0.1 points. */
const largestChange = ({ after, before }: Effect) => Math.max(0.001, largestOf(after.map((value) => value - before)));

/** The heads of each layer. `off`: heads that are switched off together, or null if a click opens a head. */
function HeadEffects({ layers, heads, effect, off, setOff, isOpen }: { layers: number; heads: number; effect?: Effect; off: Head[] | null; setOff: Kept[1]; isOpen: boolean }) {
  const open = useOpen();
  const largest = effect ? largestChange(effect) : 1;
  const isOff = (layer: number, head: number) => Boolean(off?.some(([l, h]) => l === layer && h === head));
  const toggle = (chosen: Head[]) => {
    const others = (off ?? []).filter(([l, h]) => !chosen.some(([layer, head]) => l === layer && h === head));
    const kept = formatHeads(chosen.every(([layer, head]) => isOff(layer, head)) ? others : [...others, ...chosen]);
    if (off) setOff(kept, true);
    else setValues({ several: "1", off: kept }, true);
  };
  const cell = (layer: number, head: number) => {
    const place = `layer ${layer + 1}, head ${head + 1}`;
    const button = {
      isChosen: off ? isOff(layer, head) : isOpen && open.layer === layer && open.head === head,
      choose: () => (off ? toggle([[layer, head]]) : setValues({ open: "head", layer: String(layer + 1), head: String(head + 1) }, true)),
    };
    if (!effect) return { ...button, name: place, children: "" };
    const { name, before, isShare } = effect;
    const [after, becomes] = [effect.after[layer * heads + head], effect.becomes[layer * heads + head]];
    const change = after - before;
    const [first, then] = [before, after].map((value) => (isShare ? percent(value) : fixed(value)));
    const shown = isShare ? fixed(100 * change, 0) : fixed(change, 2);
    return {
      ...button,
      name: `${place}: without it ${name} ${first} → ${then}${becomes === undefined ? "" : `, first is “${becomes}”`}`,
      children: shown === "0" ? "" : shown,
      style: strengthOf(Math.abs(change) / largest),
      class: `${change < 0 ? "falls" : ""}${becomes === undefined ? "" : " becomes"}`,
    };
  };
  const headOf = lineHeads(layers, heads, (line) => `Switch ${line} off or on`, toggle);
  return <CellGrid name="Layers and heads" class={off ? "effects off" : "effects"} rows={range(layers)} columns={heads} heads={headOf} cell={cell} />;
}

function EffectLegend({ effect }: { effect: Effect }) {
  const { name, before, isShare } = effect;
  const largest = largestChange(effect);
  const end = isShare ? (100 * largest).toFixed(1) : fixed(largest);
  return (
    <Shades kind="signed-cell" from={`−${end}`} to={`+${end}`}>
      {isShare ? `points of ${name}, ${percent(before)},` : `change of ${name}, ${fixed(before)},`} without the head; underlined: another answer is first
    </Shades>
  );
}

function OpenHead({ all, heads, question, off, setOff }: { all: Asked<Ablated>; heads: number; question: Text; off: Head[] | null; setOff: Kept[1] }) {
  const { layer, head } = useOpen();
  const several = useAnswer<Ablated>("explore/ablation", off?.length ? { ...question, heads: off } : null);
  const nameOf = ([layer, head]: number[]) => `layer ${layer + 1} head ${head + 1}`;
  return (
    <div class="card">
      <h3>{off ? "The answers without several heads" : `The answers without ${nameOf([layer, head])}`}</h3>
      <p class="note">The output of a head becomes 0, and the rest of the model computes on. The number of a layer or of a head in the map switches a whole line.</p>
      {off && (
        <p class="examples">
          <button type="button" class="chip" disabled={!off.length} onClick={() => setOff("", true)}>All heads on</button>
          <span class="muted" role="status">{off.length ? `Off: ${off.map(nameOf).join(", ")}` : "No head is off."}</span>
        </p>
      )}
      <Answer asked={off?.length ? several : all} isLive>
        {(found, { heads: asked }) => {
          const names = asked ? asked.map(nameOf) : [nameOf([layer, head])];
          const without = asked ? found.without[0] : off ? undefined : found.without[layer * heads + head];
          return <Comparison found={found} without={without} reduced={names.length === 1 ? `Without ${names[0]}` : `Without ${names.length} heads`} />;
        }}
      </Answer>
    </div>
  );
}
