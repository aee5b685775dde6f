/** The texts in a JSON value, and the masks in a text. */

const MASKS = /\[mask\]|<mask>/gi; // of BERT and of RoBERTa, in any case

/** Replace every mask by the mask token of a model. */
export function withMaskToken(text: string, maskToken: string): string {
  return text.replace(MASKS, () => maskToken);
}

export function isMask(word: string): boolean {
  return /^(\[mask\]|<mask>)$/i.test(word);
}

/** Apply a function to every text in a value. */
export function mapTexts(value: unknown, change: (text: string) => string): any {
  if (typeof value === "string") return change(value);
  if (Array.isArray(value)) return value.map((inner) => mapTexts(inner, change));
  if (value === null || typeof value !== "object") return value;
  return Object.fromEntries(Object.entries(value).map(([key, inner]) => [key, mapTexts(inner, change)]));
}

/** All texts of a value that are not blank. */
export function textsOf(value: unknown): string[] {
  const texts: string[] = [];
  mapTexts(value, (text) => {
    if (text.trim()) texts.push(text);
    return text;
  });
  return texts;
}
