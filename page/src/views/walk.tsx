/** The way of one token, from the tables of embeddings through every layer to the heads of pre-training. */

import { memo } from "preact/compat";
import { useEffect, useLayoutEffect, useMemo, useRef, useState } from "preact/hooks";
import { setValues, useKept } from "../address";
import { fixed, floats, percent } from "../format";
import { Answer, barCell, Bars, candidateRows, largestOf, range, Scroll, Strip, StripShades, Table, useAnswer } from "../parts";
import type { Text } from "./attention";
import { type Station, stationsOf, type Trace } from "./stations";

const SECONDS_PER_STEP = 0.9;

export function Walk({ text, token }: { text: Text; token: number }) {
  const asked = useAnswer<Trace>("explore/layers", { ...text, token });
  return <Answer asked={asked}>{(trace) => <Steps trace={trace} />}</Answer>;
}

function Steps({ trace }: { trace: Trace }) {
  const stations = useMemo(() => stationsOf(trace), [trace]);
  const [kept, setKept] = useKept("box", "");
  const [head, setHead] = useState(0);
  const at = Math.max(0, stations.findIndex(({ id }) => id === kept));
  const go = (place: number) => setKept(stations[place].id);
  const isPlaying = usePlayer(at, stations.length, go);
  return (
    <div class="card">
      <h3>What happens to <bdi>{trace.tokens[trace.token]}</bdi></h3>
      <p class="controls">
        <button type="button" class="quiet play" onClick={isPlaying.toggle}>{isPlaying.on ? "Pause" : "Play"}</button>
        <span class="note">Play, scroll through the boxes, or click one: each holds the numbers that the model computes.</span>
      </p>
      <div class="walk">
        <Flow stations={stations} at={at} go={go} />
        <Details trace={trace} station={stations[at]} head={Math.min(head, trace.heads - 1)} setHead={setHead} />
      </div>
    </div>
  );
}

/** Whether Play is on, which moves to the next station until the last one. */
function usePlayer(at: number, count: number, go: (place: number) => void): { on: boolean; toggle: () => void } {
  const [on, setOn] = useState(false);
  useEffect(() => {
    if (!on) return;
    if (at === count - 1) return setOn(false);
    const timer = setTimeout(() => go(at + 1), 1000 * SECONDS_PER_STEP);
    return () => clearTimeout(timer);
  }, [on, at]);
  const toggle = () => {
    if (!on) go(at === count - 1 ? 0 : at + 1);
    setOn(!on);
  };
  return { on, toggle };
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
    const region = flow.current!;
    const top = middleOf(box);
    packet.current!.style.transform = `translate(${box.offsetLeft}px, ${top}px)`;
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
            {group.startsWith("Layer") && ["first", "second"].map((place) => <span class={`bypass ${place}`} aria-hidden="true" />)}
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

function Details({ trace, station, head, setHead }: { trace: Trace; station: Station; head: number; setHead: (head: number) => void }) {
  const layers = station.group === "Input" ? 0 : station.layer === null ? -1 : station.layer + 1; // before the numbers of the box
  const read = trace.masked_lm?.candidates[layers];
  return (
    <div class="walk-numbers" aria-live="polite">
      <h4>{station.group}: {station.title}</h4>
      <p class="note">{station.purpose}</p>
      {station.check && <p class="formula">{station.check}</p>}
      {station.perHead && <PerHead trace={trace} station={station} head={head} setHead={setHead} />}
      {station.candidates && <Bars rows={station.candidates} name={station.title} file="prediction" />}
      {station.vector && <Numbers {...station.vector} />}
      {station.shown.length > 1 && (
        <StripShades largest={largestOf(station.shown)} isShare={station.isShare}>
          Color in the box. Each box has its own scale, up to the largest of its numbers.
        </StripShades>
      )}
      {read && (
        <>
          <h4>{layers ? `The MLM head after layer ${layers}` : "The MLM head on the embeddings"}</h4>
          <Bars rows={candidateRows(read)} name="What the MLM head reads here" />
        </>
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

function PerHead({ trace, station, head, setHead }: { trace: Trace; station: Station; head: number; setHead: (head: number) => void }) {
  const layer = station.layer!;
  const { scores, weights } = trace.layers[layer];
  const order = range(trace.tokens.length).sort((a, b) => weights[head][b] - weights[head][a]);
  const open = () => setValues({ open: "head", layer: String(layer + 1), head: String(head + 1), from: String(trace.token + 1) }, true);
  return (
    <>
      <p class="examples" role="group" aria-label="Heads">
        {range(trace.heads).map((number) => (
          <button type="button" class="chip" aria-pressed={number === head} onClick={() => setHead(number)}>head {number + 1}</button>
        ))}
      </p>
      <Scroll label="Scores and weights of all tokens" class="tall">
        <Table
          class="bars scores"
          name={`Scores and weights of head ${head + 1}`}
          head={["token", "score", <td />, "weight"]}
          rows={order.map((i) => ({ cells: [trace.tokens[i], fixed(scores[head][i], 2), barCell(weights[head][i]), percent(weights[head][i])] }))}
        />
      </Scroll>
      <p class="examples"><button type="button" class="chip" onClick={open}>How these are computed, number by number</button></p>
    </>
  );
}
