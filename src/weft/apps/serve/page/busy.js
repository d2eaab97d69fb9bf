/**
 * Whether the page waits for something: `aria-busy` of its main part, for screen readers and for tests.
 */

let waiting = 0;

/**
 * Wait for a promise.
 * @template T
 * @param {Promise<T>} promise
 * @returns {Promise<T>}
 */
export async function busy(promise) {
  change(1);
  try {
    return await promise;
  } finally {
    change(-1);
  }
}

/** Begin or end a wait. */
export function change(by) {
  waiting += by;
  document.getElementById('main').setAttribute('aria-busy', String(waiting > 0));
}
