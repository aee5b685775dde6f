/** Numbers as text, parts and masks of texts, and moves of the arrow keys. */

/** A share in percent; only 0 is 0.0% and only 1 is 100.0%. */
export function percent(share: number): string {
  if (share > 0 && share < 0.001) return "<0.1%";
  if (share > 0.999 && share < 1) return ">99.9%";
  return `${(100 * share).toFixed(1)}%`;
}

/** A number of 0 or more; one that would round to 0 is below the last digit, as <0.001. */
export function positive(value: number, digits = 3): string {
  const least = 10 ** -digits;
  return value > 0 && value < least ? `<${least.toFixed(digits)}` : fixed(value, digits);
}

/** A number with a true minus sign. */
export function fixed(value: number, digits = 3): string {
  const text = value.toFixed(digits);
  return Number(text) === 0 ? text.replace("-", "") : text.replace("-", "−");
}

/** An integer with commas between thousands. */
export function grouped(value: number): string {
  return value.toLocaleString("en");
}

/** A number of any size, rounded to a few characters. */
export function short(value: number): string {
  const size = Math.abs(value);
  if (size >= 1e6) return `${Number((value / 1e6).toPrecision(3))}M`;
  if (size >= 1e5) return `${Number((value / 1e3).toPrecision(3))}k`;
  if (size > 0 && size < 1e-3) return Number(value.toPrecision(3)).toExponential().replace("-", "−");
  if (size >= 1e3) return grouped(Math.round(value)).replace("-", "−");
  return String(Number(value.toPrecision(4))).replace("-", "−");
}

/** A slice of a text by code points, which are the offsets of the server; JavaScript counts most emoji twice. */
export function part(text: string, start: number, end?: number): string {
  return [...text].slice(start, end).join("");
}

export function linesOf(text: string): string[] {
  return text.split("\n").map((line) => line.trim()).filter(Boolean);
}

/** Decode little-endian float32 in base64. */
export function floats(base64: string): Float32Array {
  const bytes = Uint8Array.from(atob(base64), (character) => character.charCodeAt(0));
  const view = new DataView(bytes.buffer);
  return Float32Array.from({ length: bytes.length / 4 }, (_, i) => view.getFloat32(4 * i, true));
}

export function within(value: number, size: number): number {
  return Math.max(0, Math.min(size - 1, value));
}

const ARROWS: Record<string, [number, number]> = { ArrowUp: [-1, 0], ArrowDown: [1, 0], ArrowLeft: [0, -1], ArrowRight: [0, 1], Home: [0, -Infinity], End: [0, Infinity] };

/** Rows down and columns right for an arrow key, Home or End, whose default is prevented; 0 for other keys. */
export function arrow(event: KeyboardEvent): [number, number] {
  if (event.key in ARROWS) event.preventDefault();
  return ARROWS[event.key] ?? [0, 0];
}

/** Move the focus within a group of buttons, which is one stop of the Tab key, and return the button. */
export function moveFocus(event: KeyboardEvent & { currentTarget: Element }): HTMLElement | undefined {
  const stops = [...event.currentTarget.querySelectorAll<HTMLElement>("button, a")];
  const here = stops.indexOf(document.activeElement as HTMLElement);
  const right = getComputedStyle(event.currentTarget).direction === "rtl" ? -1 : 1;
  const moves: Record<string, number> = { ArrowRight: right, ArrowLeft: -right, ArrowDown: 1, ArrowUp: -1, Home: -here, End: -1 - here };
  if (!(event.key in moves)) return;
  event.preventDefault();
  const stop = stops.at((here + moves[event.key]) % stops.length)!;
  stop.focus();
  return stop;
}

/** The masks of BERT and of RoBERTa, in any case. */
export const MASKS = /\[mask\]|<mask>/gi;

export function isMask(word: string): boolean {
  return /^(\[mask\]|<mask>)$/i.test(word);
}

/** Apply a function to every text in a JSON value. */
export function mapTexts(value: unknown, change: (text: string) => string): any {
  return value && JSON.parse(JSON.stringify(value), (_, inner) => (typeof inner === "string" ? change(inner) : inner));
}

/** All texts of a value that are not blank. */
export function textsOf(value: unknown): string[] {
  if (typeof value === "string") return value.trim() ? [value] : [];
  return Object.values(value ?? {}).flatMap(textsOf);
}
