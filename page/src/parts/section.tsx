/** A part of a view: its title, what it shows, and which model answers. */

import type { ComponentChildren, FunctionComponent } from "preact";
import { useContext, useEffect, useState } from "preact/hooks";
import { useKept, usePlace } from "../address";
import { Skeleton } from "./answer";
import { type Ability, Models, toModel } from "./models";
import { readRecorded, type Recorded, RecordedAnswers } from "./recorded";
import { Command } from "./share";

export interface View {
  id: string;
  title: string;
  /** The page opens on the first view that the first model answers. */
  needs: Ability;
  Body: FunctionComponent;
}

/** A title, with what belongs to its right. */
export function Head({ title, children }: { title: string; children?: ComponentChildren }) {
  return (
    <div class="part-head">
      <h2>{title}</h2>
      {children}
    </div>
  );
}

/** A titled part that a model answers, or recorded answers beside the command that serves one. */
export function Section(props: {
  title: string;
  /** What there is to see. */
  lead: ComponentChildren;
  needs: Ability;
  /** What no model here does. */
  missing: string;
  /** Serves such a model. */
  command: string;
  /** Of the address, where a view has several parts. */
  name?: string;
  /** The view whose recorded answers it shows, if not its own. */
  recorded?: string;
  Body: FunctionComponent<{ model: string }>;
}) {
  const { title, lead, needs, missing, command, Body } = props;
  const able = useContext(Models).filter(({ abilities }) => abilities.has(needs)).map(({ name }) => name);
  const [kept, setModel] = useKept(props.name ? `${props.name}-model` : "model", able[0] ?? "");
  const model = able.includes(kept) ? kept : able[0];
  return (
    <section class="part">
      <Head title={title}>
        {able.length > 1 ? (
          <select aria-label={`Model for: ${title}`} value={model} onChange={(event) => setModel(event.currentTarget.value, true)}>
            {able.map((name) => <option value={name}>{name}</option>)}
          </select>
        ) : (
          model && <span class="model" title="The model that answers">{model}</span>
        )}
      </Head>
      <p class="lead">{lead}</p>
      {model ? (
        <div class="part-body"><Body key={model} model={model} /></div>
      ) : (
        <RecordedPart from={props.recorded} needs={needs} Body={Body}>{missing} <Command>{command}</Command></RecordedPart>
      )}
    </section>
  );
}

/** The part with the answers that another model gave, below how to serve one. */
function RecordedPart({ from, needs, Body, children }: { from?: string; needs: Ability; Body: FunctionComponent<{ model: string }>; children: ComponentChildren }) {
  const { view: here } = usePlace();
  const view = from ?? here;
  const [recorded, setRecorded] = useState<Recorded | null>();
  useEffect(() => void readRecorded(view, needs).then(setRecorded), [view, needs]);
  return (
    <>
      <p class="missing">
        {recorded && <><b>Recorded example</b>, with <span class="model">{recorded.model.name}</span>. </>}
        {children}
      </p>
      {recorded === undefined && <Skeleton />}
      {recorded && (
        <RecordedAnswers.Provider value={recorded}>
          <Models.Provider value={[toModel(recorded.model)]}>
            <div class="part-body later"><Body model={recorded.model.name} /></div>
          </Models.Provider>
        </RecordedAnswers.Provider>
      )}
    </>
  );
}
