/** Outputs that may be wrong: words shaded by their own probability, reasons to doubt them, flags in words. */

import { h } from './dom.js';
import { percent } from './labels.js';

/** A word below one of these probabilities is shaded, more below the next. */
const LEVELS = [0.9, 0.5, 0.2];
/** Smaller probabilities are rounded to 0 by the service, but nothing that was made had none. */
const SMALLEST = 1e-6;
/** Reasons that are written out for one output, at most. */
const MENTIONED = 8;

const FLAGS = {
  untranslated: 'the output looks like its source',
  cut: 'the output was cut off',
  repeats: 'the output repeats itself',
  'skipped-source': 'part of the source seems to be missing',
  'unlike-training': 'the source is unlike the training data',
  'unknown-tokens': 'there are words that the model does not know',
  'numbers-differ': 'the numbers differ',
  'placeholder-lost': 'a placeholder is missing, or is there twice',
  'term-missing': 'a term of the glossary is missing',
};

/** @typedef {{name: string, text: string|null}} Reason */
/** @typedef {{text: string, probability: number|null, reasons: Reason[]}} Word a word of an output, as the service names it */

/** How doubtful a word is: 0 (not at all) to 3. */
function level({ probability, reasons }) {
  const below = probability === null ? 0 : LEVELS.filter((limit) => probability < limit).length;
  return Math.max(below, reasons.length ? 1 : 0);
}

/** A reason as a part of a sentence. */
function inWords({ name, text }) {
  if (name === 'unknown') return text ? `the model does not know “${text}”` : 'the model has no word for it';
  if (name === 'unlike-training') return `“${text}” stands here as it never does in the training data`;
  return text ? `another reading: “${text}”` : 'another reading leaves it out';
}

function describe({ probability, reasons }) {
  const share = probability === null ? [] : [`probability ${percent(Math.max(probability, SMALLEST))}`];
  return [...share, ...reasons.map(inWords)].join('; ');
}

/**
 * A text with its doubtful words marked.
 * @param {string} text
 * @param {Word[]|undefined} words
 * @returns {(string|HTMLElement)[]}
 */
export function shaded(text, words = []) {
  const parts = [];
  let end = 0;
  for (const word of words) {
    const start = text.indexOf(word.text, end);
    if (start < 0 || !word.text) continue; // a token whose text is written in another way
    const doubt = level(word);
    const mark = { class: `doubt doubt-${doubt}`, title: describe(word) };
    parts.push(text.slice(end, start), doubt ? h('span', mark, word.text) : word.text);
    end = start + word.text.length;
  }
  return [...parts, text.slice(end)];
}

/**
 * What a person should know of an output: its confidence if it is low, its flags, and its doubtful words with reasons.
 * @param {{confidence?: number|null, flags?: string[], words?: Word[], skipped_source?: string[]}} translation
 * @returns {string[]}
 */
export function doubtsOf({ confidence = null, flags = [], words = [], skipped_source: skipped = [] }, { least = 0.5 } = {}) {
  const low = confidence !== null && confidence < least ? [`it is right with a probability of ${percent(confidence)} only`] : [];
  const named = flags.map((flag) => {
    const part = flag === 'skipped-source' && skipped.length ? `: “${skipped.join('”, “')}”` : '';
    return (FLAGS[flag] ?? flag) + part;
  });
  const doubtful = words.filter(({ reasons }) => reasons.length).map((word) => `“${word.text}”: ${describe(word)}`);
  const more = doubtful.length > MENTIONED ? [`and ${doubtful.length - MENTIONED} more words`] : [];
  return [...low, ...named, ...doubtful.slice(0, MENTIONED), ...more];
}
