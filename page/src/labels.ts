/** Labels of classifiers: their scores, and examples that fit them. */

import type { Example } from "./parts/forms";
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

/** Whether the scores are the number of a regression, which has a scale of its own. */
export function isNumber(scores: LabelScore[]): boolean {
  return scores.length === 1 && scores[0].label === "score";
}

const SETS: { labels: string[]; examples: Example[] }[] = [
  {
    labels: ["negative", "positive", "neutral", "neg", "pos", "blame", "praise", "bad", "good"],
    examples: [
      { name: "Praise", text: "The film is not perfect, but it is warm, funny and beautifully acted." },
      { name: "Blame", text: "A dull story that wastes a wonderful cast." },
    ],
  },
  {
    labels: ["entailment", "not_entailment", "neutral", "contradiction"],
    examples: [
      { name: "It follows", text: "A man plays the guitar on the street.", pair: "A man is making music." },
      { name: "It does not", text: "A man plays the guitar on the street.", pair: "The street is empty." },
    ],
  },
  {
    labels: ["equivalent", "not_equivalent", "duplicate", "not_duplicate", "paraphrase", "not_paraphrase"],
    examples: [
      { name: "The same", text: "The company lost a tenth of its value.", pair: "The value of the company fell by ten percent." },
      { name: "Something else", text: "The company lost a tenth of its value.", pair: "The company was founded ten years ago." },
    ],
  },
  {
    labels: ["Burnett", "Conrad", "Doyle"], // examples/authors.csv
    examples: [
      { name: "Burnett", text: "“Oh, my! Oh, my!” Sara heard her say hoarsely, in wild delight. “OH my!” Sara took out three more buns and put them down." },
      { name: "Conrad", text: "It was a bad and stubborn spirit. Ali thought his master had imprudently called it up, and now could not get rid of it." },
      { name: "Doyle", text: "In front of us as we flew up the track we heard scream after scream from Sir Henry and the deep roar of the hound." },
    ],
  },
];

const ANY: Example[] = [
  { name: "A sentence", text: "They marched through the forest for three days." },
  { name: "A question", text: "When does the next train to the city leave?" },
];
const ANY_PAIR: Example[] = [
  { name: "Near", text: "A man plays the guitar on the street.", pair: "Someone is making music outside." },
  { name: "Far", text: "A man plays the guitar on the street.", pair: "The stock market fell sharply today." },
];

/** Examples for the labels of a model, or neutral texts. */
export function examplesFor({ labels, reads_pairs }: Model): Example[] {
  const names = new Set(labels.map((label) => label.toLowerCase()));
  const set = SETS.find((set) => names.size > 1 && [...names].every((name) => set.labels.some((label) => label.toLowerCase() === name)));
  const fits = set?.examples.every(({ pair }) => reads_pairs === null || Boolean(pair) === reads_pairs);
  return set && fits ? set.examples : reads_pairs ? ANY_PAIR : ANY;
}
