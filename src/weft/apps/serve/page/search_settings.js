/**
 * The search settings as values of an address: `kind=beam&s.size=8`. Only what differs from the model's own settings is
 * written.
 */

/** Settings that a slider can set, where the service gives no range: lowest, highest, step. */
const RANGES = {
  size: [1, 16, 1],
  finish: [0, 16, 1],
  groups: [1, 8, 1],
  diversity: [0, 2, 0.05],
  length_penalty: [0, 2, 0.05],
  coverage_penalty: [0, 1, 0.05],
  temperature: [0.1, 3, 0.05],
  top_k: [0, 100, 1],
  top_p: [0.05, 1, 0.01],
  min_p: [0, 1, 0.01],
  typical: [0.05, 1, 0.01],
  samples: [2, 64, 1],
  max_length: [0, 200, 1],
  max_ratio: [0, 5, 0.1],
  max_extra: [0, 50, 1],
  min_length: [0, 50, 1],
  min_ratio: [0, 2, 0.05],
  no_repeat_ngram: [0, 6, 1],
  repetition_penalty: [1, 2, 0.05],
  max_nodes: [1000, 100_000, 1000],
  max_space: [1000, 1_000_000, 1000],
  seed: [0, 100, 1],
};
/** What a person meets first; the rest is behind "More settings". */
const FIRST = new Set([
  'size',
  'normalization',
  'length_penalty',
  'coverage_penalty',
  'temperature',
  'top_k',
  'top_p',
  'min_p',
  'typical',
  'seed',
  'samples',
  'utility',
  'max_nodes',
]);
/** Set elsewhere on the page, or of no use for one sentence. */
const LEFT_OUT = new Set(['kind', 'prefix', 'batch_tokens']);
/** Characters of a text for which one output is asked for, instead of all that the search has found. */
export const LONG_TEXT = 1_500;
/** The languages of a model that has several, and the side of each. */
export const LANGUAGES = { source_language: 'source', target_language: 'target' };
/** They change how finished hypotheses are ranked: the list follows at once, before any new search. */
export const RANKING = new Set(['normalization', 'length_penalty', 'coverage_penalty']);
/** They cut the distribution: the drawing follows at once. */
export const FILTERS = new Set(['temperature', 'top_k', 'top_p', 'min_p', 'typical']);

export const KINDS = {
  greedy: ['Greedy', 'the most likely token at each step'],
  beam: ['Beam', 'several hypotheses side by side'],
  sample: ['Sampling', 'each token is drawn at random'],
  mbr: ['Minimum Bayes risk', 'the sample most similar to the others'],
  exact: ['Exact', 'the best output, proven by branch and bound'],
  exhaustive: ['Exhaustive', 'every output is tried; only for tiny models'],
};

/** @returns {[number, number, number]} lowest, highest, step of a slider */
export function range(setting) {
  const [low, high, step] = RANGES[setting.name] ?? [
    setting.minimum ?? 0,
    setting.maximum ?? 100,
    setting.type === 'integer' ? 1 : 0.01,
  ];
  return [Math.max(low, setting.minimum ?? low), Math.min(high, setting.maximum ?? high), step];
}

/** The settings that apply to a kind of search, the frequent ones first; `languages`: those of each side. */
export function settingsFor(settings, kind, languages = {}) {
  const applying = settings
    .filter(({ name, kinds }) => kinds.includes(kind) && !LEFT_OUT.has(name))
    .filter(({ name }) => !(name in LANGUAGES) || languages[LANGUAGES[name]]?.length)
    .map((setting) =>
      setting.name in LANGUAGES
        ? { ...setting, type: 'choice', choices: languages[LANGUAGES[setting.name]] }
        : setting,
    );
  const isLanguage = ({ name }) => name in LANGUAGES;
  const isSeed = ({ name }) => name === 'seed'; // with the button that draws again
  return {
    first: [...applying.filter(isLanguage), ...applying.filter(isSeed), ...applying.filter((one) => FIRST.has(one.name) && !isSeed(one))],
    more: applying.filter((setting) => !FIRST.has(setting.name) && !isLanguage(setting)),
  };
}

/** The search settings of an address, on top of a model's own; none above what the service allows. */
export function readSearch(values, settings, own, mark = 's.') {
  const search = { ...own };
  if (values[`${mark}kind`]) search.kind = values[`${mark}kind`];
  for (const setting of settings) {
    const text = values[mark + setting.name];
    if (text !== undefined && setting.name !== 'kind') search[setting.name] = parse(setting, text);
  }
  for (const { name, maximum } of settings) {
    if (typeof search[name] === 'number' && maximum !== undefined) search[name] = Math.min(search[name], maximum);
  }
  return search;
}

/** What an address says of search settings: those that differ from the model's own. */
export function writeSearch(search, settings, own, mark = 's.') {
  const values = { [`${mark}kind`]: search.kind === own.kind ? null : search.kind };
  for (const { name } of settings) {
    if (name !== 'kind') values[mark + name] = same(search[name], own[name]) ? null : format(search[name]);
  }
  return values;
}

/** What to send: the kind, and the settings that apply to it. */
export function sent(search, settings) {
  const names = settings
    .filter(({ name, kinds }) => name !== 'kind' && kinds.includes(search.kind) && !LEFT_OUT.has(name))
    .map(({ name }) => name)
    .filter((name) => !(name in LANGUAGES) || search[name]);
  return Object.fromEntries([['kind', search.kind], ...names.map((name) => [name, search[name]])]);
}

function parse({ type }, text) {
  if (type === 'boolean') return text === 'true';
  if (type === 'texts')
    return text
      .split('\n')
      .map((line) => line.trim())
      .filter(Boolean);
  if (type === 'integer' || type === 'number') return text === '' || Number.isNaN(Number(text)) ? null : Number(text);
  return text;
}

function format(value) {
  return Array.isArray(value) ? value.join('\n') : value === null ? '' : String(value);
}

function same(a, b) {
  return JSON.stringify(a) === JSON.stringify(b);
}
