// @ts-check
/** The request behind an answer, to copy as a curl command or as Python, and the answer as JSON. */

import { element } from "./dom.js";

/** @typedef {{path: string, body: unknown, answer: unknown, hasKey: boolean}} Exchange */

/**
 * Buttons that copy a request or its answer.
 * @param {Exchange} exchange
 */
export function sharing(exchange) {
  const copied = element("span", { class: "muted", role: "status" });
  const buttons = Object.entries({ curl: asCurl, Python: asPython, JSON: asJson }).map(([name, write]) =>
    element(
      "button",
      {
        type: "button",
        class: "chip",
        click: async () => {
          copied.textContent = (await copy(write(exchange))) ? `Copied as ${name}.` : "The browser does not allow copying.";
        },
      },
      name,
    ),
  );
  return element("p", { class: "sharing examples" }, element("span", { class: "muted" }, "Copy as"), ...buttons, copied);
}

/** @param {Exchange} exchange */
export function asCurl({ path, body, hasKey }) {
  const key = hasKey ? ` \\\n  -H "Authorization: Bearer $CLOZE_API_KEY"` : "";
  return `curl ${quote(address(path))}${key} \\\n  -H 'Content-Type: application/json' \\\n  -d ${quote(JSON.stringify(body))}`;
}

/** @param {Exchange} exchange */
export function asPython({ path, body, hasKey }) {
  const key = hasKey ? `headers["Authorization"] = "Bearer " + os.environ["CLOZE_API_KEY"]\n` : "";
  return `import json
${hasKey ? "import os\n" : ""}import urllib.request

body = ${JSON.stringify(JSON.stringify(body))}
headers = {"Content-Type": "application/json"}
${key}request = urllib.request.Request(${JSON.stringify(address(path))}, body.encode(), headers)
print(json.load(urllib.request.urlopen(request)))
`;
}

/** @param {Exchange} exchange */
function asJson({ answer }) {
  return JSON.stringify(answer, null, 2);
}

/** @param {string} path */
function address(path) {
  return new URL(path, location.origin + location.pathname).href;
}

/** @param {string} text in single quotes of a shell */
function quote(text) {
  return `'${text.replaceAll("'", `'\\''`)}'`;
}

/** @param {string} text */
async function copy(text) {
  try {
    await navigator.clipboard.writeText(text);
    return true;
  } catch {
    return copyFromBox(text); // a page that is not served by https or from this machine has no clipboard
  }
}

/** @param {string} text */
function copyFromBox(text) {
  const box = element("textarea", { class: "hidden-box" });
  box.value = text;
  document.body.append(box);
  box.select();
  const done = document.execCommand("copy");
  box.remove();
  return done;
}
