// Describe every route of openapi.json, with a form that sends its example.

const MAX_SHOWN = 20_000; // characters of a response

let schema;
let key = "";

/** An element with attributes and children; texts are never read as markup. */
function element(name, attributes = {}, ...children) {
  const made = document.createElement(name);
  for (const [attribute, value] of Object.entries(attributes)) made.setAttribute(attribute, value);
  made.append(...children);
  return made;
}

async function ask(path, options = {}) {
  const headers = { ...options.headers, ...(key && { Authorization: `Bearer ${key}` }) };
  return fetch(path.slice(1) || "./", { ...options, headers }); // relative: the server may be behind a prefix
}

/** What a reference points at. */
function resolve(part) {
  return part.$ref ? resolve(part.$ref.slice(2).split("/").reduce((found, step) => found[step], schema)) : part;
}

/** The type of a value in a word or a few, such as "string[] or null". */
function typeName(part) {
  const options = part.anyOf ?? part.oneOf;
  if (options) return [...new Set(options.map(typeName))].join(" or ");
  if (part.$ref) return part.$ref.split("/").at(-1);
  if (part.const !== undefined) return JSON.stringify(part.const);
  if (part.enum) return part.enum.map((value) => JSON.stringify(value)).join(" or ");
  if (part.type === "array") return `${part.items ? typeName(part.items) : "any"}[]`;
  return part.type ?? "any";
}

/** Every object that a value consists of, by name. */
function objects(part, found = new Map()) {
  if (part.$ref) {
    const name = part.$ref.split("/").at(-1);
    if (found.has(name)) return found;
    const target = resolve(part);
    if (target.properties) found.set(name, target);
    for (const property of Object.values(target.properties ?? {})) objects(property, found);
  }
  for (const option of [...(part.anyOf ?? []), ...(part.oneOf ?? []), ...(part.items ? [part.items] : [])])
    objects(option, found);
  return found;
}

function fieldTables(part) {
  return [...objects(part)].map(([name, object]) =>
    element(
      "table",
      {},
      element("caption", {}, name),
      ...Object.entries(object.properties).map(([field, property]) =>
        element(
          "tr",
          {},
          element("th", { scope: "row" }, element("code", {}, field), object.required?.includes(field) ? " *" : ""),
          element("td", {}, element("code", {}, typeName(property))),
          element("td", {}, property.description ?? ""),
        ),
      ),
    ),
  );
}

function form(method, path, example) {
  const parameters = [...path.matchAll(/{(\w+)}/g)].map(([, name]) => name);
  const inputs = parameters.map((name) => element("input", { "aria-label": name, placeholder: name }));
  const body = element("textarea", { rows: 5, spellcheck: "false", "aria-label": `Body of ${path}` });
  body.value = JSON.stringify(example ?? {}, null, 2);
  const shown = element("pre", { "aria-label": `Response of ${path}`, tabindex: 0, hidden: "" });
  const button = element("button", { type: "button" }, "Send");
  button.addEventListener("click", async () => {
    shown.hidden = false;
    shown.textContent = "…";
    const target = parameters.reduce(
      (text, name, i) => text.replace(`{${name}}`, encodeURIComponent(inputs[i].value)),
      path,
    );
    const json = { method: "POST", headers: { "Content-Type": "application/json" }, body: body.value };
    try {
      const response = await ask(target, method === "post" ? json : {});
      const text = await response.text();
      const rest = text.length > MAX_SHOWN ? `… (${text.length.toLocaleString()} characters)` : "";
      shown.textContent = `${response.status} ${response.statusText}\n${text.slice(0, MAX_SHOWN)}${rest}`;
    } catch (error) {
      shown.textContent = `the server does not answer: ${error.message}`;
    }
  });
  return [...inputs, ...(method === "post" ? [body] : []), button, shown];
}

function operation(method, path, described) {
  const content = described.requestBody?.content["application/json"];
  const statuses = Object.entries(described.responses).map(([status, { description }]) => `${status}: ${description}`);
  const answer = described.responses[200].content?.["application/json"]?.schema;
  return element(
    "details",
    { id: `${method}${path}` },
    element("summary", {}, element("code", {}, `${method.toUpperCase()} ${path}`), ` ${described.description.split("\n")[0]}`),
    element("p", {}, described.description.split("\n").slice(1).join("\n")),
    ...form(method, path, content?.example),
    ...(content ? [element("h3", {}, "Request"), ...fieldTables(content.schema)] : []),
    element("h3", {}, "Response"),
    ...(answer ? [element("p", {}, element("code", {}, typeName(answer))), ...fieldTables(answer)] : []),
    element("p", {}, statuses.join("; ")),
  );
}

function show() {
  const sections = schema.tags.map(({ name, description }) => {
    const operations = Object.entries(schema.paths).flatMap(([path, methods]) =>
      Object.entries(methods)
        .filter(([, described]) => described.tags?.includes(name))
        .map(([method, described]) => operation(method, path, described)),
    );
    const heading = [element("h2", {}, name), element("p", {}, description)];
    return operations.length ? element("section", {}, ...heading, ...operations) : "";
  });
  document.getElementById("routes").replaceChildren(...sections);
}

async function load() {
  const response = await ask("/openapi.json");
  document.getElementById("key").hidden = response.status !== 401 && !key;
  if (response.ok) {
    schema = await response.json();
    show();
  } else {
    document.getElementById("routes").textContent = (await response.json()).error;
  }
}

document.querySelector("#key input").addEventListener("change", ({ target }) => {
  key = target.value.trim();
  load();
});
load();
