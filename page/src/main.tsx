/** The page around the views: tabs, the switch between light and dark, and the names of the models. */

import { render } from "preact";
import { useEffect, useLayoutEffect, useRef, useState } from "preact/hooks";
import { addressOf, setView, usePlace, writeAddress } from "./address";
import { moveFocus } from "./format";
import { forgetAnswers, Problem, Skeleton } from "./parts/answer";
import { lazy, type View } from "./parts/section";
import { type Model, Models } from "./parts/models";
import { ask, refused, setDeadline, useDown } from "./server";
import { AnswersView } from "./views/answers";
import { PredictView, WhyView } from "./views/classify";
import { EntitiesView } from "./views/entities";
import { FillView } from "./views/fill";

const SCHEME = window.matchMedia("(prefers-color-scheme: dark)");

/** The tabs in order: lessons, the answers of models, and how they compute them. */
const VIEWS: View[] = [
  { id: "lesson", title: "Lessons", Body: lazy(() => import("./views/lessons").then(({ Lessons }) => () => <Lessons views={VIEWS} />)) },
  { id: "fill", title: "Fill", needs: "fill", Body: FillView },
  { id: "predict", title: "Predict", needs: "predict", Body: PredictView },
  { id: "why", title: "Why", needs: "explain", Body: WhyView },
  { id: "errors", title: "Errors", needs: "predict", Body: lazy(() => import("./views/errors").then(({ Errors }) => Errors)) },
  { id: "entities", title: "Entities", needs: "tag", Body: EntitiesView },
  { id: "answers", title: "Answers", needs: "answer", Body: AnswersView },
  { id: "rank", title: "Rank", needs: "rerank", Body: lazy(() => import("./views/rank").then(({ RankView }) => RankView)) },
  { id: "pairs", title: "Pairs", needs: "embed", Body: lazy(() => import("./views/pairs").then(({ PairsView }) => PairsView)) },
  { id: "map", title: "Map", needs: "encode", Body: lazy(() => import("./views/map").then(({ MapView }) => MapView)) },
];

function App() {
  const place = usePlace();
  const [models, setModels] = useState<Model[] | null>(null);
  const [error, setError] = useState("");
  const panel = useRef<HTMLDivElement>(null);
  const isDown = useDown();
  const view = VIEWS.find(({ id }) => id === place.view) ?? (models && firstView(models));
  useLayoutEffect(() => {
    if (isDown) return;
    forgetAnswers();
    const start = (info: { models: Model[]; limits: { deadline_seconds: number } }) => {
      setDeadline(info.limits.deadline_seconds);
      setModels(info.models);
    };
    ask("info").then(start, refused(setError));
  }, [isDown]);
  useEffect(() => {
    if (!view) return;
    if (view.id !== place.view) setView(view.id);
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
          <a href="#lesson=1" onClick={writeAddress}>Learn how in eight lessons</a>
        </div>
        <ThemeSwitch />
      </header>
      <div class="tabs" role="tablist" aria-label="Views" onKeyDown={(event) => moveFocus(event)?.click()}>
        {VIEWS.map(({ id, title }) => (
          <a
            role="tab"
            id={`tab-${id}`}
            href={addressOf(id)}
            aria-controls="view"
            aria-selected={id === view?.id}
            tabIndex={view && id !== view.id ? -1 : 0}
            onClick={writeAddress}
          >
            {title}
          </a>
        ))}
      </div>
      {isDown && <p class="down" role="alert">The server does not answer. This page waits for it.</p>}
      <main>
        <div id="view" role="tabpanel" tabIndex={-1} aria-labelledby={view ? `tab-${view.id}` : undefined} ref={panel}>
          <Problem>{error}</Problem>
          {models && view ? <Models.Provider value={models}><view.Body key={view.id} /></Models.Provider> : !error && <Skeleton />}
        </div>
      </main>
      <footer>
        <p>
          {models && `Served here: ${models.map(({ name }) => name).join(", ") || "no model"}. `}
          <a href="docs/">Requests to this server</a>. <a href="page/licenses.txt">Licenses of the libraries in this page</a>
        </p>
      </footer>
    </>
  );
}

/** The first view that the first model can answer, else one that another model can. */
function firstView(models: Model[]): View {
  const answered = models.flatMap(({ abilities }) => VIEWS.filter(({ needs }) => needs && abilities.includes(needs)));
  return answered[0] ?? VIEWS[1];
}

function ThemeSwitch() {
  const [theme, setTheme] = useState(document.documentElement.dataset.theme);
  const [isDarkSystem, setIsDarkSystem] = useState(SCHEME.matches);
  useEffect(() => SCHEME.addEventListener("change", () => setIsDarkSystem(SCHEME.matches)), []);
  const isDark = theme ? theme === "dark" : isDarkSystem;
  const change = () => {
    const next = isDark ? "light" : "dark";
    document.documentElement.dataset.theme = next;
    localStorage.setItem("theme", next);
    setTheme(next);
  };
  return <button type="button" id="theme" class="quiet" onClick={change}>{isDark ? "Light" : "Dark"}</button>;
}

render(<App />, document.getElementById("app")!);
