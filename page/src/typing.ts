/** Whether the reader is typing or pointing; requests then wait for a pause. */

const RECENT_MS = 50;
let changedAt = -Infinity;

export function noteTyping(): void {
  changedAt = performance.now();
}

export function isTyping(): boolean {
  return performance.now() - changedAt < RECENT_MS;
}
