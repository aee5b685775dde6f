/** The shell: a tab for each view, light or dark, and which models there are. */

import { render } from "preact";
import { useEffect, useRef, useState } from "preact/hooks";
import { addressOf, setDefaultView, usePlace, writeAddress } from "./address";
import { Models, type Model, type View } from "./parts/section";
import { ask, Refusal } from "./server";
import { answersView } from "./views/answers";
import { entitiesView } from "./views/entities";
import { fillView } from "./views/fill";
import { insideView } from "./views/inside";
import { layersView } from "./views/layers";
import { pairsView } from "./views/pairs";
import { whyView } from "./views/why";

const VIEWS: View[] = [fillView, layersView, insideView, pairsView, answersView, entitiesView, whyView];

function App() {
  const place = usePlace();
  const [models, setModels] = useState<Model[] | null>(null);
  const [error, setError] = useState("");
  const panel = useRef<HTMLDivElement>(null);
  const view = VIEWS.find(({ id }) => id === place.view) ?? VIEWS[0];
  useEffect(() => {
    ask("info").then(
      (info) => setModels(info.models.map((model: any) => ({ name: model.name, abilities: new Set(model.abilities), readsPairs: model.reads_pairs, labels: model.labels }))),
      (refused) => {
        if (!(refused instanceof Refusal)) throw refused;
        setError(refused.message);
      },
    );
  }, []);
  useEffect(() => {
    document.title = `${view.title} · cloze`;
    const tab = document.getElementById(`tab-${view.id}`);
    const tabs = tab?.parentElement;
    // not scrollIntoView: since Chromium 150 the next press of Tab would go on from there
    if (tab && tabs) tabs.scrollLeft = tab.offsetLeft - tabs.offsetLeft - (tabs.clientWidth - tab.offsetWidth) / 2;
  }, [view]);
  const skip = (event: Event) => {
    event.preventDefault(); // the link is not the address of a view
    panel.current?.focus();
  };
  return (
    <>
      <a class="skip" href="#view" onClick={skip}>Skip to the view</a>
      <header class="top">
        <div class="brand">
          <p class="wordmark" aria-hidden="true">cl<span class="blank">oz</span>e</p>
          <h1>See BERT think</h1>
        </div>
        <ThemeSwitch />
      </header>
      <div class="tabs" role="tablist" aria-label="Views">
        {VIEWS.map(({ id, title }) => (
          <a
            role="tab"
            id={`tab-${id}`}
            href={addressOf(id)}
            aria-controls="view"
            aria-selected={id === view.id}
            tabIndex={id === view.id ? 0 : -1}
            onClick={writeAddress}
            onKeyDown={moveAmongTabs}
          >
            {title}
          </a>
        ))}
      </div>
      <main>
        <div id="view" role="tabpanel" tabIndex={-1} aria-labelledby={`tab-${view.id}`} ref={panel}>
          {error && <p class="error" role="alert">{error}</p>}
          {models && <Models.Provider value={models}><view.Body key={view.id} /></Models.Provider>}
        </div>
      </main>
      <footer>
        <p>
          {models && `Served here: ${models.map(({ name }) => name).join(", ") || "no model"}. `}
          <a href="page/licenses.txt">Licenses of the libraries in this page</a>
        </p>
      </footer>
    </>
  );
}

function moveAmongTabs(event: KeyboardEvent): void {
  const tabs = [...document.querySelectorAll<HTMLElement>('[role="tab"]')];
  const here = tabs.indexOf(event.currentTarget as HTMLElement);
  const places: Record<string, number> = { ArrowRight: here + 1, ArrowLeft: here - 1, Home: 0, End: tabs.length - 1, " ": here };
  if (!(event.key in places)) return;
  event.preventDefault();
  const tab = tabs[(places[event.key] + tabs.length) % tabs.length];
  tab.click();
  tab.focus();
}

function ThemeSwitch() {
  const scheme = window.matchMedia("(prefers-color-scheme: dark)");
  const [theme, setTheme] = useState(document.documentElement.dataset.theme);
  const [isDarkSystem, setIsDarkSystem] = useState(scheme.matches);
  useEffect(() => {
    const follow = () => setIsDarkSystem(scheme.matches);
    scheme.addEventListener("change", follow);
    return () => scheme.removeEventListener("change", follow);
  }, []);
  const isDark = theme ? theme === "dark" : isDarkSystem;
  const change = () => {
    const next = isDark ? "light" : "dark";
    document.documentElement.dataset.theme = next;
    localStorage.setItem("theme", next);
    setTheme(next);
  };
  return <button type="button" id="theme" class="quiet" onClick={change}>{isDark ? "Light" : "Dark"}</button>;
}

setDefaultView(VIEWS[0].id);
render(<App />, document.getElementById("app")!);
