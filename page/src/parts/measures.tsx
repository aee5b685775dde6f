/** The measures of a training run as figures: in the file of `cloze report`. */

import { short } from "../format";
import { Curves, type Line, type Mark } from "./charts";
import { Picture } from "./save";

export interface Measure {
  name: string;
  title: string;
  /** What is known of it; none is empty. */
  lines: Line[];
}

/** A figure for each measure; the last value of each line is in its legend. */
export function Measures({ of: measures, end, phases, times }: { of: Measure[]; end: number; phases?: number[]; times?: Mark[] }) {
  return (
    <>
      {measures.map(({ name, title, lines }) => {
        const values = lines.map((line) => `${line.name} ${short(line.curve.values[line.curve.values.length - 1])}`);
        return (
          <figure class="card" key={name}>
            <figcaption>
              <b>{title}</b>
              <span class="legend">{lines.map((line, i) => <span class={line.kind}>{values[i]}</span>)}</span>
            </figcaption>
            <Picture name={name}>
              <Curves lines={lines} end={end} phases={phases} times={times} label={`${title} over ${end} steps: ${values.join(", ")}`} />
            </Picture>
          </figure>
        );
      })}
    </>
  );
}
