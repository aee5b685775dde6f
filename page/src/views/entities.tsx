/** Entities: names of people, places and other types, marked in the text. */

import { chooseText, useSentence } from "../address";
import { part, percent } from "../format";
import { Answer, useAnswer } from "../parts/answer";
import { Examples, TextField } from "../parts/forms";
import { useModel } from "../parts/models";
import { Section, type View } from "../parts/section";

const EXAMPLES = [
  ["A biography", "Marie Curie was born in Warsaw and moved to Paris, where she taught at the Sorbonne with Pierre Curie."],
  ["Sports", "Real Madrid beat Manchester United 3 to 1 in London on Wednesday, and Zidane praised the Spanish side."],
] as const;
const KINDS = 6; // of colors and of lines under a name

export const entitiesView: View = {
  id: "entities",
  title: "Entities",
  needs: "tag",
  Body: () => (
    <Section
      title="Named entities"
      lead="A tagger predicts for each word whether it is part of a name, and the type of the name. Each type has its own color and its own line under the name."
      needs="tag"
      Body={Entities}
    />
  ),
};

interface Entity {
  type: string;
  text: string;
  start: number;
  end: number;
  probability: number;
}

function Entities({ model }: { model: string }) {
  const text = useSentence(EXAMPLES[0][1]);
  const types = typesOf(useModel(model)!.labels);
  const asked = useAnswer<Entity[][]>("tag", text[0].trim() ? { model, inputs: [text[0]] } : null, types);
  return (
    <>
      <TextField label="Text" kept={text} />
      <Examples all={EXAMPLES} choose={chooseText} />
      <Answer asked={asked} class="card" isLive>
        {([found], { inputs }, all) => <Found text={inputs[0]} entities={found} all={all} />}
      </Answer>
    </>
  );
}

/** The entity types in the tags of a model, such as PER in B-PER. */
function typesOf(tags: string[]): string[] {
  return [...new Set(tags.filter((tag) => tag !== "O").map((tag) => tag.replace(/^[BIESLU]-/, "")))].sort();
}

function Found({ text, entities, all }: { text: string; entities: Entity[]; all: string[] }) {
  let end = 0;
  const types = [...new Set(entities.map(({ type }) => type))].sort();
  // by its number among the model's types; 6 colors with 6 lines tell 36 types apart
  const kind = (type: string) => {
    const number = Math.max(0, all.indexOf(type));
    return `kind kind-${number % KINDS} line-${(number + Math.floor(number / KINDS)) % KINDS}`;
  };
  return (
    <>
      <p class="running entities" dir="auto">
        {entities.map((entity) => {
          const before = part(text, end, entity.start);
          end = entity.end;
          return (
            <>
              {before}
              <mark class={kind(entity.type)} title={`${entity.type}, ${percent(entity.probability)}`}>
                {part(text, entity.start, end)}
                <i>{entity.type} {percent(entity.probability)}</i>
              </mark>
            </>
          );
        })}
        {part(text, end)}
      </p>
      <p class="remark">
        {types.length
          ? types.map((type, i) => (
              <>
                {i ? ", " : "Found: "}
                {entities.filter((entity) => entity.type === type).length} <span class={kind(type)}>{type}</span>
              </>
            ))
          : "No entity found"}
        .
      </p>
    </>
  );
}
