/** Layers: the whole way of one token, from the tables of embeddings through every layer to the heads of pre-training. */

import { memo } from "preact/compat";
import { useEffect, useLayoutEffect, useMemo, useRef, useState } from "preact/hooks";
import { addressOf, chooseText, useKept, useSentence } from "../address";
import chosen from "../examples.json";
import { fixed, floats, moveFocus, percent, within } from "../format";
import { Answer, useAnswer } from "../parts/answer";
import { Bar, Bars, Scroll, Shades, Strip, StripShades } from "../parts/charts";
import { Curves } from "../parts/curves";
import { largestOf, range } from "../parts/drawing";
import { Caption, Examples, TextField } from "../parts/forms";
import { Picture } from "../parts/save";
import { Section, WindowBar } from "../parts/section";
import { pieceClass, UNKNOWN } from "./attention";
import { type Station, stationsOf, type Trace } from "./stations";

const SECONDS_PER_STEP = 0.9;
const FIRST = chosen.layers[0].text;

export function LayersView() {
  return (
    <Section
      title="The way of a token"
      lead="From the embedding tables through every layer to a prediction. Play, scroll through the boxes, or click one: each holds the numbers that the model computes for the chosen token."
      needs="encode"
      Body={Layers}
    />
  );
}

function Layers({ model }: { model: string }) {
  const text = useSentence(FIRST);
  const [token, setToken] = useKept("token", "");
  const [start] = useKept("start", "");
  const asked = useAnswer<Trace>(
    "explore/layers",
    text[0].trim() ? { model, text: text[0], token: token === "" ? null : Number(token) - 1, start: start === "" ? null : Number(start) } : null,
  );
  return (
    <>
      <TextField label="Text; [MASK] hides a word" kept={text} />
      <Examples all={chosen.layers.map((example) => [example.name, example.text] as const)} choose={chooseText} />
      <Caption of={chosen.layers.find((example) => example.text === text[0])} />
      <Answer asked={asked}>
        {(trace, body) => <Walk trace={trace} body={body} chooseToken={(number) => setToken(String(number + 1), true)} />}
      </Answer>
    </>
  );
}

interface Body {
  text: string;
  start: number | null;
}

function Walk({ trace, body, chooseToken }: { trace: Trace; body: Body; chooseToken: (token: number) => void }) {
  const stations = useMemo(() => stationsOf(trace), [trace]);
  const [kept, setKept] = useKept("at", "1");
  const [head, setHead] = useState(0);
  const at = within(Number(kept) - 1 || 0, stations.length);
  const go = (place: number) => setKept(String(place + 1));
  const station = stations[at];
  const groups = [...new Set(stations.map(({ group }) => group))];
  const isPlaying = usePlayer(at, stations.length, go);
  return (
    <>
      <div class="card">
        <h3>Tokens</h3>
        <WindowBar of={trace.window} />
        <Tokens trace={trace} layer={station.layer} choose={chooseToken} />
      </div>
      <div class="card">
        <h3>What happens to <bdi>{trace.tokens[trace.token]}</bdi></h3>
        <div class="rail" role="group" aria-label="Parts of the model">
          <button type="button" class="quiet play" onClick={isPlaying.toggle}>{isPlaying.on ? "Pause" : "Play"}</button>
          {groups.map((group) => (
            <RailStop
              name={group}
              trace={trace}
              isHere={group === station.group}
              go={() => go(stations.findIndex((other) => other.group === group))}
            />
          ))}
        </div>
        <div class="walk">
          <Flow stations={stations} at={at} go={go} />
          <Details trace={trace} body={body} station={station} head={Math.min(head, trace.heads - 1)} setHead={setHead} />
        </div>
      </div>
      {trace.masked_lm && <Lens trace={trace} layer={station.layer} go={(layer) => go(stations.findIndex(({ id }) => id === `${layer}.normalized`))} />}
      <Movements trace={trace} />
    </>
  );
}

/** Whether Play is on, which moves to the next station until the last one. */
function usePlayer(at: number, count: number, go: (place: number) => void): { on: boolean; toggle: () => void } {
  const [on, setOn] = useState(false);
  useEffect(() => {
    if (!on) return;
    if (at === count - 1) {
      setOn(false);
      return;
    }
    const timer = setTimeout(() => go(at + 1), 1000 * SECONDS_PER_STEP);
    return () => clearTimeout(timer);
  }, [on, at]);
  const toggle = () => {
    if (!on) go(at === count - 1 ? 0 : at + 1);
    setOn(!on);
  };
  return { on, toggle };
}

/** The tokens, colored by how far their vectors turned in the layer. */
function Tokens({ trace, layer, choose }: { trace: Trace; layer: number | null; choose: (token: number) => void }) {
  const movements = layer === null ? null : trace.layers[layer].movements;
  const largest = largestOf(movements ?? []);
  return (
    <>
      <p class="note">
        Choose the token to follow. In a layer, number and color say how far the vector of each token turned: 1 − cosine of its
        vectors before and after.
      </p>
      <div class="pieces" role="group" aria-label="Tokens" onKeyDown={moveFocus}>
        {trace.tokens.map((token, i) => (
          <button
            type="button"
            class={pieceClass(trace.token_type_ids[i], trace.unknown.includes(i))}
            title={trace.unknown.includes(i) ? UNKNOWN : undefined}
            aria-pressed={i === trace.token}
            tabIndex={i === trace.token ? 0 : -1}
            aria-label={movements ? `${token}, moved ${movements[i].toFixed(2)} in layer ${layer! + 1}` : token}
            style={{ "--strength": movements ? `${Math.round((100 * movements[i]) / largest)}%` : "0%" }}
            onClick={() => choose(i)}
          >
            {token}
            <small>{movements ? movements[i].toFixed(2) : "\u2007"}</small>
          </button>
        ))}
      </div>
      {movements && <Shades kind="cell" from="0.00" to={fixed(largest, 2)}>1 − cosine, up to the largest in layer {layer! + 1}</Shades>}
    </>
  );
}

/** A button for a part of the model, with the prediction of the MLM head after it. */
function RailStop({ name, trace, isHere, go }: { name: string; trace: Trace; isHere: boolean; go: () => void }) {
  const number = name === "Input" ? 0 : Number(name.match(/\d+/)?.[0] ?? trace.layers.length);
  const best = trace.masked_lm?.candidates[number][0];
  return (
    <button type="button" class="stop" aria-pressed={isHere} onClick={go}>
      {name}
      {best && <small>{name === "Output" ? <b>{best.token}</b> : `${best.token} ${percent(best.probability)}`}</small>}
    </button>
  );
}

/** All boxes in order. Scrolling chooses a box, and Play scrolls. */
function Flow({ stations, at, go }: { stations: Station[]; at: number; go: (place: number) => void }) {
  const flow = useRef<HTMLDivElement>(null);
  const packet = useRef<HTMLSpanElement>(null);
  const scrollsUntil = useRef(0); // ms: end of a scroll by the page
  const scrolledTo = useRef(-1); // box that the reader scrolled to
  const here = useRef(at);
  here.current = at;
  const boxOf = (place: number) => flow.current!.querySelector<HTMLElement>(`[data-at="${place}"]`)!;

  useLayoutEffect(() => {
    const box = boxOf(at);
    const [region, dot] = [flow.current!, packet.current!];
    const top = box.offsetTop + box.offsetHeight / 2;
    dot.style.transform = `translate(${box.offsetLeft}px, ${top}px)`;
    if (scrolledTo.current === at) return;
    scrolledTo.current = -1;
    const wanted = top - region.clientHeight * 0.45;
    const isVisible = box.offsetTop >= region.scrollTop && box.offsetTop + box.offsetHeight <= region.scrollTop + region.clientHeight;
    if (isVisible && performance.now() > scrollsUntil.current && Math.abs(region.scrollTop - wanted) < region.clientHeight * 0.3) return;
    scrollsUntil.current = performance.now() + 700;
    region.scrollTo({ top: wanted, behavior: matchMedia("(prefers-reduced-motion: reduce)").matches ? "instant" : "smooth" });
  }, [at, stations]);

  useEffect(() => {
    const region = flow.current!;
    let frame = 0;
    const follow = () => {
      frame = 0;
      if (performance.now() < scrollsUntil.current) return;
      // the line that counts moves from the top of the region to its end, so that every box can be reached
      const share = region.scrollTop / Math.max(1, region.scrollHeight - region.clientHeight);
      const line = region.scrollTop + share * region.clientHeight;
      const boxes = [...region.querySelectorAll<HTMLElement>("[data-at]")];
      const nearest = boxes.reduce((best, box) => (Math.abs(middleOf(box) - line) < Math.abs(middleOf(best) - line) ? box : best));
      const place = Number(nearest.dataset.at);
      if (place !== here.current && boxOf(here.current).offsetTop !== nearest.offsetTop) {
        scrolledTo.current = place;
        go(place);
      }
    };
    const listen = () => (frame ||= requestAnimationFrame(follow));
    region.addEventListener("scroll", listen, { passive: true });
    return () => {
      region.removeEventListener("scroll", listen);
      cancelAnimationFrame(frame);
    };
  }, [stations]);

  const groups = [...new Set(stations.map(({ group }) => group))];
  return (
    <div class="flow" ref={flow} tabIndex={0} role="region" aria-label="Boxes of the model">
      <span class="packet" ref={packet} aria-hidden="true" />
      {groups.map((group) => (
        <section class="stage" aria-label={group}>
          <h4>{group}</h4>
          <div class={`boxes ${group.startsWith("Layer") ? "layer" : ""}`}>
            {group.startsWith("Layer") && (
              <>
                <span class="bypass first" aria-hidden="true" />
                <span class="bypass second" aria-hidden="true" />
              </>
            )}
            {stations.map((station, i) => (station.group === group ? <Box station={station} place={i} isHere={i === at} go={go} /> : null))}
          </div>
        </section>
      ))}
    </div>
  );
}

function middleOf(box: HTMLElement): number {
  return box.offsetTop + box.offsetHeight / 2;
}

const Box = memo(
  function Box({ station, place, isHere, go }: { station: Station; place: number; isHere: boolean; go: (place: number) => void }) {
    const { title, formula, shown, id } = station;
    return (
      <button type="button" class={`step ${id.split(".").pop()}`} data-at={place} aria-pressed={isHere} onClick={() => go(place)}>
        <b>{title}</b>
        <span class="formula">{formula}</span>
        {shown.length > 1 && <Strip values={shown} />}
      </button>
    );
  },
  (before, after) => before.station === after.station && before.isHere === after.isHere && before.place === after.place,
);

/** The numbers of one box. */
function Details(props: { trace: Trace; body: Body; station: Station; head: number; setHead: (head: number) => void }) {
  const { trace, body, station, head, setHead } = props;
  return (
    <div class="walk-numbers" aria-live="polite">
      <h4>{station.group}: {station.title}</h4>
      <p class="note">{station.purpose}</p>
      {station.check && <p class="formula">{station.check}</p>}
      {station.perHead && <PerHead trace={trace} body={body} station={station} head={head} setHead={setHead} />}
      {station.candidates && <Bars rows={station.candidates} name={station.title} file="prediction" />}
      {station.vector && <Numbers {...station.vector} />}
      {station.shown.length > 1 && (
        <StripShades largest={largestOf(station.shown)} isShare={station.isShare}>
          Color in the box. Each box has its own scale, up to the largest of its numbers.
        </StripShades>
      )}
    </div>
  );
}

/** Numbers as words of the same width, so that the lines of a monospaced text are columns. */
function columns(values: ArrayLike<number>): string {
  const words = Array.from(values, (value) => fixed(value));
  const width = Math.max(...words.map((word) => word.length));
  return words.map((word) => word.padStart(width + 1, "\u00a0")).join(" ");
}

function Numbers({ values, norm }: { values: string; norm: number }) {
  const all = useMemo(() => floats(values), [values]);
  return (
    <>
      <p class="note">{all.length} numbers, length {fixed(norm, 2)}:</p>
      <Scroll label="All numbers of the vector" class="vector-numbers">{columns(all)}</Scroll>
    </>
  );
}

/** Scores or weights of one head. */
function PerHead({ trace, body, station, head, setHead }: { trace: Trace; body: Body; station: Station; head: number; setHead: (head: number) => void }) {
  const layer = station.layer!;
  const { scores, weights } = trace.layers[layer];
  const order = range(trace.tokens.length).sort((a, b) => weights[head][b] - weights[head][a]);
  const start: Record<string, string> = body.start === null ? {} : { start: String(body.start) };
  const inside = addressOf("inside", { text: body.text, pair: "", ...start, layer: String(layer + 1), head: String(head + 1), from: String(trace.token + 1) });
  return (
    <>
      <p class="examples" role="group" aria-label="Heads">
        {range(trace.heads).map((number) => (
          <button type="button" class="chip" aria-pressed={number === head} onClick={() => setHead(number)}>head {number + 1}</button>
        ))}
      </p>
      <Scroll label="Scores and weights of all tokens" class="tall">
        <table class="bars scores" aria-label={`Scores and weights of head ${head + 1}`}>
          <thead><tr><th scope="col">token</th><th scope="col">score</th><td /><th scope="col">weight</th></tr></thead>
          <tbody>
            {order.map((i) => (
              <tr>
                <th scope="row">{trace.tokens[i]}</th>
                <td>{fixed(scores[head][i], 2)}</td>
                <td class="bar"><Bar share={weights[head][i]} /></td>
                <td>{percent(weights[head][i])}</td>
              </tr>
            ))}
          </tbody>
        </table>
      </Scroll>
      <p class="note"><a href={inside}>How these are computed, number by number</a></p>
    </>
  );
}

/** Predictions of the MLM head from the token's vector after each layer. */
function Lens({ trace, layer, go }: { trace: Trace; layer: number | null; go: (layer: number) => void }) {
  const { candidates } = trace.masked_lm!;
  const final = candidates[candidates.length - 1][0].token;
  return (
    <div class="card">
      <h3>Predictions so far</h3>
      <p class="note">
        The MLM head reads the token’s vector after each layer. It was trained on the last layer only: earlier rows show what
        the vector is already like, not what the model says.
      </p>
      <table class="bars lens" aria-label="Predictions after each layer">
        <tbody>
          {candidates.map(([best, ...others], number) => (
            <tr class={layer !== null && number === layer + 1 ? "strong" : undefined}>
              <th scope="row">
                {number ? <button type="button" class="link" onClick={() => go(number - 1)}>after layer {number}</button> : "embeddings"}
              </th>
              <td class={best.token === final ? "guess final" : "guess"}>{best.token}</td>
              <td class="bar"><Bar share={best.probability} /></td>
              <td>{percent(best.probability)}</td>
              <td class="others"><span>{others.map(({ token, probability }) => <span>{token} <i>{percent(probability)}</i></span>)}</span></td>
            </tr>
          ))}
        </tbody>
      </table>
    </div>
  );
}

/** How far the vector of every token turned in each layer. */
function Movements({ trace }: { trace: Trace }) {
  const layers = range(trace.layers.length);
  const steps = layers.map((layer) => layer + 1);
  const lines = trace.tokens.map((name, i) => ({
    kind: i === trace.token ? "train" : "quiet",
    name,
    curve: { steps, values: layers.map((layer) => trace.layers[layer].movements[i]) },
  }));
  lines.sort((a, b) => Number(a.kind === "train") - Number(b.kind === "train")); // the chosen one is drawn last
  const own = layers.map((layer) => trace.layers[layer].movements[trace.token].toFixed(2)).join(", ");
  return (
    <div class="card movements">
      <h3>How far the vectors turn</h3>
      <p class="note">
        1 − cosine of the vectors before and after each layer: <bdi>{trace.tokens[trace.token]}</bdi> in color, the other tokens in gray.
      </p>
      <Picture name="movements">
        <Curves lines={lines} end={trace.layers.length} unit="layer" dotted="train" label={`Movement of ${trace.tokens[trace.token]} by layer: ${own}`} />
      </Picture>
    </div>
  );
}
