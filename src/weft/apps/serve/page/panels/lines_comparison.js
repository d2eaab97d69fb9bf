/** Pasted lines by two models: a table that can be sorted, and downloaded as TSV or JSON. */

import * as api from '../api.js';
import { marked } from '../difference.js';
import { h, replace, uniqueId } from '../dom.js';
import { direction, number, plural } from '../labels.js';
import { download } from '../save.js';
import { sent } from '../search_settings.js';
import { scrollable } from './panel.js';

/** Lines in a request, so that the table fills while one waits. */
const CHUNK = 32;

/** Characters of lines that the address holds: longer links are cut by mail programs and chats. */
export const MAX_IN_ADDRESS = 4000;

/** The columns: heading, value to sort by, whether it is a number. */
const COLUMNS = [
  ['#', (row) => row.line, true],
  ['Source', (row) => row.source],
  ['A', (row) => row.a.text],
  ['B', (row) => row.b.text],
  ['Score A', (row) => row.a.score, true],
  ['Score B', (row) => row.b.score, true],
  ['B − A', (row) => row.b.score - row.a.score, true],
  ['Same', (row) => Number(row.a.text === row.b.text), true],
];

export class LinesComparison {
  /** @param {(lines: string|null) => Promise<void>} open opens the address of a comparison; null: without its lines */
  constructor(context, open) {
    this.context = context;
    this.open = open;
    this.rows = [];
    /** What the table shows: lines, models and searches. */
    this.shown = null;
    this.order = { column: 0, descending: false };
    const id = uniqueId('lines');
    this.textarea = h('textarea', {
      id,
      rows: 6,
      spellcheck: 'false',
      dir: 'auto',
      placeholder: 'one sentence per line',
    });
    this.status = h('p', { class: 'hint', role: 'status' });
    this.head = h('tr');
    this.body = h('tbody');
    this.downloads = h(
      'p',
      { class: 'choice', hidden: true },
      h(
        'button',
        { type: 'button', on: { click: () => download(this.tsv(), 'comparison.tsv', 'text/tab-separated-values') } },
        'Download TSV',
      ),
      h(
        'button',
        { type: 'button', on: { click: () => download(this.json(), 'comparison.json', 'application/json') } },
        'Download JSON',
      ),
    );
    this.table = scrollable('Comparison', h('table', { class: 'comparison' }, h('thead', {}, this.head), this.body));
    this.table.hidden = true;
    this.element = h(
      'form',
      {
        class: 'view lines',
        on: {
          submit: (event) => {
            event.preventDefault();
            this.submit().catch(this.context.fail);
          },
        },
      },
      h('div', {}, h('label', { for: id }, 'Lines'), this.textarea),
      h('p', {}, h('button', { type: 'submit', class: 'primary' }, 'Compare')),
      this.status,
      this.downloads,
      this.table,
    );
  }

  /** Show a comparison; `lines`: those in the address, if it has any. */
  update(sides, lines) {
    this.sides = sides;
    if (!lines) return undefined;
    const shown = JSON.stringify([lines, sides.map(({ model, search }) => [model.name, search])]);
    if (shown === this.shown) return undefined;
    this.shown = shown;
    this.textarea.value = lines;
    return this.start();
  }

  /** Compare what was pasted, and keep it in the address if it is not too long for that. */
  async submit() {
    const lines = this.textarea.value.trim();
    const fits = lines.length <= MAX_IN_ADDRESS;
    this.shown = null;
    await this.open(fits ? lines : null);
    if (lines && fits) return;
    await this.start();
    if (lines) this.status.append(' They are too long to be part of the URL.');
  }

  close() {
    this.abort?.abort();
  }

  async start() {
    this.abort?.abort();
    this.abort = new AbortController();
    const { signal } = this.abort;
    const lines = this.textarea.value
      .split('\n')
      .map((line) => line.trim())
      .filter(Boolean);
    const size = Math.min(CHUNK, this.context.limits.lines ?? CHUNK);
    this.rows = [];
    this.table.hidden = !lines.length;
    this.downloads.hidden = !lines.length;
    const { sides } = this;
    for (let first = 0; first < lines.length; first += size) {
      this.status.textContent = `${first} of ${plural(lines.length, 'line')} …`;
      const text = lines.slice(first, first + size);
      const [a, b] = await Promise.all(
        sides.map(({ model, search }) =>
          api.translate({ model: model.name, text, search: sent(search, this.context.settings) }, signal),
        ),
      );
      this.rows.push(
        ...text.map((source, index) => ({
          line: first + index + 1,
          source,
          a: a.translations[index],
          b: b.translations[index],
        })),
      );
      this.show();
    }
    const same = this.rows.filter(({ a, b }) => a.text === b.text).length;
    this.status.textContent = lines.length
      ? `${plural(lines.length, 'line')}; the same output for ${same}, different outputs for ${lines.length - same}.`
      : 'Paste some lines first.';
  }

  /** The rows in the order that was chosen. */
  sorted() {
    const [, value, isNumber] = COLUMNS[this.order.column];
    const compare = isNumber ? (x, y) => value(x) - value(y) : (x, y) => value(x).localeCompare(value(y));
    const rows = [...this.rows].sort((x, y) => compare(x, y) || x.line - y.line);
    return this.order.descending ? rows.reverse() : rows;
  }

  show() {
    const focused = this.head.contains(document.activeElement) ? this.order.column : null;
    replace(
      this.head,
      COLUMNS.map(([heading], column) => {
        const isSorted = column === this.order.column;
        const direction = this.order.descending ? 'descending' : 'ascending';
        return h(
          'th',
          { scope: 'col', 'aria-sort': isSorted ? direction : null },
          h(
            'button',
            { type: 'button', class: 'sort', on: { click: () => this.sort(column) } },
            heading,
            h('span', { 'aria-hidden': 'true' }, isSorted ? (this.order.descending ? ' ▼' : ' ▲') : ''),
          ),
        );
      }),
    );
    if (focused !== null) this.head.children[focused].firstChild.focus();
    replace(
      this.body,
      this.sorted().map(({ line, source, a, b }) => {
        const [left, right] = marked(a.text, b.text);
        return h(
          'tr',
          {},
          h('td', {}, line),
          h('th', { scope: 'row', dir: direction(source) }, source),
          h('td', {}, left),
          h('td', {}, right),
          [number(a.score, 3), number(b.score, 3), number(b.score - a.score, 3), a.text === b.text ? 'yes' : 'no'].map(
            (value) => h('td', { class: 'number' }, value),
          ),
        );
      }),
    );
  }

  sort(column) {
    this.order = { column, descending: column === this.order.column && !this.order.descending };
    this.show();
  }

  tsv() {
    const clean = (text) => text.replace(/[\t\r\n]/g, ' ');
    const lines = this.sorted().map(({ line, source, a, b }) =>
      [line, clean(source), clean(a.text), clean(b.text), a.score, b.score].join('\t'),
    );
    return `${['line', 'source', 'a', 'b', 'score_a', 'score_b'].join('\t')}\n${lines.join('\n')}\n`;
  }

  json() {
    const models = Object.fromEntries(
      this.sides.map(({ name, model, search }) => [
        name.toLowerCase(),
        { model: model.name, search: sent(search, this.context.settings) },
      ]),
    );
    const lines = this.sorted().map(({ line, source, a, b }) => ({
      line,
      source,
      a: { text: a.text, score: a.score, log_probability: a.log_probability },
      b: { text: b.text, score: b.score, log_probability: b.log_probability },
    }));
    return `${JSON.stringify({ ...models, lines }, null, 2)}\n`;
  }
}
