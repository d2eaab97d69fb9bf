/**
 * What a person changed by hand: words the output must begin with, source words that may not be looked at, attention
 * that was moved, heads that are switched off. Each has a short form in the address.
 */

/**
 * @typedef {Object} Edits
 * @property {number[]} prefix ids of the tokens that the output begins with
 * @property {number[]} blocked positions of source tokens
 * @property {{step: number, weights: number[]}[]} attention
 * @property {{kind: string, layer: number, head: number}[]} off heads
 */

const numbers = (text, mark) => (text ? text.split(mark).map(Number).filter(Number.isFinite) : []);

/** @returns {Edits} what an address says */
export function readEdits(values) {
  return {
    prefix: numbers(values.prefix, '.'),
    blocked: numbers(values.blocked, '.'),
    attention: (values.attention ?? '')
      .split(';')
      .filter(Boolean)
      .map((part) => {
        const [step, weights] = part.split(':');
        return { step: Number(step), weights: numbers(weights, ',') };
      }),
    off: (values.off ?? '')
      .split('_')
      .filter(Boolean)
      .map((part) => {
        const [kind, layer, head] = part.split('.');
        return { kind, layer: Number(layer), head: Number(head) };
      }),
  };
}

/** @param {Edits} edits */
export function writeEdits(edits) {
  return {
    prefix: edits.prefix.join('.'),
    blocked: edits.blocked.join('.'),
    attention: edits.attention
      .map(({ step, weights }) => `${step}:${weights.map((weight) => Number(weight.toFixed(3))).join(',')}`)
      .join(';'),
    off: edits.off.map(({ kind, layer, head }) => `${kind}.${layer}.${head}`).join('_'),
  };
}

export const NO_EDITS = Object.freeze({ prefix: [], blocked: [], attention: [], off: [] });

/** @param {Edits} edits */
export function isEdited({ prefix, blocked, attention, off }) {
  return prefix.length + blocked.length + attention.length + off.length > 0;
}

/** The fields of a request that make the edits. */
export function requestOf({ prefix, blocked, attention, off }) {
  const edits = {
    ...(blocked.length ? { blocked } : {}),
    ...(attention.length ? { attention } : {}),
    ...(off.length ? { heads_off: off } : {}),
  };
  return { ...(prefix.length ? { prefix_ids: prefix } : {}), ...(Object.keys(edits).length ? { edits } : {}) };
}

/** The same edits for another sentence: only heads stay off. */
export function forAnotherSentence(edits) {
  return { ...NO_EDITS, off: edits.off };
}

/** Whether a head is switched off. */
export function isOff(edits, { kind, layer, head }) {
  return edits.off.some((one) => one.kind === kind && one.layer === layer && one.head === head);
}

/** Switch a head off, or on again. */
export function toggleHead(edits, { kind, layer, head }) {
  const others = edits.off.filter((one) => one.kind !== kind || one.layer !== layer || one.head !== head);
  return { ...edits, off: others.length < edits.off.length ? others : [...others, { kind, layer, head }] };
}
