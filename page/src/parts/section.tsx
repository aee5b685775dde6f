/** A part of a view: its title, what it shows, and which model answers. */

import type { ComponentChildren, FunctionComponent } from "preact";
import { createContext } from "preact";
import { useContext } from "preact/hooks";
import { useKept } from "../address";
import { Command } from "./share";

export type Ability = "fill" | "next-sentence" | "embed" | "predict" | "tag" | "answer" | "explain" | "encode";
export interface Model {
  name: string;
  abilities: Set<Ability>;
  /** Whether it was fine-tuned on pairs of texts, or on single ones; null if nothing says which. */
  readsPairs: boolean | null;
  /** Its classes or tags. */
  labels: string[];
}

/** The models that are served. */
export const Models = createContext<Model[]>([]);

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

/** A titled part that a model answers, or the line that says how to serve one. */
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
        <p class="missing">{missing} <Command>{command}</Command></p>
      )}
    </section>
  );
}
