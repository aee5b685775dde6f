// @ts-check
/** A part of a view: its title, what it shows, and which model answers. */

import { element } from "./dom.js";
import { modelsThat } from "./models.js";

/**
 * @typedef {import("./models.js").Model} Model
 * @typedef {import("./models.js").Ability} Ability
 */

/**
 * A titled part that a model answers, or the line that says how to serve one.
 * @param {object} part
 * @param {string} part.title
 * @param {string} part.lead what there is to see
 * @param {Ability} part.needs
 * @param {string} part.missing what no model here does
 * @param {string} part.command that serves one
 * @param {Model[]} part.models all that are served
 * @param {(body: HTMLElement, model: () => Model) => (() => void)} part.build fills the body, and returns what asks again
 * @returns {HTMLElement}
 */
export function section({ title, lead, needs, missing, command, models, build }) {
  const able = modelsThat(models, needs);
  const heading = element("h2", {}, title);
  const text = element("p", { class: "lead" }, lead);
  if (!able.length) {
    return element(
      "section",
      { class: "part" },
      element("div", { class: "part-head" }, heading),
      text,
      element("p", { class: "missing" }, `${missing} Serve one: `, element("code", {}, command)),
    );
  }
  const select = element(
    "select",
    { "aria-label": `Model for: ${title}` },
    ...able.map(({ name }) => element("option", { value: name }, name)),
  );
  const shown =
    able.length > 1 ? select : element("span", { class: "model", title: "The model that answers" }, able[0].name);
  const body = element("div", { class: "part-body" });
  const model = () => able.find(({ name }) => name === select.value) ?? able[0];
  const refresh = build(body, model);
  select.addEventListener("change", refresh);
  refresh();
  return element("section", { class: "part" }, element("div", { class: "part-head" }, heading, shown), text, body);
}
