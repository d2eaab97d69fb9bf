/**
 * What a reader sees of a search at some step: the source, the output so far, and the attention between them, over
 * tokens or merged to words.
 */

import { END } from './search_run.js';

/** A word whose largest weight is smaller has no link, as in weft.translation.word_alignment. */
const LINK_THRESHOLD = 0.15;
/** A side with more words or tokens is shown in part. */
export const MANY = 120;
/** The words of each side that are shown then. */
const [SOURCE_PART, TARGET_PART] = [60, 30];

/**
 * @typedef {Object} Alignment
 * @property {string[]} source words or tokens, the end token last
 * @property {string[]} target
 * @property {number[][]|null} weights target × source
 * @property {[number, number][]} links (source, target)
 * @property {number[][]} sourceTokens the positions of the tokens of each source word
 * @property {number[][]} targetTokens
 * @property {{share: number, gate: number}[]|null} copied of each target word
 * @property {'words'|'tokens'} unit
 * @property {{source: [number, number, number], target: [number, number, number]}|null} part where only a part is
 *   shown: its first and its last word, counted from 1, and how many there are
 */

/**
 * @param {Object} parts
 * @param {string[]} parts.sourceTokens
 * @param {string[]} parts.tokens of the output, without its end
 * @param {number[][]|null} parts.weights
 * @param {Object|null} parts.translation says which word a token belongs to, and what was copied
 * @param {'words'|'tokens'} unit
 * @returns {Alignment}
 */
export function align({ sourceTokens, tokens, weights, translation }, unit) {
  const isBeginning = tokens.every((token, index) => token === translation?.tokens[index]);
  const copied = translation && isBeginning ? translation.copied : null;
  const share = copied ? tokens.map((_, index) => ({ share: copied.copied[index], gate: copied.gates[index] })) : null;
  const groups = unit === 'words' ? wordGroups(translation, sourceTokens, tokens, isBeginning) : null;
  const source = groups?.source ?? sourceTokens.map((name, index) => ({ name, tokens: [index] }));
  const target = groups?.target ?? tokens.map((name, index) => ({ name, tokens: [index] }));
  const merged = groups && weights ? merge(weights, source, target) : weights;
  return {
    source: source.map((word) => word.name),
    target: target.map((word) => word.name),
    weights: merged,
    links: merged ? links(merged, source.length - 1) : [],
    sourceTokens: source.map((word) => word.tokens),
    targetTokens: target.map((word) => word.tokens),
    copied: share && target.map((word) => meanCopied(word.tokens.map((index) => share[index]))),
    unit: groups ? 'words' : 'tokens',
    part: null,
  };
}

/**
 * The words of both sides with the positions of their tokens; null where the service did not say. Of an output that
 * the translation does not begin with, the tokens.
 */
function wordGroups(translation, sourceTokens, tokens, isBeginning) {
  if (!translation?.source_word_of_token || !translation.target_word_of_token) return null;
  const source = group(translation.source_words, translation.source_word_of_token.slice(0, -1));
  source.push({ name: sourceTokens.at(-1), tokens: [sourceTokens.length - 1] });
  if (!isBeginning) return { source, target: tokens.map((name, index) => ({ name, tokens: [index] })) };
  const target = group(translation.target_words, translation.target_word_of_token.slice(0, tokens.length));
  return { source, target: target.filter((word) => word.tokens.length) };
}

function group(words, wordOfToken) {
  const groups = words.map((name) => ({ name, tokens: [] }));
  wordOfToken.forEach((word, token) => groups[word]?.tokens.push(token));
  return groups;
}

/** Weights over words: summed over the tokens of a source word, averaged over those of a target word. */
export function merge(weights, source, target) {
  return target.map((row) =>
    source.map((column) => {
      const total = row.tokens.reduce(
        (sum, t) => sum + column.tokens.reduce((part, k) => part + (weights[t]?.[k] ?? 0), 0),
        0,
      );
      return row.tokens.length ? total / row.tokens.length : 0;
    }),
  );
}

/** A link from each target word to its strongest source word, unless that is weak or the end token. */
export function links(weights, endColumn) {
  return weights.flatMap((row, target) => {
    const source = row.indexOf(Math.max(...row));
    return source !== endColumn && row[source] >= LINK_THRESHOLD ? [[source, target]] : [];
  });
}

function meanCopied(parts) {
  const mean = (name) => parts.reduce((total, part) => total + (part?.[name] ?? 0), 0) / Math.max(parts.length, 1);
  return { share: mean('share'), gate: mean('gate') };
}

/**
 * The alignment of a search after some steps; of another hypothesis if one was picked.
 * @param {import('./search_run.js').SearchRun} run
 * @param {number} steps
 * @param {'words'|'tokens'} unit
 * @param {Object|null} picked one of the translation's alternatives
 */
export function alignmentOf(run, steps, unit, picked = null) {
  const isWhole = picked || (run.translation && (steps >= run.length || run.length === 0));
  if (isWhole) return ofTranslation(picked ?? run.translation, unit);
  const nodes = run.leader(steps).filter((node) => node.token !== END);
  if ((run.start?.source_tokens ?? []).length > MANY || nodes.length > MANY) {
    const { source_tokens: sourceTokens } = run.start;
    return partOf({ sourceTokens, tokens: nodes.map(({ token }) => token), row: (index) => nodes[index].attention });
  }
  const weights = nodes.every((node) => node.attention) ? nodes.map((node) => node.attention) : null;
  const tokens = nodes.map((node) => node.token);
  return align({ sourceTokens: run.start?.source_tokens ?? [], tokens, weights, translation: run.translation }, unit);
}

/** The alignment of a whole translation. */
export function ofTranslation(translation, unit) {
  const { source_tokens: sourceTokens, tokens, attention } = translation;
  if (sourceTokens.length > MANY || tokens.length > MANY)
    return partOf({ sourceTokens, tokens, row: (index) => attention?.[index] ?? null });
  return align({ sourceTokens, tokens, weights: attention, translation }, unit);
}

/** Whether words are worth showing: not where a side is a single word of several tokens, as in pronunciations. */
export function wordsAreUseful(translation) {
  const words = translation?.word_attention;
  if (!words) return true;
  const sourceIsWord = words.source.length === 2 && translation.source_tokens.length > 2;
  return !sourceIsWord && !(words.target.length === 1 && translation.tokens.length > 1);
}

/**
 * The last tokens of a long output, and the source tokens around those that they look at.
 * @param {{sourceTokens: string[], tokens: string[], row: (index: number) => number[]|null}} whole row: the attention
 *   of an output token
 * @returns {Alignment}
 */
export function partOf({ sourceTokens, tokens, row }) {
  const first = Math.max(0, tokens.length - TARGET_PART);
  const rows = tokens.slice(first).map((_, index) => row(first + index));
  const last = rows.at(-1);
  const center = last ? last.indexOf(Math.max(...last)) : 0;
  const from = Math.max(0, Math.min(center - SOURCE_PART / 2, sourceTokens.length - SOURCE_PART));
  const source = sourceTokens.slice(from, from + SOURCE_PART);
  const weights = rows.length && rows.every(Boolean) ? rows.map((one) => one.slice(from, from + SOURCE_PART)) : null;
  return {
    source,
    target: tokens.slice(first),
    weights,
    links: weights ? links(weights, sourceTokens.length - 1 - from) : [],
    sourceTokens: source.map((_, index) => [from + index]),
    targetTokens: tokens.slice(first).map((_, index) => [first + index]),
    copied: null,
    unit: 'tokens',
    part: {
      source: [from + 1, from + source.length, sourceTokens.length],
      target: [first + 1, tokens.length, tokens.length],
    },
  };
}
