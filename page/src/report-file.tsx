/** The script of the file that `cloze report` writes: the curves of a run. */

import { render } from "preact";
import type { Mark } from "./parts/charts";
import { type Measure, Measures } from "./parts/measures";

interface Data {
  measures: Measure[];
  end: number;
  /** Steps at which a phase starts, but the first. */
  phases: number[];
  /** Times since the start. */
  times: Mark[];
}

const { measures, end, phases, times }: Data = JSON.parse(document.getElementById("data")!.textContent!);
render(<Measures of={measures} end={end} phases={phases} times={times} />, document.getElementById("app")!);
