// @ts-check
/** The address of a view, as in #fill?text=…: its values are in the fragment, which browsers do not send to servers. */

/** @typedef {{key: string, read: () => string, initial: string}} Kept */

/** @type {Map<string, Kept[]>} */
const keptOfView = new Map();

/** The view that the address names. */
export function viewInAddress() {
  return location.hash.slice(1).split("?")[0];
}

/**
 * Keep a value of the view that is being built in its address. A value that the address has is written at once.
 * @param {string} key
 * @param {() => string} read
 * @param {(value: string) => void} write
 */
export function keep(key, read, write) {
  const kept = keptOfView.get(viewInAddress()) ?? [];
  keptOfView.set(viewInAddress(), [...kept, { key, read, initial: read() }]);
  const value = parameters().get(key);
  if (value !== null) write(value);
}

/**
 * Keep the content of a box in the address.
 * @param {HTMLInputElement | HTMLTextAreaElement} box
 * @param {string} key
 */
export function keepBox(box, key) {
  keep(
    key,
    () => box.value,
    (value) => (box.value = value),
  );
}

/** Write the values of the view into the address where they differ from its first example; the history stays as it is. */
export function writeAddress() {
  const view = viewInAddress();
  const changed = (keptOfView.get(view) ?? []).filter(({ read, initial }) => read() !== initial);
  const query = new URLSearchParams(changed.map(({ key, read }) => [key, read()])).toString();
  const address = `#${view}${query ? `?${query}` : ""}`;
  if (address !== location.hash) history.replaceState(null, "", address);
}

/**
 * Whether the address gives values that a view does not show.
 * @param {string} view
 */
export function differsFromAddress(view) {
  const given = parameters();
  return (keptOfView.get(view) ?? []).some(({ key, read }) => given.has(key) && read() !== given.get(key));
}

/**
 * Forget the values of a view, which is built again.
 * @param {string} view
 */
export function forget(view) {
  keptOfView.delete(view);
}

function parameters() {
  return new URLSearchParams(location.hash.split("?")[1] ?? "");
}
