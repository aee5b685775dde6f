/** Training: the curves of a run, and how it fills in three held-out sentences, while it runs. */

import { median } from "d3-array";
import { useEffect, useRef, useState } from "preact/hooks";
import { useKept } from "../address";
import { clock, percent, short } from "../format";
import { type Curve, type Line, Scroll } from "../parts/charts";
import { type Measure, Measures } from "../parts/measures";
import { Head, type View } from "../parts/section";
import { Command } from "../parts/share";
import { ask, Refusal } from "../server";

const EVERY_MS = 2000;
const BOOKKEEPING = new Set(["kind", "step", "phase", "epoch", "tokens", "seconds", "fills"]);
const BASELINES = ["unigram", "majority"];
const MAX_POINTS = 160;
const QUIET_SECONDS = 60;

/** A line of metrics.jsonl. */
type Row = Record<string, any> & { kind: string; step: number };
interface Sample {
  text: string;
  answer: string;
  candidates: { token: string; probability: number }[];
}

export const trainingView: View = { id: "training", title: "Training", Body: Training };

function Training() {
  const [names, setNames] = useState<string[] | null>(null);
  const [error, setError] = useState("");
  const [kept, choose] = useKept("run", "");
  useEffect(() => {
    ask("explore/runs").then(setNames, (refused) => {
      if (!(refused instanceof Refusal)) throw refused;
      setError(refused.message);
    });
  }, []);
  const name = names?.includes(kept) ? kept : names?.[0];
  return (
    <section class="part">
      <Head title="A training run">
        {names && names.length > 1 ? (
          <select aria-label="Run" value={name} onChange={(event) => choose(event.currentTarget.value, true)}>
            {names.map((each) => <option value={each}>{each}</option>)}
          </select>
        ) : (
          name && <span class="model">{name}</span>
        )}
      </Head>
      <p class="lead">Loss against the baseline of word frequencies, scores, learning rate, throughput, and how the model fills in held-out sentences: from the metrics of a run, updated while it trains.</p>
      <div class="part-body" aria-busy={!names && !error ? true : undefined}>
        {error && <p class="error" role="alert">{error}</p>}
        {names && !name && <p class="missing">The server watches no run. Watch one: <Command>cloze serve -m cloze-mini --watch RUN</Command></p>}
        {name && <Watched key={name} name={name} />}
      </div>
    </section>
  );
}

interface Status {
  idle: number;
  isFinished: boolean;
  total: number | null;
  unit: string | null;
}

/** A run that is followed; while nobody looks, the server is left alone. */
function Watched({ name }: { name: string }) {
  const rows = useRef<Row[]>([]);
  const [status, setStatus] = useState<Status | null>(null);
  const [error, setError] = useState("");
  useEffect(() => {
    let after = "";
    let timer = 0;
    let isStopped = false;
    const poll = async () => {
      try {
        if (!document.hidden || !rows.current.length) {
          let found;
          do {
            found = await ask(`explore/runs/${encodeURIComponent(name)}?after=${after}`);
            if (found.is_anew) rows.current = [];
            rows.current.push(...found.rows);
            after = found.place;
          } while (found.more && !isStopped);
          if (isStopped) return;
          setError("");
          setStatus({ idle: found.seconds_since_change, isFinished: found.is_finished, total: found.budget, unit: found.budget_unit });
        }
      } catch (refused) {
        if (!(refused instanceof Refusal)) throw refused;
        setError(refused.message);
      }
      if (!isStopped) timer = window.setTimeout(poll, EVERY_MS);
    };
    poll();
    return () => {
      isStopped = true;
      clearTimeout(timer);
    };
  }, [name]);
  if (error) return <p class="error" role="alert">{error}</p>;
  if (!status) return <div aria-busy="true" />;
  if (!rows.current.length) return <p class="muted">The run has not written any metrics yet.</p>;
  return <Run rows={rows.current} status={status} />;
}

function Run({ rows, status }: { rows: Row[]; status: Status }) {
  const last = rows.reduce((first, second) => Object.assign(first, second), {} as Row);
  const end = rows.reduce((most, { step }) => Math.max(most, step), 0); // too many for the arguments of a call
  const speeds = rows.flatMap((row) => (row.tokens_per_second === undefined ? [] : [row.tokens_per_second]));
  const tiles = [
    ["Step", end.toLocaleString("en")],
    ["Time", last.seconds === undefined ? undefined : clock(last.seconds)],
    ["Tokens", last.tokens === undefined ? undefined : short(last.tokens)],
    ["Tokens a second", speeds.length ? short(median(speeds)!) : undefined], // as in the report
  ];
  const isLive = !status.isFinished && status.idle < QUIET_SECONDS;
  const used = status.unit === "steps" ? end : (last.seconds ?? 0);
  const state = status.isFinished ? "finished" : isLive ? "training" : `no news for ${clock(status.idle)}`;
  return (
    <>
      <dl class="tiles">
        {tiles.map(([label, value]) => value !== undefined && <div><dt>{label}</dt><dd>{value}</dd></div>)}
        <div><dt>State</dt><dd class={isLive ? "live" : status.isFinished ? "finished" : ""}>{state}</dd></div>
      </dl>
      {status.total !== null && (
        <p class="budget">
          <progress max={status.total} value={Math.min(used, status.total)} aria-label="Part of the run that is done" />
          <span class="muted">{percent(Math.min(1, used / status.total))} of {status.unit === "steps" ? `${status.total.toLocaleString("en")} steps` : clock(status.total)}</span>
        </p>
      )}
      <Samples rows={rows} />
      <div class="figures">
        <Measures of={measures(rows)} end={end} />
      </div>
    </>
  );
}

/** What the model filled in at each evaluation. */
function Samples({ rows }: { rows: Row[] }) {
  const evaluations = rows.filter((row) => row.kind === "fills") as (Row & { fills: Sample[] })[];
  if (!evaluations.length) return null;
  const columns = evaluations[evaluations.length - 1].fills;
  return (
    <div class="card samples">
      <h3>How the guesses become better</h3>
      <p class="note">Held-out sentences with a hidden word, and the first guesses at each evaluation. A right first guess is marked.</p>
      <Scroll label="Guesses at each evaluation">
        <table aria-label="Guesses at each evaluation">
          <thead>
            <tr><th scope="col">step</th>{columns.map(({ text, answer }) => <th scope="col">{text} <b>{answer}</b></th>)}</tr>
          </thead>
          <tbody>
            {evaluations.map(({ step, fills }) => (
              <tr>
                <th scope="row">{step.toLocaleString("en")}</th>
                {fills.map(({ answer, candidates }) => (
                  <td>
                    <span class={candidates[0].token === answer ? "right" : ""}>{candidates[0].token === answer ? "✓ " : ""}{candidates[0].token}</span>{" "}
                    <small>{percent(candidates[0].probability)}; {candidates.slice(1, 3).map(({ token }) => token).join(", ")}</small>
                  </td>
                ))}
              </tr>
            ))}
          </tbody>
        </table>
      </Scroll>
    </div>
  );
}

/** The curves of a run: losses first, then scores, then how the training went. */
function measures(rows: Row[]): Measure[] {
  const names = new Set(rows.flatMap((row) => Object.keys(row).filter((name) => !BOOKKEEPING.has(name) && typeof row[name] === "number")));
  const rank = (name: string) =>
    name === "loss" ? 0 : name.endsWith("loss") ? 1 : ["learning_rate", "gradient_norm", "tokens_per_second"].includes(name) ? 3 : 2;
  const isBaseline = (name: string) => BASELINES.some((baseline) => name.split("_").includes(baseline));
  return [...names]
    .filter((name) => !isBaseline(name))
    .sort((a, b) => rank(a) - rank(b))
    .map((name) => {
      const beside = [...names].find((other) => isBaseline(other) && withoutBaseline(other) === name);
      const kind = beside?.split("_").find((word) => BASELINES.includes(word));
      const lines: Line[] = [
        { kind: "baseline", name: kind === "unigram" ? "word frequencies" : (kind ?? ""), curve: curveOf(rows, "validation", beside) },
        { kind: "train", name: "training", curve: curveOf(rows, "train", name) },
        { kind: "held-out", name: "held out", curve: curveOf(rows, "validation", name) },
      ];
      return { name, title: words(name), lines: lines.filter((line) => line.curve.values.length) };
    })
    .filter(({ lines }) => lines.length);
}

function withoutBaseline(name: string): string {
  return name.split("_").filter((word) => !BASELINES.includes(word)).join("_");
}

/** Means over neighbors, so that a long run draws no more points than a short one. */
function curveOf(rows: Row[], kind: string, name: string | undefined): Curve {
  const own = name === undefined ? [] : rows.filter((row) => row.kind === kind && Number.isFinite(row[name]));
  const size = Math.max(1, Math.ceil(own.length / MAX_POINTS));
  const groups = Array.from({ length: Math.ceil(own.length / size) }, (_, i) => own.slice(i * size, (i + 1) * size));
  return {
    steps: groups.map((group) => group[group.length - 1].step),
    values: groups.map((group) => group.reduce((sum, row) => sum + row[name!], 0) / group.length),
  };
}

function words(name: string): string {
  const text = name.replaceAll("_", " ").replace("masked lm", "masked LM");
  return text[0].toUpperCase() + text.slice(1);
}
