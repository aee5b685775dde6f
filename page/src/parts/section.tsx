/** A view, loaded when it is opened, and its parts: title, model, and the window on a long text. */

import type { ComponentChildren, FunctionComponent } from "preact";
import { useContext, useEffect, useState } from "preact/hooks";
import { Preset, setValues, useKept, usePlace } from "../address";
import { grouped, within } from "../format";
import { ask } from "../server";
import { Problem, Skeleton } from "./answer";
import { Select } from "./forms";
import { type Ability, Models, type Recorded, RecordedAnswers, readRecorded } from "./models";
import { Command } from "./share";

export interface View {
  id: string;
  title: string;
  /** The page opens on the first view that the first model answers; never on one without it. */
  needs?: Ability;
  Body: FunctionComponent;
}

const SERVE = "cloze serve -m cloze-mini";
const finetune = (task: string, data = "FILE") => `cloze finetune ${task} -m cloze-mini -d ${data} -o RUN && cloze serve -m RUN`;
const CLASSIFIER = ["No model here classifies texts. Train one on a table of texts and labels, and serve it:", finetune("classification")] as const;
/** For each ability: the message if no served model has it, and the command that serves one. */
const MISSING: Record<Ability, readonly [string, string]> = {
  fill: ["No model here fills in words. Serve a pre-trained one:", SERVE],
  "next-sentence": ["No model here predicts the next sentence. Serve one that was pre-trained with pairs:", SERVE],
  embed: ["No model here makes vectors of texts. Serve one:", SERVE],
  tokenize: ["No model is served here. Serve one:", SERVE],
  encode: ["No model here has an encoder. Serve one:", SERVE],
  predict: CLASSIFIER,
  explain: CLASSIFIER,
  tag: ["No model here finds entities. Train one on a file of words and tags, and serve it:", finetune("tagging")],
  answer: ["No model here answers questions. Train one on SQuAD, and serve it:", finetune("squad_v2", "SQUAD")],
  rerank: ["No model here ranks passages. Train one on queries and passages, and serve it:", finetune("ranking")],
  search: ["No documents are served here. Serve a folder of text files:", "cloze serve -m cloze-mini-sentences --search FOLDER"],
  choose: ["No model here chooses between continuations. Train one, and serve it:", finetune("multiple-choice")],
};

export function Head({ title, children }: { title: string; children?: ComponentChildren }) {
  return (
    <div class="part-head">
      <h2>{title}</h2>
      {children}
    </div>
  );
}

/** The abilities that no served model has, with the commands that serve one. */
export function Missing({ needs, children }: { needs: Ability[]; children?: ComponentChildren }) {
  return (
    <>
      {[...new Set(needs.map((ability) => MISSING[ability]))].map(([message, command]) => (
        <p class="missing">{children}{message} <Command>{command}</Command></p>
      ))}
    </>
  );
}

interface Part {
  title: string;
  lead: ComponentChildren;
  needs: Ability;
  /** Of its values in the address, in a view with several parts. */
  name?: string;
  Body: FunctionComponent<{ model: string }>;
}

export function parts(...all: Part[]): FunctionComponent {
  return () => <>{all.map((part) => <Section {...part} />)}</>;
}

/** A titled part that a model answers, or recorded answers beside the command that serves one; within a lesson without title and lead. */
export function Section({ title, lead, needs, name, Body }: Part) {
  const models = useContext(Models).filter(({ abilities }) => abilities.includes(needs));
  if (needs === "embed") models.sort((a, b) => Number(b.is_sentence_encoder) - Number(a.is_sentence_encoder));
  const able = models.map(({ name }) => name);
  const isInLesson = useContext(Preset) !== null;
  const [part] = useKept("part", "");
  const [kept, setModel] = useKept(name && !isInLesson ? `${name}-model` : "model", "");
  const [shared] = useKept("model", ""); // of views with one part
  const model = [kept, ...(needs === "embed" ? [] : [shared])].find((name) => able.includes(name)) ?? able[0];
  if (part && name && part !== name) return null;
  if (isInLesson) return <div class="part-body"><Body key={model} model={model} /></div>;
  const only = model && <span class="model" title="The model that answers">{model}</span>;
  return (
    <section class="part">
      <Head title={title}>{able.length > 1 ? <Select name={`Model for: ${title}`} all={able} value={model} set={setModel} /> : only}</Head>
      <p class="lead">{lead}</p>
      {model ? <div class="part-body"><Body key={model} model={model} /></div> : <RecordedPart needs={needs} Body={Body} />}
    </section>
  );
}

/** The part with recorded answers, and the command that serves a model. */
function RecordedPart({ needs, Body }: { needs: Ability; Body: FunctionComponent<{ model: string }> }) {
  const { view } = usePlace();
  const [recorded, setRecorded] = useState<Recorded | null>();
  useEffect(() => void readRecorded(view, needs).then(setRecorded), [view, needs]);
  return (
    <>
      <Missing needs={[needs]}>
        {recorded && <><b>Recorded example</b>, with <span class="model">{recorded.model.name}</span>. </>}
      </Missing>
      {recorded === undefined && <Skeleton />}
      {recorded && (
        <RecordedAnswers.Provider value={recorded}>
          <Models.Provider value={[recorded.model]}>
            <div class="part-body later"><Body model={recorded.model.name} /></div>
          </Models.Provider>
        </RecordedAnswers.Provider>
      )}
    </>
  );
}

/** Numbers of tokens, without the special ones. */
export interface TextWindow {
  start: number;
  count: number;
  total: number;
}

/** The position of the window, with buttons that move it; nothing if it is the whole text. */
export function WindowBar({ of: { start, count, total } }: { of: TextWindow }) {
  if (count === total) return null;
  const move = (to: number) =>
    setValues({ start: String(within(to, total - count + 1)), token: undefined, from: undefined, to: undefined }, true);
  return (
    <p class="examples window">
      <button type="button" class="chip" disabled={start === 0} onClick={() => move(start - count)}>Earlier</button>
      <span>Tokens {grouped(start + 1)} to {grouped(start + count)} of {grouped(total)}, which the model reads alone</span>
      <button type="button" class="chip" disabled={start + count === total} onClick={() => move(start + count)}>Later</button>
    </p>
  );
}

/** A component that is loaded when it is first shown, once the server answers. */
export function lazy(load: () => Promise<FunctionComponent>): FunctionComponent {
  let Loaded: FunctionComponent | undefined;
  return () => {
    const [isFailed, setIsFailed] = useState<boolean>();
    useEffect(() => {
      const found = load().catch(() => ask("info").then(load));
      found.then((component) => (Loaded = component)).then(() => setIsFailed(false), () => setIsFailed(true));
    }, []);
    if (Loaded) return <Loaded />;
    return isFailed ? <Problem>This view was not loaded. Load the page again.</Problem> : <Skeleton />;
  };
}
