// Print the results of the site's own search: node search_site.js SITE WORDS…
const fs = require("fs");
const vm = require("vm");

const [site, ...queries] = process.argv.slice(2);
const context = vm.createContext({
  document: { getElementById: () => null, addEventListener() {} },
  localStorage: { setItem() {} },
  SPHINX_HIGHLIGHT_ENABLED: false,
  URLSearchParams,
  _: (text) => text,
  _ready() {},
});
context.window = context;
for (const name of ["_static/language_data.js", "_static/searchtools.js", "searchindex.js"])
  vm.runInContext(fs.readFileSync(`${site}/${name}`, "utf8"), context);
const search = (words) =>
  vm.runInContext(`Search._performSearch(...Search._parseQuery(${JSON.stringify(words)}))`, context);
// a result is [page, title, anchor, description, score, file, kind]; the best is the last
console.log(JSON.stringify(queries.map((words) => search(words).reverse().map((result) => result[0]))));
