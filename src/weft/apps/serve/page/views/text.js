/**
 * Text: translate a text or a document and nothing else. Lines are translated one by one; problems are listed below.
 */

import * as address from '../address.js';
import * as api from '../api.js';
import { doubtsOf, shaded } from '../doubts.js';
import { h, replace, uniqueId } from '../dom.js';
import { count, direction, plural, shorten } from '../labels.js';
import { download } from '../save.js';
import { ACCEPTED, DOCUMENTS, readTextFile } from '../text_files.js';

/** Lines of a request: the first ones appear soon, and a long text does not keep others waiting. */
const LINES = 20;
/** Bytes of a file, where the service names no limit. */
const MOST_BYTES = 2e6;
const DOCX = 'application/vnd.openxmlformats-officedocument.wordprocessingml.document';
const UNKNOWN = '<unk>';
const MENTIONED = 8;
/** The end of a sentence within a line. */
const SENTENCE_END = /[.!?…]["'»”’)]*\s+\S|[。！？।۔؟](?=\S)/;
/** Characters of a line whose words are not asked for: their attention would be too much. */
const LONG_LINE = 400;

export default class TextView {
  constructor(context) {
    this.context = context;
    const [text, model, file] = [uniqueId('text'), uniqueId('model'), uniqueId('file')];
    const format = uniqueId('format');
    const [glossary, memory] = [uniqueId('glossary'), uniqueId('memory')];
    this.select = h('select', { id: model, on: { change: () => this.pick(this.select.value) } });
    this.swap = h('button', { type: 'button', on: { click: () => this.exchange() } }, '⇄ Swap');
    this.textarea = h('textarea', {
      id: text,
      rows: 8,
      autocomplete: 'off',
      on: {
        input: () => this.orient(),
        keydown: (event) => {
          if (event.key === 'Enter' && (event.ctrlKey || event.metaKey)) this.translate();
        },
      },
    });
    this.file = h('input', {
      type: 'file',
      id: file,
      accept: ACCEPTED,
      on: { change: () => this.read() },
    });
    const formats = Object.entries(DOCUMENTS).map(([name, [title]]) => h('option', { value: name }, title));
    this.format = h('select', { id: format }, h('option', { value: '' }, 'Lines of text'), formats);
    /** The name of the document that was opened, without its ending. */
    this.fileName = '';
    /** A Word document that was opened, as a data URL: the text box has its name alone. */
    this.archive = null;
    this.opened = h(
      'p',
      { class: 'opened', hidden: true },
      h('span'),
      h('button', { type: 'button', on: { click: () => this.open('', null) } }, 'Close the file'),
    );
    this.format.addEventListener('change', () => this.archive && this.open('', null, this.format.value));
    this.glossary = h('textarea', { id: glossary, rows: 3, autocomplete: 'off', spellcheck: 'false' });
    this.memory = h('textarea', { id: memory, rows: 3, autocomplete: 'off', spellcheck: 'false' });
    this.output = h('div', { class: 'text-output', role: 'region', 'aria-label': 'Translation', tabindex: '0' });
    this.button = h('button', { type: 'submit', class: 'primary' }, 'Translate');
    this.copy = h('button', { type: 'button', disabled: true, on: { click: () => this.copyOutput() } }, 'Copy');
    this.save = h('button', { type: 'button', disabled: true, on: { click: () => this.download() } }, 'Save');
    this.inside = h('a', { hidden: true }, 'Look inside: step by step');
    this.status = h('p', { class: 'hint', role: 'status' });
    this.problems = h('ul', { class: 'problems', 'aria-label': 'Problems' });
    this.sourceLabel = h('label', { for: text }, 'Text');
    this.targetLabel = h('p', { class: 'label' }, 'Translation');
    this.lines = [];
    const form = h(
      'form',
      {
        class: 'plain',
        on: {
          submit: (event) => {
            event.preventDefault();
            this.translate();
          },
        },
      },
      h('p', { class: 'direction' }, h('label', { for: model }, 'Languages'), this.select, this.swap),
      h(
        'div',
        { class: 'side' },
        this.sourceLabel,
        this.textarea,
        this.opened,
        h(
          'p',
          { class: 'buttons' },
          this.button,
          h('span', { class: 'file' }, this.file, h('label', { for: file }, 'Open a file')),
          h('span', { class: 'check' }, h('label', { for: format }, 'Format'), this.format),
        ),
      ),
      h('div', { class: 'side' }, this.targetLabel, this.output, h('p', { class: 'buttons' }, this.copy, this.save, this.inside)),
      h(
        'details',
        { class: 'wide' },
        h('summary', {}, 'Glossary and translation memory'),
        h('label', { for: glossary }, 'Terms to use: on each line a source term, a tab (or =) and a target term'),
        this.glossary,
        h('label', { for: memory }, 'Translated before: on each line a source, a tab (or =) and its translation'),
        this.memory,
      ),
    );
    this.element = h('div', { class: 'view' }, form, this.status, this.problems);
  }

  close() {
    this.abort?.abort();
  }

  async update(values) {
    const { models } = this.context;
    this.model = models.find(({ name }) => name === values.model) ?? models.find(({ state }) => state === 'ready') ?? models[0];
    if (!this.model) throw new Error('The service has no model.');
    replace(
      this.select,
      models.map((model) => h('option', { value: model.name }, labelOf(model, models))),
    );
    this.select.value = this.model.name;
    const hasLanguages = this.model.source !== 'source';
    this.sourceLabel.textContent = hasLanguages ? languageName(this.model.source) : 'Text';
    this.targetLabel.textContent = hasLanguages ? languageName(this.model.target) : 'Translation';
    this.swap.hidden = !this.reverse();
    if (values.text && !this.textarea.value) this.textarea.value = values.text;
    this.orient();
  }

  /** A model of the other direction, if one is served. */
  reverse() {
    const { source, target } = this.model;
    if (source === 'source') return null;
    return this.context.models.find((other) => other.source === target && other.target === source) ?? null;
  }

  pick(model) {
    address.change({ model }, { push: true });
    this.update(address.read().values).catch(this.context.fail);
  }

  exchange() {
    const other = this.reverse();
    if (!other) return;
    if (this.lines.length) this.textarea.value = this.text;
    this.show([]);
    this.pick(other.name);
  }

  orient() {
    this.textarea.setAttribute('dir', this.textarea.value.trim() ? direction(this.textarea.value) : 'auto');
  }

  get text() {
    return this.lines.map((line) => line?.text ?? '').join('\n');
  }

  async read() {
    const [file] = this.file.files;
    if (!file) return;
    this.context.fail(null);
    try {
      const { text, format } = await readTextFile(file, this.context.limits.body_bytes ?? MOST_BYTES);
      this.open(text, file.name, format ?? '');
      this.fileName = file.name.replace(/(\.[^.]*)?(\.gz)?$/, '');
      const size = this.archive ? plural(file.size, 'byte') : plural([...text].length, 'character');
      this.status.textContent = `${file.name}: ${format ? `${DOCUMENTS[format][0]}, ` : ''}${size}.`;
    } catch (error) {
      this.context.fail(error);
    }
    this.file.value = ''; // so that the same file can be opened again
    this.orient();
  }

  /** Show the text of a file; of a Word document (a data URL) its name. */
  open(text, name, format = '') {
    const isArchive = format === 'docx' && Boolean(text);
    this.archive = isArchive ? text : null;
    this.textarea.value = isArchive ? '' : text;
    this.textarea.hidden = isArchive;
    this.opened.hidden = !isArchive;
    this.opened.firstChild.textContent = isArchive ? name : '';
    this.format.value = format;
    this.fileName = '';
    this.show([]);
  }

  async translate() {
    this.context.fail(null);
    this.abort?.abort();
    this.abort = new AbortController();
    const { signal } = this.abort;
    const sources = this.textarea.value.replace(/\s+$/, '').split(/\r\n|\r|\n/);
    const isMissing = this.format.value === 'docx' ? !this.archive : !sources.some((line) => line.trim());
    if (isMissing) {
      this.context.fail(new Error(this.format.value === 'docx' ? 'There is no Word document yet: open a file.' : 'There is no text yet: enter one, or open a file.'));
      this.textarea.focus();
      return;
    }
    try {
      await this.context.ready(this.model);
      await (this.format.value ? this.runDocument(this.format.value, signal) : this.run(sources, signal));
    } catch (error) {
      this.context.fail(error);
    } finally {
      if (!signal.aborted) this.button.disabled = false;
    }
  }

  async run(sources, signal) {
    this.button.disabled = true;
    this.show(sources.map(() => null));
    const waiting = sources.map((line, index) => ({ line, index })).filter(({ line }) => line.trim());
    const start = performance.now();
    for (let from = 0; from < waiting.length; from += LINES) {
      const part = waiting.slice(from, from + LINES);
      for (const format of ['sentence', 'text']) {
        const lines = part.filter(({ line }) => this.formatOf(line) === format);
        if (!lines.length) continue;
        const { translations } = await api.translate(this.request(lines.map(({ line }) => line.trim())), signal);
        translations.forEach((one, index) => {
          this.lines[lines[index].index] = one;
        });
      }
      this.show(this.lines);
      if (from + LINES < waiting.length) this.status.textContent = `${count(from + part.length)} of ${plural(waiting.length, 'line')} …`;
    }
    const seconds = (performance.now() - start) / 1000;
    this.status.textContent = `${plural(waiting.length, 'line')} in ${seconds.toFixed(1)} s, by ${this.model.name}.`;
    this.context.announce(`Translated: ${shorten(this.text, 200)}`);
    const [first] = waiting;
    this.inside.hidden = waiting.length !== 1;
    this.inside.setAttribute('href', address.format({ view: 'translate', values: { model: this.model.name, text: first.line.trim() } }));
  }

  /** Translate a document whole; the result has its layout and its markup. */
  async runDocument(format, signal) {
    this.button.disabled = true;
    this.show([]);
    this.status.textContent = 'Translating the document …';
    const start = performance.now();
    const body = { model: this.model.name, text: this.archive ?? this.textarea.value, format, ...this.known() };
    const { translations } = await api.translate(body, signal).catch((error) => {
      this.status.textContent = '';
      throw error;
    });
    const [{ text, units, sentences }] = translations;
    const shown = this.archive ? units.map((unit) => plain(unit.text)).join('\n') : text;
    this.show([{ text: shown, flags: [], source_tokens: [] }]);
    this.translated = text;
    this.showProblems(units.flatMap((unit) => unitProblems(unit)));
    const seconds = (performance.now() - start) / 1000;
    this.status.textContent = `${plural(sentences, 'sentence')} in ${seconds.toFixed(1)} s, by ${this.model.name}.`;
    this.context.announce(`Translated: ${plural(sentences, 'sentence')}`);
  }

  /** The glossary and the memory, if there are any: lines of two columns, as typed with = or pasted with tabs. */
  known() {
    const fields = { glossary: this.glossary, memory: this.memory };
    const texts = Object.entries(fields).map(([name, { value }]) => [name, value.trim() && columnsOf(value)]);
    return Object.fromEntries(texts.filter(([, value]) => value));
  }

  /** Lines of several sentences are split by the service, if the model translates sentences. */
  formatOf(line) {
    const { has_source: hasSource = true, source_columns: columns = 1 } = this.model;
    return hasSource && columns === 1 && SENTENCE_END.test(line.trim()) ? 'text' : 'sentence';
  }

  /** What is asked of the service for lines of one format; attention, if it is not too much, says which words are doubtful. */
  request(lines) {
    const body = { model: this.model.name, text: lines, ...this.known() };
    if (this.formatOf(lines[0]) === 'text') return { ...body, format: 'text' };
    if (lines.some((line) => line.length > LONG_LINE)) return body;
    const { kind, size } = this.model.search;
    return { ...body, attention: true, n_best: kind === 'beam' && size > 1 ? 2 : 1 };
  }

  /** @param {(Object|null)[]} lines the translation of each line; null where there is none yet, or nothing to translate */
  show(lines) {
    this.lines = lines;
    this.output.setAttribute('dir', direction(this.text));
    replace(
      this.output,
      lines.flatMap((line, index) => [index ? '\n' : '', ...(line ? shaded(line.text, line.words) : [])]),
    );
    this.copy.disabled = this.save.disabled = !this.text.trim();
    this.inside.hidden = true;
    this.showProblems(lines.flatMap((line, index) => (line ? problemsOf(line, index + 1, lines.length) : [])));
  }

  /** @param {string[]} problems sentences; the first ones are listed */
  showProblems(problems) {
    const more = problems.length > MENTIONED ? [`and ${plural(problems.length - MENTIONED, 'more problem')}`] : [];
    replace(
      this.problems,
      [...problems.slice(0, MENTIONED), ...more].map((text) => h('li', {}, text)),
    );
  }

  async copyOutput() {
    try {
      await navigator.clipboard.writeText(this.text);
      this.status.textContent = 'Copied.';
    } catch {
      getSelection().selectAllChildren(this.output);
      this.status.textContent = 'Selected: the browser does not let this page copy; press Ctrl+C.';
    }
  }

  download() {
    const { value: format } = this.format;
    const ending = format ? DOCUMENTS[format][1][0] : 'txt';
    const { target } = this.model;
    const language = this.fileName && target && target !== this.model.name ? `.${target}` : '';
    const content = this.archive ? bytesOf(this.translated) : format ? this.text : `${this.text}\n`;
    download(content, `${this.fileName || 'translation'}${language}.${ending}`, this.archive ? DOCX : 'text/plain');
  }
}

/** The text of a part of a Word document, which has simple tags and entities. */
function plain(text) {
  return new DOMParser().parseFromString(text, 'text/html').body.textContent;
}

/** The bytes of a data URL. */
function bytesOf(url) {
  return Uint8Array.from(atob(url.slice(url.indexOf(',') + 1)), (character) => character.charCodeAt(0));
}

/** What a person should know of the translation of a line. */
function problemsOf(line, number, lines) {
  const where = lines > 1 ? `Line ${number}: ` : '';
  const unknown = (line.source_tokens ?? []).filter((token) => token === UNKNOWN).length;
  const flags = (line.flags ?? []).filter((flag) => flag !== 'cut' && flag !== 'from-memory' && !(flag === 'unknown-tokens' && unknown));
  return [
    ...(unknown ? [`${where}${plural(unknown, 'word')} unknown to the model, which can only guess.`] : []),
    ...(line.ended === 'length' || line.flags?.includes('cut')
      ? [`${where}the translation reached the length limit and may be cut off.`]
      : []),
    ...(line.memory ?? []).slice(0, 1).map((match) => `${where}${shownMatch(match)}`),
    ...doubtsOf({ ...line, flags, words: [] }).map((doubt) => `${where}${doubt}.`),
    ...(line.text.trim() ? [] : [`${where}the model has nothing to say.`]),
  ];
}

/** What a person should know of a part of a document. */
function unitProblems({ source, flags, confidence }) {
  return doubtsOf({ flags, confidence }).map((doubt) => `“${shorten(source.trim(), 60)}”: ${doubt}.`);
}

/** A pair of the translation memory that is equal or similar. */
function shownMatch({ source, target, similarity, exact }) {
  if (exact) return 'taken from the translation memory.';
  return `similar in the memory (${Math.round(100 * similarity)} %): ${shorten(source, 80)} → ${shorten(target, 80)}`;
}

/** Lines with a tab between their columns, where = may have been typed for it. */
function columnsOf(text) {
  return text
    .split(/\r\n|\r|\n/)
    .map((line) => (line.includes('\t') ? line : line.replace(/\s*=\s*/, '\t')))
    .join('\n');
}

/** A language by its name, where the browser knows the code. */
function languageName(code) {
  try {
    return new Intl.DisplayNames(['en'], { type: 'language' }).of(code.replace('_', '-'));
  } catch {
    return code;
  }
}

/** English → French; with the name of the model where several have the same languages. */
function labelOf(model, models) {
  if (model.source === 'source') return model.title && model.title !== model.name ? `${model.name}: ${shorten(model.title, 60)}` : model.name;
  const pair = `${languageName(model.source)} → ${languageName(model.target)}`;
  const isOnly = models.filter(({ source, target }) => source === model.source && target === model.target).length === 1;
  return isOnly ? pair : `${pair} (${model.name})`;
}
