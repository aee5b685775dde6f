/** Whether someone is typing or pointing: the next question then waits for more. */

const RECENT_MS = 50;
let changedAt = -Infinity;

export function noteTyping(): void {
  changedAt = performance.now();
}

export function isTyping(): boolean {
  return performance.now() - changedAt < RECENT_MS;
}
