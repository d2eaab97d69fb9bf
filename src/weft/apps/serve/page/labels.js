/**
 * Tokens, numbers and formulas as labels. Every character of a token is made visible, as in weft.text.specials.
 */

import { h } from './dom.js';

const SYMBOLS = new Map([
  [' ', '␣'],
  ['\n', '⏎'],
  ['\r', '␍'],
  ['\t', '⇥'],
  ['\u00a0', '⍽'],
  ['\u3000', '□'],
]);
const SUBSCRIPT = /_(?:\{([^}]*)\}|([\p{L}\p{N}]+))/u;
const RIGHT_TO_LEFT = /[\u0590-\u08ff\ufb1d-\ufdff\ufe70-\ufefc\u{10800}-\u{10fff}\u{1e800}-\u{1efff}]/u;
const STRONG = /\p{L}/u;

/** A token with a symbol or a ⟨code⟩ for each invisible character. */
export function visible(token) {
  if (token === '') return '∅';
  const characters = [...token];
  const label = characters
    .map((character, index) => {
      if (SYMBOLS.has(character)) return SYMBOLS.get(character);
      if (/[\u200c\u200d]/.test(character) && index > 0 && index < characters.length - 1) return character;
      if (/[\p{C}\p{Z}]/u.test(character)) return `⟨${character.codePointAt(0).toString(16).toUpperCase()}⟩`;
      return character;
    })
    .join('');
  return /^\p{M}/u.test(label) ? `◌${label}` : label;
}

/** A label of at most this many characters, with an ellipsis where something is missing. */
export function shorten(label, most) {
  const characters = [...label];
  return characters.length <= most ? label : `${characters.slice(0, most - 1).join('')}…`;
}

/** "rtl" if the first letter of a text is of a script written from right to left. */
export function direction(text) {
  const letter = [...text].find((character) => STRONG.test(character));
  return letter && RIGHT_TO_LEFT.test(letter) ? 'rtl' : 'ltr';
}

/** A number with a true minus sign, never −0.00. */
export function number(value, digits = 2) {
  if (value === null || value === undefined || Number.isNaN(value)) return '–';
  if (!Number.isFinite(value)) return value < 0 ? '−∞' : '∞';
  const text = Math.abs(value).toFixed(digits);
  return value < 0 && Number(text) !== 0 ? `−${text}` : text;
}

/** A probability as a percentage: 83 %, 0.4 %, < 0.1 %. */
export function percent(probability) {
  const share = 100 * probability;
  if (share > 0 && share < 0.1) return '< 0.1 %';
  if (share < 10 && share > 0) return `${share.toFixed(1)} %`;
  return share > 99.5 && share < 100 ? '> 99 %' : `${share.toFixed(0)} %`;
}

/** A count with separators: 12,345. */
export function count(value) {
  return Number(value).toLocaleString('en-US');
}

/** "1 token", "2 tokens"; `nouns`: where they are not the noun with an s. */
export function plural(value, noun, nouns = `${noun}s`) {
  return `${count(value)} ${value === 1 ? noun : nouns}`;
}

/** A duration: 45 s, 3 min 20 s, 2 h 5 min. */
export function duration(seconds) {
  const whole = Math.round(seconds);
  if (whole < 60) return `${whole} s`;
  if (whole < 3600) return `${Math.floor(whole / 60)} min ${whole % 60} s`;
  return `${Math.floor(whole / 3600)} h ${Math.floor((whole % 3600) / 60)} min`;
}

/** A formula with its subscripts lowered: x_t, h_{t−1}. */
export function formula(text) {
  const [found, inBraces, plain] = text.match(SUBSCRIPT) ?? [];
  if (!found) return [text];
  const start = text.indexOf(found);
  return [text.slice(0, start), h('sub', {}, formula(inBraces ?? plain)), ...formula(text.slice(start + found.length))];
}
