/** The request behind an answer, to copy as a curl command or as Python, and the answer as JSON. */

import { useId, useLayoutEffect, useRef, useState } from "preact/hooks";
import { hasKey } from "../server";

interface Exchange {
  path: string;
  body: unknown;
  answer: unknown;
}

const FORMATS = { curl: asCurl, Python: asPython, JSON: asJson };

/** A menu that copies a request or its answer. Source: the pattern of a menu button in ARIA's authoring practices. */
export function Share(exchange: Exchange) {
  const [copied, setCopied] = useState("");
  const [opened, setOpened] = useState<number | null>(null); // the item that opening focuses
  const isOpen = opened !== null;
  const place = useRef<HTMLSpanElement>(null);
  const id = useId();
  const focus = (number: number) => {
    const items = place.current!.querySelectorAll<HTMLElement>('[role="menuitem"]');
    items[(number + items.length) % items.length]?.focus();
  };
  useLayoutEffect(() => {
    if (opened !== null) focus(opened);
  }, [opened]);
  const close = () => {
    setOpened(null);
    place.current!.querySelector("button")!.focus();
  };
  const write = async (name: keyof typeof FORMATS) => {
    close();
    setCopied((await copy(FORMATS[name](exchange))) ? `Copied as ${name}.` : "The browser does not allow copying.");
  };
  const press = (event: KeyboardEvent) => {
    const items = [...place.current!.querySelectorAll('[role="menuitem"]')];
    const here = items.indexOf(document.activeElement!);
    const moves: Record<string, () => void> = isOpen
      ? { ArrowDown: () => focus(here + 1), ArrowUp: () => focus(here - 1), Home: () => focus(0), End: () => focus(-1), Escape: close }
      : { ArrowDown: () => setOpened(0), ArrowUp: () => setOpened(-1) };
    if (!(event.key in moves)) return;
    event.preventDefault();
    moves[event.key]();
  };
  const leave = (event: FocusEvent) => {
    if (!place.current?.contains(event.relatedTarget as Node | null)) setOpened(null);
  };
  return (
    <p class="sharing examples">
      <span class="menu" ref={place} onKeyDown={press} onFocusOut={leave}>
        <button type="button" class="chip" aria-haspopup="menu" aria-expanded={isOpen} aria-controls={isOpen ? id : undefined} onClick={() => (isOpen ? close() : setOpened(0))}>
          Copy as
        </button>
        {isOpen && (
          <span role="menu" id={id} aria-label="Copy as">
            {(Object.keys(FORMATS) as (keyof typeof FORMATS)[]).map((name) => (
              <button type="button" role="menuitem" tabIndex={-1} onClick={() => write(name)}>{name}</button>
            ))}
          </span>
        )}
      </span>
      <span class="muted" role="status">{copied}</span>
    </p>
  );
}

/** A command with a button that copies it. */
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
${hasKey() ? "import os\n" : ""}import urllib.request

body = ${JSON.stringify(JSON.stringify(body))}
headers = {"Content-Type": "application/json"}
${key}request = urllib.request.Request(${JSON.stringify(address(path))}, body.encode(), headers)
print(json.load(urllib.request.urlopen(request)))
`;
}

function asJson({ answer }: Exchange): string {
  return JSON.stringify(answer, null, 2);
}

function address(path: string): string {
  return new URL(path, location.origin + location.pathname).href;
}

/** A text in single quotes of a shell. */
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
  box.className = "hidden-box";
  box.value = text;
  document.body.append(box);
  box.select();
  const done = document.execCommand("copy");
  box.remove();
  return done;
}
