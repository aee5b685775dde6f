/** Labels of classifiers: their scores, and examples that fit them. */

import type { Model } from "./parts/models";

export interface LabelScore {
  label: string;
  score: number;
  /** Of a multi-label model, which predicts the labels above their thresholds. */
  threshold?: number;
}

/** The predicted labels, several only of a multi-label model; scores are in descending order. */
export function predictedOf(scores: LabelScore[]): LabelScore[] {
  return scores[0].threshold === undefined ? scores.slice(0, 1) : scores.filter(({ score, threshold }) => score > threshold!);
}

/** A name, a text, and the second text of a pair. */
export type LabeledExample = readonly [string, string, string?];

const SETS: { labels: string[]; examples: LabeledExample[] }[] = [
  {
    labels: ["negative", "positive", "neutral", "neg", "pos", "blame", "praise", "bad", "good"],
    examples: [
      ["Praise", "The film is not perfect, but it is warm, funny and beautifully acted."],
      ["Blame", "A dull story that wastes a wonderful cast."],
    ],
  },
  {
    labels: ["entailment", "not_entailment", "neutral", "contradiction"],
    examples: [
      ["It follows", "A man plays the guitar on the street.", "A man is making music."],
      ["It does not", "A man plays the guitar on the street.", "The street is empty."],
    ],
  },
  {
    labels: ["equivalent", "not_equivalent", "duplicate", "not_duplicate", "paraphrase", "not_paraphrase"],
    examples: [
      ["The same", "The company lost a tenth of its value.", "The value of the company fell by ten percent."],
      ["Something else", "The company lost a tenth of its value.", "The company was founded ten years ago."],
    ],
  },
  {
    labels: ["Burnett", "Conrad", "Doyle"], // examples/authors.csv
    examples: [
      ["Burnett", "“Oh, my! Oh, my!” Sara heard her say hoarsely, in wild delight. “OH my!” Sara took out three more buns and put them down."],
      ["Conrad", "It was a bad and stubborn spirit. Ali thought his master had imprudently called it up, and now could not get rid of it."],
      ["Doyle", "In front of us as we flew up the track we heard scream after scream from Sir Henry and the deep roar of the hound."],
    ],
  },
];

const ANY: LabeledExample[] = [
  ["A sentence", "They marched through the forest for three days."],
  ["A question", "When does the next train to the city leave?"],
];
const ANY_PAIR: LabeledExample[] = [
  ["Near", "A man plays the guitar on the street.", "Someone is making music outside."],
  ["Far", "A man plays the guitar on the street.", "The stock market fell sharply today."],
];

/** Examples for the labels of a model, or neutral texts. */
export function examplesFor({ labels, readsPairs }: Model): LabeledExample[] {
  const names = new Set(labels.map((label) => label.toLowerCase()));
  const set = SETS.find((set) => names.size > 1 && [...names].every((name) => set.labels.some((label) => label.toLowerCase() === name)));
  const fits = set?.examples.every(([, , pair]) => readsPairs === null || Boolean(pair) === readsPairs);
  return set && fits ? set.examples : readsPairs ? ANY_PAIR : ANY;
}
