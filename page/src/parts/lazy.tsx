/** Views whose code is loaded when they are opened, so that the first view appears early. */

import type { FunctionComponent } from "preact";
import { useEffect, useState } from "preact/hooks";
import { ask } from "../server";
import { Skeleton } from "./answer";

/** A component that is loaded when it is first shown, once the server answers. */
export function lazy(load: () => Promise<FunctionComponent>): FunctionComponent {
  let Loaded: FunctionComponent | undefined;
  return () => {
    const [state, setState] = useState<"loading" | "loaded" | "failed">("loading");
    useEffect(() => {
      load()
        .catch(() => ask("info").then(load))
        .then(
          (component) => {
            Loaded = component;
            setState("loaded");
          },
          () => setState("failed"),
        );
    }, []);
    if (Loaded) return <Loaded />;
    return state === "failed" ? <p class="error" role="alert">This view was not loaded. Load the page again.</p> : <Skeleton />;
  };
}
