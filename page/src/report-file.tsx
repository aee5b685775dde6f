/** The script of the file that `cloze report` writes: the curves of a run. */

import { render } from "preact";
import { short } from "./format";
import { Curves, type Line, type Mark } from "./parts/curves";
import { Figure } from "./parts/save";

interface Data {
  measures: { name: string; title: string; lines: Line[] }[];
  /** The last step. */
  end: number;
  /** Steps at which the later phases start. */
  phases: number[];
  /** Times since the start. */
  times: Mark[];
}

const { measures, end, phases, times }: Data = JSON.parse(document.getElementById("data")!.textContent!);
render(
  <>
    {measures.map(({ name, title, lines }) => {
      const lasts = lines.map((line) => `${line.name} ${short(line.curve.values[line.curve.values.length - 1])}`);
      const legend = <span class="legend">{lines.map((line, i) => <span class={line.kind}>{lasts[i]}</span>)}</span>;
      return (
        <Figure key={name} name={name} title={title} legend={legend}>
          <Curves lines={lines} end={end} phases={phases} times={times} label={`${title} over ${end} steps: ${lasts.join(", ")}`} />
        </Figure>
      );
    })}
  </>,
  document.getElementById("app")!,
);
