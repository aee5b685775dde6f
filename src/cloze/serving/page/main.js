// @ts-check
/** The shell: a tab for each view, light or dark, and which models there are. */

import { differsFromAddress, forget, viewInAddress, writeAddress } from "./address.js";
import { element } from "./dom.js";
import { Refusal } from "./server.js";
import { loadModels } from "./models.js";
import { answersView } from "./answers.js";
import { entitiesView } from "./entities.js";
import { fillView } from "./fill.js";
import { insideView } from "./inside.js";
import { layersView } from "./layers.js";
import { pairsView } from "./pairs.js";
import { trainingView } from "./training.js";
import { whyView } from "./why.js";

/**
 * A view: opened once, when its tab is first chosen.
 * @typedef {object} View
 * @property {string} id of its address, as in #fill
 * @property {string} title
 * @property {(models: import("./models.js").Model[]) => HTMLElement[]} build
 */

/** @type {View[]} */
const VIEWS = [fillView, layersView, insideView, pairsView, answersView, entitiesView, whyView, trainingView];

const panel = /** @type {HTMLElement} */ (document.getElementById("view"));
/** @type {Map<string, HTMLElement>} */
const built = new Map();

/** @param {import("./models.js").Model[]} models */
function start(models) {
  const tabs = VIEWS.map((view) =>
    element(
      "a",
      { role: "tab", id: `tab-${view.id}`, href: `#${view.id}`, "aria-controls": "view", keydown: moveAmongTabs },
      view.title,
    ),
  );
  document.getElementById("tabs")?.replaceChildren(...tabs);
  const show = () => open(models, tabs);
  window.addEventListener("hashchange", show);
  document.querySelector(".skip")?.addEventListener("click", (event) => {
    event.preventDefault(); // the link is not the address of a view
    panel.focus();
  });
  show();
}

/**
 * @param {import("./models.js").Model[]} models
 * @param {HTMLElement[]} tabs
 */
function open(models, tabs) {
  const view = VIEWS.find(({ id }) => id === viewInAddress()) ?? VIEWS[0];
  if (!viewInAddress()) history.replaceState(null, "", `#${view.id}`);
  tabs.forEach((tab, number) => {
    const chosen = VIEWS[number] === view;
    tab.setAttribute("aria-selected", String(chosen));
    tab.tabIndex = chosen ? 0 : -1;
    if (chosen) tab.scrollIntoView({ block: "nearest", inline: "center" });
  });
  document.title = `${view.title} · cloze`;
  panel.setAttribute("aria-labelledby", `tab-${view.id}`);
  let place = built.get(view.id);
  if (!place || differsFromAddress(view.id)) {
    forget(view.id);
    place = element("div", { class: "view" });
    built.set(view.id, /** @type {HTMLElement} */ (place));
    panel.replaceChildren(/** @type {HTMLElement} */ (place)); // before it is filled: what measures itself needs a place
    place?.append(...view.build(models));
    return;
  }
  panel.replaceChildren(place);
  writeAddress();
}

/** @param {KeyboardEvent} event */
function moveAmongTabs(event) {
  const tabs = /** @type {HTMLElement[]} */ ([...document.querySelectorAll('[role="tab"]')]);
  const here = tabs.indexOf(/** @type {HTMLElement} */ (event.currentTarget));
  /** @type {Record<string, number>} */
  const places = { ArrowRight: here + 1, ArrowLeft: here - 1, Home: 0, End: tabs.length - 1, " ": here };
  if (!(event.key in places)) return;
  event.preventDefault();
  const tab = tabs[(places[event.key] + tabs.length) % tabs.length];
  tab.click();
  tab.focus();
}

function buildThemeSwitch() {
  const root = document.documentElement;
  const button = /** @type {HTMLButtonElement} */ (document.getElementById("theme"));
  const dark = window.matchMedia("(prefers-color-scheme: dark)");
  const isDark = () => (root.dataset.theme ?? (dark.matches ? "dark" : "light")) === "dark";
  const label = () => (button.textContent = isDark() ? "Light" : "Dark");
  button.addEventListener("click", () => {
    root.dataset.theme = isDark() ? "light" : "dark";
    localStorage.setItem("theme", root.dataset.theme);
    label();
  });
  dark.addEventListener("change", label);
  label();
}

buildThemeSwitch();
try {
  const models = await loadModels();
  start(models);
  const names = models.map(({ name }) => name).join(", ");
  /** @type {HTMLElement} */ (document.getElementById("served")).textContent = `Served here: ${names || "no model"}.`;
} catch (error) {
  if (!(error instanceof Refusal)) throw error;
  panel.replaceChildren(element("p", { class: "error", role: "alert" }, error.message));
}
