/** Entities: names of people, places and other types, marked in the text. */

import { useKept } from "../address";
import { percent } from "../format";
import { Answer, Examples, MarkedText, parts, TextField, useAnswer, useModel } from "../parts";

const EXAMPLES = [
  { name: "A biography", text: "Marie Curie was born in Warsaw and moved to Paris, where she taught at the Sorbonne with Pierre Curie." },
  { name: "Sports", text: "Real Madrid beat Manchester United 3 to 1 in London on Wednesday, and Zidane praised the Spanish side." },
];
const KINDS = 6; // of colors and of lines under a name

export const EntitiesView = parts({
  title: "Named entities",
  lead: "A tagger predicts for each word whether it is part of a name, and the type of the name. Each type has its own color and its own line under the name.",
  needs: "tag",
  Body: Entities,
});

interface Entity {
  type: string;
  start: number;
  end: number;
  probability: number;
}

function Entities({ model }: { model: string }) {
  const text = useKept("text", EXAMPLES[0].text);
  const types = new Set(useModel(model)!.labels.filter((tag) => tag !== "O").map((tag) => tag.replace(/^[BIESLU]-/, ""))); // PER of B-PER
  const asked = useAnswer<Entity[][]>("tag", text[0].trim() ? { model, inputs: [text[0]] } : null, [...types].sort());
  return (
    <>
      <TextField label="Text" kept={text} />
      <Examples all={EXAMPLES} />
      <Answer asked={asked} class="card" isLive>
        {([found], { inputs }, all) => <Found text={inputs[0]} entities={found} all={all} />}
      </Answer>
    </>
  );
}

function Found({ text, entities, all }: { text: string; entities: Entity[]; all: string[] }) {
  const types = [...new Set(entities.map(({ type }) => type))].sort();
  // by its number among the model's types; 6 colors with 6 lines tell 36 types apart
  const kind = (type: string) => {
    const number = Math.max(0, all.indexOf(type));
    return `kind kind-${number % KINDS} line-${(number + Math.floor(number / KINDS)) % KINDS}`;
  };
  const counts = types.map((type, i) => (
    <>{i ? ", " : "Found: "}{entities.filter((entity) => entity.type === type).length} <span class={kind(type)}>{type}</span></>
  ));
  return (
    <>
      <MarkedText text={text} spans={entities} class="entities">
        {({ type, probability }, words) => (
          <mark class={kind(type)} title={`${type}, ${percent(probability)}`}>
            {words}
            <i>{type} {percent(probability)}</i>
          </mark>
        )}
      </MarkedText>
      <p class="remark">{types.length ? counts : "No entity found"}.</p>
    </>
  );
}
