/** Numbers and parts of texts as they are shown. */

/** A probability, a weight or another share; only 0 and 1 are shown as 0.0% and 100.0%. */
export function percent(share: number): string {
  if (share > 0 && share < 0.001) return "<0.1%";
  if (share > 0.999 && share < 1) return ">99.9%";
  return `${(100 * share).toFixed(1)}%`;
}

/** A number from 0 on; one that is too small for its digits is less than the smallest of them. */
export function positive(value: number, digits = 3): string {
  const least = 10 ** -digits;
  return value > 0 && value < least ? `<${least.toFixed(digits)}` : fixed(value, digits);
}

/** A number with a true minus sign. */
export function fixed(value: number, digits = 3): string {
  const text = value.toFixed(digits);
  return Number(text) === 0 ? text.replace("-", "") : text.replace("-", "−");
}

/** A number of any size in few characters. */
export function short(value: number): string {
  const size = Math.abs(value);
  if (size >= 1e6) return `${Number((value / 1e6).toPrecision(3))}M`;
  if (size >= 1e5) return `${Number((value / 1e3).toPrecision(3))}k`;
  if (size > 0 && size < 1e-3) return Number(value.toPrecision(3)).toExponential().replace("-", "−");
  if (size >= 1e3) return Math.round(value).toLocaleString("en").replace("-", "−");
  return String(Number(value.toPrecision(4))).replace("-", "−");
}

/** A part of a text: the server counts characters, a string here counts most emoji twice. */
export function part(text: string, start: number, end?: number): string {
  return [...text].slice(start, end).join("");
}

/** The lines of a text that are not empty. */
export function linesOf(text: string): string[] {
  return text.split("\n").map((line) => line.trim()).filter(Boolean);
}

/** Little-endian float32 in base64. */
export function floats(base64: string): Float32Array {
  const bytes = Uint8Array.from(atob(base64), (character) => character.charCodeAt(0));
  const view = new DataView(bytes.buffer);
  return Float32Array.from({ length: bytes.length / 4 }, (_, i) => view.getFloat32(4 * i, true));
}

export function within(value: number, size: number): number {
  return Math.max(0, Math.min(size - 1, value));
}

/** Rows down and columns right of an arrow key, whose default is prevented. */
export function arrow(event: KeyboardEvent): [number, number] {
  const moves: Record<string, [number, number]> = { ArrowUp: [-1, 0], ArrowDown: [1, 0], ArrowLeft: [0, -1], ArrowRight: [0, 1] };
  if (event.key in moves) event.preventDefault();
  return moves[event.key] ?? [0, 0];
}
