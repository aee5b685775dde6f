/**
 * Build the explorer page and the scripts of cloze's HTML files: `make page`.
 *
 * Each file begins with a digest of the sources, which a test compares; the same sources give the same bytes.
 */

import { createHash } from "node:crypto";
import { copyFileSync, mkdirSync, readFileSync, readdirSync, rmSync, writeFileSync } from "node:fs";
import { dirname, join, relative, sep } from "node:path";
import { fileURLToPath } from "node:url";
import { build } from "esbuild";

const HERE = dirname(fileURLToPath(import.meta.url));
const OUTPUT = process.argv[2] ?? join(HERE, "..", "src", "cloze");
const PAGE = join(OUTPUT, "serving", "page");
const REPORTS = join(OUTPUT, "reports");
const BUNDLES = [
  // source, output, format
  ["src/main.tsx", join(PAGE, "main.js"), "esm"],
  ["src/styles/explorer.css", join(PAGE, "style.css"), undefined],
  ["src/attention-file.tsx", join(REPORTS, "attention.js"), "iife"],
  ["src/audit-file.tsx", join(REPORTS, "audit.js"), "iife"],
  ["src/explanations-file.tsx", join(REPORTS, "explanations.js"), "iife"],
  ["src/report-file.tsx", join(REPORTS, "report.js"), "iife"],
  ["src/styles/report.css", join(REPORTS, "page.css"), undefined],
];

/** The files that decide what is built. */
function sourceFiles() {
  const found = ["src", "static"].flatMap((folder) =>
    readdirSync(join(HERE, folder), { recursive: true, withFileTypes: true })
      .filter((entry) => entry.isFile())
      .map((entry) => relative(HERE, join(entry.parentPath, entry.name)).split(sep).join("/")),
  );
  return [...found, "build.mjs", "package-lock.json", "package.json"].sort();
}

function sourceDigest() {
  const hash = createHash("sha256");
  for (const name of sourceFiles()) hash.update(`${name}\0`).update(readFileSync(join(HERE, name))).update("\0");
  return hash.digest("hex").slice(0, 16);
}

/** The licenses of the packages in the bundles. */
function licenses(inputs) {
  const names = inputs.flatMap((path) => path.match(/^node_modules\/((?:@[^/]+\/)?[^/]+)/)?.[1] ?? []);
  const texts = [...new Set(names)].sort().map((name) => {
    const folder = join(HERE, "node_modules", name);
    const { version } = JSON.parse(readFileSync(join(folder, "package.json"), "utf8"));
    const file = readdirSync(folder).find((entry) => /^licen[cs]e/i.test(entry));
    return `${name} ${version}\n\n${readFileSync(join(folder, file), "utf8").trim()}\n`;
  });
  return `The scripts of this page contain these libraries.\n\n${texts.join(`\n${"-".repeat(72)}\n\n`)}`;
}

rmSync(PAGE, { recursive: true, force: true }); // the names of parts change with their contents
mkdirSync(PAGE, { recursive: true });
mkdirSync(REPORTS, { recursive: true });
const digest = sourceDigest();
const results = await Promise.all(
  BUNDLES.map(([source, outfile, format]) =>
    build({
      absWorkingDir: HERE,
      entryPoints: [source],
      ...(format === "esm" ? { outdir: dirname(outfile), splitting: true, chunkNames: "[name]-[hash]" } : { outfile }),
      bundle: true,
      minify: true,
      format,
      target: "es2022",
      charset: "utf8",
      jsx: "automatic",
      jsxImportSource: "preact",
      legalComments: "none",
      metafile: true,
      banner: {
        js: `// Built from page/ by "make page". Sources: ${digest}`,
        css: `/* Built from page/ by "make page". Sources: ${digest} */`,
      },
    }),
  ),
);
for (const name of readdirSync(join(HERE, "static"))) copyFileSync(join(HERE, "static", name), join(PAGE, name));
writeFileSync(join(PAGE, "licenses.txt"), licenses(results.flatMap(({ metafile }) => Object.keys(metafile.inputs))));
