/**
 * Two outputs compared word by word: what only one of them has is marked.
 */

import { h } from './dom.js';
import { direction } from './labels.js';

/**
 * Which words of each list are not in a longest common subsequence of both.
 * @param {string[]} a
 * @param {string[]} b
 * @returns {[boolean[], boolean[]]}
 */
export function differences(a, b) {
  const lengths = Array.from({ length: a.length + 1 }, () => new Uint16Array(b.length + 1));
  for (let i = a.length - 1; i >= 0; i -= 1) {
    for (let j = b.length - 1; j >= 0; j -= 1) {
      lengths[i][j] = a[i] === b[j] ? lengths[i + 1][j + 1] + 1 : Math.max(lengths[i + 1][j], lengths[i][j + 1]);
    }
  }
  const [onlyA, onlyB] = [a.map(() => true), b.map(() => true)];
  for (let i = 0, j = 0; i < a.length && j < b.length;) {
    if (a[i] === b[j]) {
      onlyA[i] = false;
      onlyB[j] = false;
      i += 1;
      j += 1;
    } else if (lengths[i + 1][j] >= lengths[i][j + 1]) i += 1;
    else j += 1;
  }
  return [onlyA, onlyB];
}

/** The words of a text. */
export function words(text) {
  return text.split(/\s+/).filter(Boolean);
}

/**
 * Two texts as elements, with what only one of them has in `<del>` or `<ins>`.
 * @returns {[HTMLElement, HTMLElement]}
 */
export function marked(before, after) {
  const [a, b] = [words(before), words(after)];
  const [onlyA, onlyB] = differences(a, b);
  const line = (list, only, tag) =>
    h(
      'span',
      { class: 'diff', dir: direction(list.join(' ')) },
      list.flatMap((word, index) => [index ? ' ' : '', only[index] ? h(tag, {}, word) : word]),
    );
  return [line(a, onlyA, 'del'), line(b, onlyB, 'ins')];
}
