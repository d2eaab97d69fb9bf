/**
 * The address of a view: `#translate?model=grammar&text=he+hit+me`.
 *
 * The state is kept behind the #, which a browser does not send: no sentence ends up in the log of a server.
 */

/**
 * @typedef {{view: string, values: Object<string, string>}} Address
 */

/** @returns {Address} what the address bar says */
export function read() {
  const [view, query = ''] = location.hash.slice(1).split(/\?(.*)/s);
  return { view, values: Object.fromEntries(new URLSearchParams(query)) };
}

/** The step of a search that an address names; null if it names none, or nothing that is a step. */
export function stepOf({ step }) {
  const value = Number(step);
  return step === undefined || !Number.isInteger(value) || value < 0 ? null : value;
}

/** The text of an address; empty values are left out. */
export function format({ view, values }) {
  const kept = Object.entries(values).filter(([, value]) => value !== '' && value !== null && value !== undefined);
  const query = new URLSearchParams(kept).toString();
  return `#${view}${query ? `?${query}` : ''}`;
}

/**
 * Change some values of the present view.
 * @param {Object<string, string|number|null>} changes null or '': leave out
 * @param {{push?: boolean}} [options] push: Back returns to what was before
 */
export function change(changes, { push = false } = {}) {
  const { view, values } = read();
  const address = format({ view, values: { ...values, ...changes } });
  if (address === location.hash) return;
  history[push ? 'pushState' : 'replaceState'](null, '', address);
}

/** Open another view. */
export function open(view, values) {
  location.hash = format({ view, values });
}
