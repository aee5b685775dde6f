/** The script of the file that `cloze predict --explain` writes. */

import { render } from "preact";
import { Attribution, type Explanation } from "./parts/marked";

const data: Explanation[] = JSON.parse(document.getElementById("data")!.textContent!);
render(
  <div class="explanations">
    {data.map((text, i) => (
      <section class="card explained" aria-labelledby={`text-${i + 1}`}>
        <h3 id={`text-${i + 1}`}>{i + 1}. {text.explained}</h3>
        <Attribution {...text} />
      </section>
    ))}
  </div>,
  document.getElementById("app")!,
);
