/** Lessons: steps that ask for a guess, show how the served model ranks it, and open a view on the same text. */

import { useContext, useEffect, useLayoutEffect, useMemo, useRef, useState } from "preact/hooks";
import { addressOf, Preset, setValues, useKept, usePlace } from "../address";
import { grouped, within } from "../format";
import { headOf, type Measure, MEASURES, placeOf, ranked, type Row, type Step } from "../measures";
import { Answer, barCell, Missing, type Model, Models, Problem, Section, Skeleton, Switch, Table, useAnswer, useModel, type View } from "../parts";
import { ask, refused } from "../server";

interface Lesson {
  title: string;
  steps: Step[];
}
/** Definitions by their terms. */
type Glossary = Record<string, string>;

const SHOWN = 5;

export function Lessons({ views }: { views: View[] }) {
  const [course, setCourse] = useState<{ lessons: Lesson[]; glossary: Glossary } | null>(null);
  const [error, setError] = useState("");
  useEffect(() => void ask("explore/lessons").then(setCourse, refused(setError)), []);
  if (error) return <Problem>{error}</Problem>;
  return course ? <Opened {...course} views={views} /> : <Skeleton />;
}

function Opened({ lessons, glossary, views }: { lessons: Lesson[]; glossary: Glossary; views: View[] }) {
  const { values } = usePlace();
  const models = useContext(Models);
  const withAnswers = useKept("answers", "");
  const top = useRef<HTMLDivElement>(null);
  const here = within(Number(values.lesson) - 1 || 0, lessons.length);
  const { title, steps } = lessons[here];
  const at = within(Number(values.step) - 1 || 0, steps.length);
  const go = (lesson: number, step = 0) => {
    const others = Object.fromEntries(Object.keys(values).filter((key) => !["model", "answers"].includes(key)).map((key) => [key, undefined]));
    setValues({ ...others, lesson: String(lesson + 1), step: String(step + 1) }, true);
    top.current!.focus();
  };
  const needsOf = ({ reveal, view }: Step) => [MEASURES[reveal.measure].needs, ...views.flatMap(({ id, needs }) => (id === view && needs ? [needs] : []))];
  const missing = ({ steps }: Lesson) => steps.flatMap(needsOf).filter((need) => !models.some(({ abilities }) => abilities.includes(need)));
  const lacks = missing(lessons[here]);
  const step = steps[at];
  const view = views.find(({ id }) => id === step.view);
  const Body = useMemo(() => ({ model }: { model: string }) => <Question step={step} name={model} glossary={glossary} view={view} />, [step]);
  const next = at + 1 < steps.length ? ([here, at + 1] as const) : ([here + 1, 0] as const);
  return (
    <div class="lesson">
      <div class="rail" role="group" aria-label="Lessons">
        {lessons.map((lesson, i) => (
          <button type="button" class={missing(lesson).length ? "stop lacking" : "stop"} aria-label={`${i + 1} ${lesson.title}`} aria-pressed={i === here} onClick={() => go(i)}>
            {i + 1} <small>{lesson.title}</small>
          </button>
        ))}
      </div>
      <div ref={top} tabIndex={-1} role="group" aria-label={`Lesson ${here + 1}, step ${at + 1}`}>
        {lacks.length ? (
          <Missing needs={lacks}><b>{here + 1}. {title}: </b></Missing>
        ) : (
          <Section
            key={`${here}.${at}`}
            title={`${here + 1}. ${title}`}
            lead={<><span class="count">Step {at + 1} of {steps.length}</span> <Explained glossary={glossary}>{step.text}</Explained></>}
            needs={MEASURES[step.reveal.measure].needs}
            Body={Body}
          />
        )}
      </div>
      {!lacks.length && (
        <p class="examples later">
          <button type="button" class="quiet" onClick={printSheet}>Print the lesson as a sheet</button>
          <Switch label="with the model’s answers" kept={withAnswers} />
        </p>
      )}
      {!lacks.length && <Sheet title={`${here + 1}. ${title}`} steps={steps} glossary={glossary} hasAnswers={withAnswers[0] === "1"} />}
      <p class="examples lesson-bar">
        <button type="button" class="quiet" disabled={!here && !at} onClick={() => (at ? go(here, at - 1) : go(here - 1, lessons[here - 1].steps.length - 1))}>Back</button>
        {next[0] in lessons && (
          <button type="button" class="quiet onward" onClick={() => go(...next)}>{next[1] ? `Next: step ${next[1] + 1} of ${steps.length}` : `Lesson ${next[0] + 1}: ${lessons[next[0]].title}`}</button>
        )}
      </p>
    </div>
  );
}

/** A text in which the first mention of each term shows its definition. */
function Explained({ glossary, children }: { glossary: Glossary; children: string }) {
  const pieces = children.split(termsIn(glossary));
  const termOf = (piece: string) => (piece in glossary ? piece : Object.keys(glossary).find((term) => new RegExp(`^${term}s?$`, "i").test(piece))!);
  const terms = pieces.map((piece, i) => (i % 2 ? termOf(piece) : "")); // each is between two pieces of text
  return <>{pieces.map((piece, i) => (terms[i] && terms.indexOf(terms[i]) === i ? <Term name={piece}>{glossary[terms[i]]}</Term> : piece))}</>;
}

/** Matches terms and their plurals; the longest first. */
function termsIn(glossary: Glossary): RegExp {
  const terms = Object.keys(glossary).sort((a, b) => b.length - a.length);
  return new RegExp(`(?<![\\p{L}\\[-])((?:${terms.join("|")})s?)(?![\\p{L}\\]])`, "giu");
}

/** A word whose definition is shown below it while it has the pointer or the focus; Escape hides it. */
function Term({ name, children }: { name: string; children: string }) {
  const [isOpen, setIsOpen] = useState(false);
  const tip = useRef<HTMLSpanElement>(null);
  useLayoutEffect(() => {
    if (tip.current) tip.current.style.left = `${Math.min(0, document.documentElement.clientWidth - tip.current.getBoundingClientRect().right - 8)}px`;
  }, [isOpen]);
  const show = () => setIsOpen(true);
  const hide = () => setIsOpen(false);
  return (
    <span class="term" onPointerEnter={show} onPointerLeave={hide} onFocusIn={show} onFocusOut={hide} onKeyDown={(event) => event.key === "Escape" && hide()}>
      <button type="button" aria-expanded={isOpen} onClick={show}>{name}</button>
      {isOpen && <span role="tooltip" ref={tip}>{children}</span>}
    </span>
  );
}

/** The text that is asked about, if choices do not have it. */
function Subject({ step, model }: { step: Step; model: Model }) {
  const { subject = ({ state }) => state.text } = MEASURES[step.reveal.measure];
  const text = subject(step, model);
  return text ? <p class="running" dir="auto">{text}</p> : null;
}

function Question({ step, name, glossary, view }: { step: Step; name: string; glossary: Glossary; view?: View }) {
  const model = useModel(name)!;
  const measure = MEASURES[step.reveal.measure];
  const [guess, setGuess] = useKept("guess", "");
  const [path, body] = measure.ask(step, model, guess);
  const isTyped = measure.isTyped && !step.choices;
  const asked = useAnswer<any>(path, isTyped && !guess ? null : { model: name, ...body });
  const send = (event: SubmitEvent) => {
    event.preventDefault();
    setGuess(new FormData(event.currentTarget as HTMLFormElement).get("guess")!.toString().trim(), true);
  };
  const choose = (names: readonly string[]) => (
    <p class="choices" role="group" aria-label="Choices">
      {names.map((choice) => <button type="button" class="chip" aria-pressed={choice === guess} onClick={() => setGuess(choice, true)}>{choice}</button>)}
    </p>
  );
  const isListed = isTyped || step.choices !== null;
  const reveal = (answer: any) => {
    const rows = ranked(measure, answer, step, guess);
    return (
      <>
        {!isListed && choose(measure.rows(answer, step, guess).map(({ label }) => label))}
        {guess && <Reveal step={step} rows={rows} guess={guess} count={isTyped && measure.count ? measure.count(answer) : rows.length} />}
      </>
    );
  };
  return (
    <>
      <div class="card question">
        <Subject step={step} model={model} />
        <h3><Explained glossary={glossary}>{questionOf(step, model)}</Explained></h3>
        {isTyped && (
          <form class="choices" onSubmit={send}>
            <input name="guess" aria-label="Your guess" autocomplete="off" spellcheck={false} defaultValue={guess} required />
            <button class="chip">Guess</button>
          </form>
        )}
        {step.choices && choose(step.choices)}
        {(guess || !isListed) && <Answer asked={asked} isLive isShared={false}>{reveal}</Answer>}
      </div>
      {view && guess && (
        <Preset.Provider value={step.state}>
          <p class="note later">Look at it, and try your own, in the view <a href={addressOf(view.id, step.state)}>{view.title}</a>:</p>
          <view.Body />
        </Preset.Provider>
      )}
    </>
  );
}

/** Wait until the answers are there, and print. */
function printSheet(): void {
  if (document.querySelector(".sheet .skeleton")) setTimeout(printSheet, 50);
  else print();
}

/** Put values into the {names} of a template. */
function filled(template: string, values: Record<string, string | number>): string {
  return template.replace(/\{(\w+)\}/g, (whole, name) => String(values[name] ?? whole));
}

function questionOf(step: Step, model: Model): string {
  const [layer, head] = headOf(step, model.num_hidden_layers, model.num_attention_heads);
  return filled(step.question, { layer, head });
}

/** The rank of the guess, the text for it, and the first rows. */
function Reveal({ step, rows, guess, count }: { step: Step; rows: Row[]; guess: string; count: number }) {
  const { measure: name, first, near, below, answer } = step.reveal;
  const measure = MEASURES[name];
  const best = rows.find(({ rank }) => rank === 1)!;
  const row = rows.find(({ label }) => label === guess);
  if (!row) return <p class="reveal answer">“{name === "sentence" ? answer : guess}” is not one token of this model’s vocabulary, and [MASK] stands for one.</p>;
  const original = measure.isTyped ? rows.find(({ label }) => label === answer) : undefined;
  const template = row.rank === 1 ? first : row.rank <= SHOWN && near ? near : below;
  const values = { guess, rank: row.rank, value: row.shown, best: best.label, best_value: best.shown, count };
  return (
    <div class="reveal">
      <p class="answer">{placeOf(measure, row, count)}</p>
      {original && original !== row && <p>The right word: {placeOf(measure, original, count)}</p>}
      <p class="remark">{filled(template, values)}</p>
      <Ranking measure={measure} rows={rows} marked={[row, original]} />
    </div>
  );
}

function Ranking({ measure: { isDistance }, rows, marked }: { measure: Measure; rows: Row[]; marked: unknown[] }) {
  const largest = rows[0]?.value ?? 0;
  const shown = rows.filter((row, i) => isDistance || i < SHOWN || marked.includes(row));
  const cellsOf = ({ rank, label, value, shown }: Row) => [
    ...(isDistance ? [] : [<td>{grouped(rank)}</td>]),
    <th scope="row">{label}</th>,
    ...(largest > 0 ? [barCell(value / largest)] : []),
    shown,
  ];
  const rowsOf = shown.map((row) => ({ cells: cellsOf(row), strong: marked.includes(row) || (isDistance && row.rank === 1) }));
  return <Table class="bars ranking" name="Ranks" rows={rowsOf} />;
}

/** The questions with room for answers, which are printed in place of the page; and the model's answers on a page of their own. */
function Sheet({ title, steps, glossary, hasAnswers }: { title: string; steps: Step[]; glossary: Glossary; hasAnswers: boolean }) {
  const models = useContext(Models);
  const { model: chosen } = usePlace().values;
  const words = steps.flatMap(({ text, question }) => `${text} ${question}`.match(termsIn(glossary)) ?? []).map((word) => word.toLowerCase());
  const terms = Object.keys(glossary).filter((term) => words.some((word) => word.startsWith(term.toLowerCase())));
  const asked = steps.map((step) => {
    const able = models.filter(({ abilities }) => abilities.includes(MEASURES[step.reveal.measure].needs));
    return [step, able.find(({ name }) => name === chosen) ?? able[0]] as const;
  });
  return (
    <div class="sheet">
      <h2>{title}</h2>
      <p>Name: <i class="room" /> Date: <i class="room" /></p>
      {asked.map(([step, model], i) => (
        <section>
          <p><b>{i + 1}.</b> {step.text}</p>
          <Subject step={step} model={model} />
          <h3>{questionOf(step, model)}</h3>
          {step.choices ? <ul>{step.choices.map((choice) => <li>{choice}</li>)}</ul> : <p>My guess: <i class="room" /></p>}
          <p>Because: <i class="room long" /></p>
          <p>The model’s answer, and its rank of my guess: <i class="room" /></p>
        </section>
      ))}
      <dl>{terms.map((term) => <><dt>{term}</dt><dd>{glossary[term]}</dd></>)}</dl>
      {hasAnswers && (
        <section class="solutions">
          <h2>{title}: the answers of {[...new Set(asked.map(([, { name }]) => name))].join(", ")}</h2>
          {asked.map(([step, model], i) => <Solution step={step} model={model} number={i + 1} />)}
        </section>
      )}
    </div>
  );
}

function Solution({ step, model, number }: { step: Step; model: Model; number: number }) {
  const measure = MEASURES[step.reveal.measure];
  const [path, body] = measure.ask(step, model, "");
  const asked = useAnswer<any>(path, { model: model.name, ...body });
  return (
    <>
      <h3>{number}. {questionOf(step, model)}</h3>
      <Answer asked={asked} isShared={false}>{(answer) => <Ranking measure={measure} rows={ranked(measure, answer, step, "")} marked={[]} />}</Answer>
    </>
  );
}
