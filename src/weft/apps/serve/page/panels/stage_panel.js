/** A stage of a walk: its equation, its vectors with their numbers, and the scores and weights of an attention. */

import { h } from '../dom.js';
import { describe, largest, strip } from '../figures/strip.js';
import { count, direction, formula, number, percent, visible } from '../labels.js';
import { panel, scrollable } from './panel.js';

/** Numbers of a vector that stand beside it. */
const FIRST = 5;
const DIGITS = 3;
/** The columns of an attention, and their classes. */
const COLUMNS = [
  ['j', null],
  ['key k', 'key'],
  ['score e', 'number'],
  ['weight α', 'weight'],
  ['value v', 'value'],
];

/**
 * @param {Object} stage of the answer to POST api/walk
 * @param {number} place counted from 1
 */
export function stagePanel(stage, place) {
  const { title, equation, help, vectors, attention } = stage;
  return panel(
    `${place}. ${title}`,
    { help },
    h('p', { class: 'equation' }, formula(equation)),
    vectors.length ? h('dl', { class: 'vectors' }, vectors.map(vectorRow)) : null,
    attention ? attentionParts(attention, title) : null,
  );
}

function vectorRow({ symbol, width, values }) {
  const more = width > values.length ? `; the first ${count(values.length)} of ${count(width)}` : '';
  return h(
    'div',
    { class: 'vector' },
    h('dt', {}, formula(symbol)),
    h('dd', {}, values.length > 1 ? strip(values, { label: symbol }) : null, numbersOf(values, `${describe(values)}${more}`)),
  );
}

/** The numbers of a vector: the first ones, and all of them on demand. */
function numbersOf(values, summary) {
  if (values.length <= FIRST) return h('span', { class: 'numbers' }, listed(values));
  const all = h('p', { class: 'numbers' });
  return h(
    'details',
    {
      on: {
        toggle: (event) => {
          if (event.target.open) all.textContent = listed(values);
        },
      },
    },
    h('summary', {}, h('span', { class: 'numbers' }, `${listed(values.slice(0, FIRST))} …`), ` ${summary}`),
    all,
  );
}

function listed(values) {
  return values.map((value) => number(value, DIGITS)).join('  ');
}

/** The query, every position with its score and weight, and the context. */
function attentionParts({ query, context, count: positions, positions: rows }, title) {
  const peaks = ['key', 'value'].map((part) => rows.reduce((most, row) => Math.max(most, largest(row[part])), 0));
  const hidden = positions - rows.length;
  return [
    h('dl', { class: 'vectors' }, vectorRow({ symbol: 'q', width: query.length, values: query })),
    scrollable(
      `${title}: scores and weights`,
      h(
        'table',
        { class: 'positions', role: 'table' },
        h(
          'caption',
          {},
          hidden > 0
            ? `The ${count(rows.length)} positions with the largest weights, of ${count(positions)}.`
            : 'One row for each position j.',
        ),
        h(
          'thead',
          { role: 'rowgroup' },
          h(
            'tr',
            { role: 'row' },
            COLUMNS.map(([text, kind]) => h('th', { scope: 'col', role: 'columnheader', class: kind }, text)),
          ),
        ),
        h('tbody', { role: 'rowgroup' }, rows.map((row) => positionRow(row, peaks))),
      ),
    ),
    h('dl', { class: 'vectors' }, vectorRow({ symbol: 'c', width: context.length, values: context })),
  ];
}

function positionRow({ position, token, key, value, score, weight }, [keyPeak, valuePeak]) {
  return h(
    'tr',
    { role: 'row' },
    h('th', { scope: 'row', role: 'rowheader', dir: direction(token) }, `${visible(token)} `, h('small', {}, position + 1)),
    h('td', { role: 'cell', class: 'key' }, strip(key, { label: 'key', peak: keyPeak })),
    h('td', { role: 'cell', class: 'number' }, number(score)),
    h('td', { role: 'cell', class: 'weight' }, h('span', { class: 'bar', style: { '--share': weight.toFixed(3) } }), h('span', {}, percent(weight))),
    h('td', { role: 'cell', class: 'value' }, strip(value, { label: 'value', peak: valuePeak })),
  );
}
