// @ts-check
/** Which models are served, and what each of them can do. */

import { ask } from "./server.js";

/**
 * @typedef {"fill" | "next-sentence" | "embed" | "predict" | "tag" | "answer" | "explain" | "encode"} Ability
 * @typedef {{name: string, abilities: Set<Ability>}} Model
 */

/** @returns {Promise<Model[]>} */
export async function loadModels() {
  const { models } = await ask("info");
  return models.map((/** @type {any} */ model) => ({ name: model.name, abilities: new Set(model.abilities) }));
}

/**
 * @param {Model[]} models
 * @param {Ability} ability
 */
export function modelsThat(models, ability) {
  return models.filter(({ abilities }) => abilities.has(ability));
}
