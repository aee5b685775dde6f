// @ts-check
/** Elements from data. Text goes in as text, never as markup. */

const SVG = "http://www.w3.org/2000/svg";

/** @typedef {Record<string, string | number | boolean | undefined | ((event: any) => void)>} Attributes */

/**
 * An HTML element.
 * @param {string} tag
 * @param {Attributes} [attributes] a function listens to the event of its name, `--name` is a variable of the style
 * @param {...(Node | string)} children
 * @returns {any}
 */
export function element(tag, attributes = {}, ...children) {
  return furnish(document.createElement(tag), attributes, children);
}

/**
 * An element of a picture.
 * @param {string} tag
 * @param {Attributes} [attributes]
 * @param {...(Node | string)} children
 * @returns {any}
 */
export function svg(tag, attributes = {}, ...children) {
  return furnish(document.createElementNS(SVG, tag), attributes, children);
}

/**
 * @param {HTMLElement | SVGElement} made
 * @param {Attributes} attributes
 * @param {(Node | string)[]} children
 */
function furnish(made, attributes, children) {
  for (const [name, value] of Object.entries(attributes)) {
    if (typeof value === "function") made.addEventListener(name, value);
    else if (name.startsWith("--")) made.style.setProperty(name, String(value));
    else if (typeof value === "boolean") made.toggleAttribute(name, value);
    else if (value !== undefined) made.setAttribute(name, String(value));
  }
  made.append(...children);
  return made;
}

let fields = 0;

/**
 * A field with its label above it.
 * @param {string} label
 * @param {HTMLElement} control
 */
export function field(label, control) {
  control.id = `field-${++fields}`;
  return element("div", { class: "field" }, element("label", { for: control.id }, label), control);
}

/**
 * A text to be written, of one line or several.
 * @param {string} value
 * @param {number} [rows]
 * @returns {any}
 */
export function textBox(value, rows = 1) {
  const box =
    rows === 1
      ? element("input", { type: "text", dir: "auto", autocomplete: "off", spellcheck: "false" })
      : element("textarea", { rows, dir: "auto", spellcheck: "false" });
  box.value = value;
  return box;
}

/**
 * Examples to begin with, one click each.
 * @template T
 * @param {[string, T][]} all their names and what they stand for
 * @param {(example: T) => void} choose
 */
export function examples(all, choose) {
  const buttons = all.map(([name, example]) =>
    element("button", { type: "button", class: "chip", click: () => choose(example) }, name),
  );
  return element("p", { class: "examples" }, element("span", { class: "muted" }, "Examples"), ...buttons);
}

/**
 * Call once nothing was typed for a moment.
 * @param {() => void} work
 */
export function afterTyping(work) {
  let timer = 0;
  return () => {
    clearTimeout(timer);
    timer = window.setTimeout(work, 350);
  };
}

/**
 * A part of a text: the server counts characters, a string here counts most emoji twice.
 * @param {string} text
 * @param {number} start
 * @param {number} [end]
 */
export function part(text, start, end) {
  return [...text].slice(start, end).join("");
}

/** @param {number} share 0 to 1 */
export function percent(share) {
  if (share > 0 && share < 0.001) return "< 0.1 %";
  return `${(100 * share).toFixed(1)} %`;
}

/**
 * A number with a true minus sign.
 * @param {number} value
 * @param {number} [digits]
 */
export function fixed(value, digits = 3) {
  const text = value.toFixed(digits);
  return Number(text) === 0 ? text.replace("-", "") : text.replace("-", "−");
}
