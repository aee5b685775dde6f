// @ts-check
/** Entities: names of people, places and other types, marked in the text. */

import { keepBox } from "./address.js";
import { afterTyping, element, examples, field, textBox } from "./dom.js";
import { section } from "./section.js";
import { answers, ask } from "./server.js";

/** @type {[string, string][]} */
const EXAMPLES = [
  ["A biography", "Marie Curie was born in Warsaw and moved to Paris, where she taught at the Sorbonne with Pierre Curie."],
  ["Sports", "Real Madrid beat Manchester United 3 to 1 in London on Wednesday, and Zidane praised the Spanish side."],
];

/** @type {import("./main.js").View} */
export const entitiesView = {
  id: "entities",
  title: "Entities",
  build: (models) => [
    section({
      title: "Named entities",
      lead: "A tagger predicts for each word whether it is part of a name, and the type of the name.",
      needs: "tag",
      missing: "No model here finds entities.",
      command: "cloze serve -m RUN, where RUN is of cloze finetune tagging",
      models,
      build,
    }),
  ],
};

/** @typedef {{type: string, text: string, start: number, end: number, probability: number}} Entity */

/**
 * @param {HTMLElement} body
 * @param {() => import("./models.js").Model} model
 */
function build(body, model) {
  const box = textBox(EXAMPLES[0][1], 3);
  keepBox(box, "text");
  const result = element("div", { class: "card", "aria-live": "polite" });
  const show = answers(result);
  const refresh = () =>
    show(async (signal) => {
      const text = box.value;
      const [found] = await ask("tag", { model: model().name, inputs: [text] }, signal);
      return [element("p", { class: "running entities", dir: "auto" }, ...marked(text, found)), count(found)];
    });
  box.addEventListener("input", afterTyping(refresh));
  body.append(
    field("Text", box),
    examples(EXAMPLES, (text) => {
      box.value = text;
      refresh();
    }),
    result,
  );
  return refresh;
}

/**
 * @param {string} text
 * @param {Entity[]} entities
 */
function marked(text, entities) {
  let end = 0;
  const characters = [...text];
  const part = (/** @type {number} */ start, /** @type {number} */ to) => characters.slice(start, to).join("");
  const parts = entities.flatMap((entity) => {
    const before = part(end, entity.start);
    end = entity.end;
    const kind = `${entity.type} ${Math.round(100 * entity.probability)} %`;
    return [before, element("mark", {}, part(entity.start, end), element("i", {}, kind))];
  });
  return [...parts, part(end, characters.length)];
}

/** @param {Entity[]} entities */
function count(entities) {
  const kinds = [...new Set(entities.map(({ type }) => type))].map(
    (kind) => `${entities.filter(({ type }) => type === kind).length} ${kind}`,
  );
  return element("p", { class: "remark" }, kinds.length ? `Found: ${kinds.join(", ")}.` : "No entity found.");
}
