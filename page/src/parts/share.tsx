/** The request behind an answer, to copy as a curl command or as Python, and the answer as JSON. */

import { useState } from "preact/hooks";
import { hasKey } from "../server";

interface Exchange {
  path: string;
  body: unknown;
  answer: unknown;
}

const FORMATS = { curl: asCurl, Python: asPython, JSON: ({ answer }: Exchange) => JSON.stringify(answer, null, 2) };

export function Share(exchange: Exchange) {
  const [copied, setCopied] = useState("");
  const write = async (name: keyof typeof FORMATS) =>
    setCopied((await copy(FORMATS[name](exchange))) ? `Copied as ${name}.` : "The browser does not allow copying.");
  return (
    <p class="sharing examples" role="group" aria-label="Copy as">
      <span class="muted">Copy as</span>
      {(Object.keys(FORMATS) as (keyof typeof FORMATS)[]).map((name) => (
        <button type="button" class="chip" onClick={() => write(name)}>{name}</button>
      ))}
      <span class="muted" role="status">{copied}</span>
    </p>
  );
}

export function Command({ children }: { children: string }) {
  const [isCopied, setIsCopied] = useState(false);
  return (
    <span class="command">
      <code>{children}</code>{" "}
      <button type="button" class="chip" onClick={async () => setIsCopied(await copy(children))}>
        {isCopied ? "Copied" : "Copy"}
      </button>
    </span>
  );
}

function asCurl({ path, body }: Exchange): string {
  const key = hasKey() ? ` \\\n  -H "Authorization: Bearer $CLOZE_API_KEY"` : "";
  return `curl ${quote(address(path))}${key} \\\n  -H 'Content-Type: application/json' \\\n  -d ${quote(JSON.stringify(body))}`;
}

function asPython({ path, body }: Exchange): string {
  const key = hasKey() ? `headers["Authorization"] = "Bearer " + os.environ["CLOZE_API_KEY"]\n` : "";
  return `import json
${key && "import os\n"}import urllib.request

body = ${JSON.stringify(JSON.stringify(body))}
headers = {"Content-Type": "application/json"}
${key}request = urllib.request.Request(${JSON.stringify(address(path))}, body.encode(), headers)
print(json.load(urllib.request.urlopen(request)))
`;
}

function address(path: string): string {
  return new URL(path, location.origin + location.pathname).href;
}

function quote(text: string): string {
  return `'${text.replaceAll("'", `'\\''`)}'`;
}

async function copy(text: string): Promise<boolean> {
  try {
    await navigator.clipboard.writeText(text);
    return true;
  } catch {
    return copyFromBox(text); // a page that is not served by https or from this machine has no clipboard
  }
}

function copyFromBox(text: string): boolean {
  const box = document.createElement("textarea");
  box.className = "off-screen";
  box.value = text;
  document.body.append(box);
  box.select();
  const done = document.execCommand("copy");
  box.remove();
  return done;
}
