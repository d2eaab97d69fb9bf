/**
 * The attention map: a cell for every weight, the rows output words, the columns source words.
 *
 * For a keyboard and a screen reader it is a grid; a real table with the same numbers can be opened below it. The
 * darker a cell (in the dark scheme: the lighter), the larger the weight: one hue, so that a gray print and every kind
 * of color vision show the same order.
 */

import { arrowKeys, h, s, unit } from '../dom.js';
import { direction, number, percent, shorten, visible } from '../labels.js';

const LONGEST_LABEL = 18;
const SMALLEST_CELL = 16;
const LARGEST_CELL = 40;
const CELL_WITH_NUMBER = 28;
const SLANT = -55;
/** Labels over narrower cells stand upright, so that they do not touch. */
const UPRIGHT_BELOW = 20;

/**
 * @typedef {Object} MapData
 * @property {string[]} source the columns
 * @property {string[]} target the rows
 * @property {number[][]} weights
 * @property {string} label what the map is of, for a screen reader
 */

/**
 * @param {MapData} data
 * @param {{width: number, highlight?: import('../highlight.js').Highlight, differing?: boolean[]}} options width: in
 *   pixels, to fit if possible; differing: rows to mark
 * @returns {SVGSVGElement}
 */
export function attentionMap({ source, target, weights, label }, { width, highlight, differing = [] }) {
  const em = unit();
  const names = { source: source.map(visible), target: target.map(visible) };
  const columns = names.source.map((word) => shorten(word, LONGEST_LABEL));
  const rows = names.target.map((word) => shorten(word, LONGEST_LABEL));
  const left = em * (1 + 0.56 * Math.max(3, ...rows.map((row) => row.length)));
  const right = em * 0.3 * Math.max(3, columns.at(-1)?.length ?? 0);
  const room = (width - left - right) / Math.max(source.length, 1);
  const cell = Math.round(Math.min(Math.max(room, SMALLEST_CELL * (em / 14)), LARGEST_CELL * (em / 14)));
  const slant = cell < UPRIGHT_BELOW * (em / 14) ? -90 : SLANT;
  const top = em * (0.8 + (slant === -90 ? 0.58 : 0.5) * Math.max(3, ...columns.map((column) => column.length)));
  const mirrored = direction(source.join(' ')) === 'rtl';
  const x = (column) => left + cell * (mirrored ? source.length - 1 - column : column);
  const y = (row) => top + cell * row;
  const size = [left + cell * source.length + right, top + cell * target.length + 4].map(Math.ceil);
  const bands = ['row', 'column'].map((name) =>
    s('rect', { class: `band ${name}`, visibility: 'hidden', 'aria-hidden': 'true' }),
  );
  const header = s(
    'g',
    { role: 'row' },
    s('text', { role: 'columnheader', class: 'unseen' }, 'output word'),
    columns.map((column, index) =>
      s(
        'text',
        {
          role: 'columnheader',
          class: 'label',
          'data-source': index,
          transform: `translate(${x(index) + cell * 0.6} ${top - em * 0.4}) rotate(${slant})`,
        },
        column,
      ),
    ),
  );
  const lines = weights.map((row, index) =>
    s(
      'g',
      { role: 'row' },
      s(
        'text',
        {
          role: 'rowheader',
          class: differing[index] ? 'label differs' : 'label',
          'data-target': index,
          'text-anchor': 'end',
          x: left - em * 0.5,
          y: y(index) + cell / 2,
          'dominant-baseline': 'central',
        },
        rows[index],
      ),
      row.map((weight, column) =>
        gridCell(weight, {
          column,
          row: index,
          x: x(column),
          y: y(index),
          cell,
          name: `${names.target[index]} from ${names.source[column]}: ${percent(weight)}`,
        }),
      ),
    ),
  );
  const map = s(
    'svg',
    {
      class: 'map',
      role: 'grid',
      'aria-label': label,
      'aria-readonly': 'true',
      viewBox: `0 0 ${size[0]} ${size[1]}`,
      width: size[0],
      height: size[1],
    },
    ruling(left, top, cell, source.length, target.length),
    header,
    lines,
    bands,
  );
  map.querySelector('[role=gridcell]')?.setAttribute('tabindex', '0');
  arrowKeys(map, neighbor(source.length, target.length, mirrored));
  if (highlight) connect(map, highlight, { x, y, cell, left, top, rows: target.length, columns: source.length, bands });
  return map;
}

function gridCell(weight, { column, row, x, y, cell, name }) {
  const square = s('rect', {
    role: 'gridcell',
    class: 'cell',
    tabindex: '-1',
    'aria-label': name,
    'data-source': column,
    'data-target': row,
    x: x + 0.5,
    y: y + 0.5,
    width: cell - 1,
    height: cell - 1,
    'fill-opacity': shade(weight),
  });
  if (cell < CELL_WITH_NUMBER || weight < 0.005) return square;
  const middle = { x: x + cell / 2, y: y + cell / 2, 'text-anchor': 'middle', 'dominant-baseline': 'central' };
  const value = number(weight).replace(/^0/, '');
  return [
    square,
    s('text', { ...middle, 'aria-hidden': 'true', class: weight > 0.45 ? 'value strong' : 'value' }, value),
  ];
}

/** The lines between the cells. */
function ruling(left, top, cell, columns, rows) {
  const across = Array.from({ length: rows + 1 }, (_, row) => `M${left} ${top + cell * row}h${cell * columns}`);
  const down = Array.from({ length: columns + 1 }, (_, column) => `M${left + cell * column} ${top}v${cell * rows}`);
  const size = { x: left, y: top, width: cell * columns, height: cell * rows };
  return s(
    'g',
    { 'aria-hidden': 'true' },
    s('rect', { ...size, class: 'ground' }),
    s('path', { class: 'ruling', d: across.join('') + down.join('') }),
  );
}

/** How opaque the color of a weight is, from 0 to 1. */
export function shade(weight) {
  return Math.round(1000 * Math.min(Math.max(weight, 0), 1) ** 0.8) / 1000;
}

/** Where the arrow keys lead in a grid. */
function neighbor(columns, rows, mirrored) {
  return (item, key) => {
    const [row, column] = [Number(item.dataset.target), Number(item.dataset.source)];
    const forward = mirrored ? -1 : 1;
    const moves = {
      ArrowRight: [0, forward],
      ArrowLeft: [0, -forward],
      ArrowDown: [1, 0],
      ArrowUp: [-1, 0],
      Home: [0, -column],
      End: [0, columns - 1 - column],
    };
    if (!moves[key]) return null;
    const to = [
      Math.min(Math.max(row + moves[key][0], 0), rows - 1),
      Math.min(Math.max(column + moves[key][1], 0), columns - 1),
    ];
    return item.closest('svg').querySelector(`[role=gridcell][data-target="${to[0]}"][data-source="${to[1]}"]`);
  };
}

/** Show the row and the column of what is pointed at. */
function connect(map, highlight, { x, y, cell, left, top, rows, columns, bands: [rowBand, columnBand] }) {
  highlight.follow(map);
  const place = (band, values) => {
    band.setAttribute('visibility', values ? 'visible' : 'hidden');
    for (const [name, value] of Object.entries(values ?? {})) band.setAttribute(name, value);
  };
  const stop = highlight.listen(({ source, target }) => {
    if (!map.isConnected) return stop();
    place(
      rowBand,
      target !== null && target < rows ? { x: 0, y: y(target), width: left + cell * columns, height: cell } : null,
    );
    place(
      columnBand,
      source !== null && source < columns ? { x: x(source), y: 0, width: cell, height: top + cell * rows } : null,
    );
    for (const text of map.querySelectorAll('text.label')) {
      const isSource = text.dataset.source !== undefined;
      text.classList.toggle(
        'lit',
        isSource ? Number(text.dataset.source) === source : Number(text.dataset.target) === target,
      );
    }
    return undefined;
  });
}

/**
 * The same weights as a table, made when it is opened.
 * @param {MapData} data
 */
export function weightTable({ source, target, weights, label }) {
  const details = h('details', { class: 'table-behind' }, h('summary', {}, 'All weights as a table'));
  details.addEventListener('toggle', () => {
    if (!details.open || details.querySelector('table')) return;
    details.append(
      h(
        'div',
        { class: 'scroll', tabindex: '0', role: 'region', 'aria-label': `${label}, table` },
        h(
          'table',
          { class: 'weights' },
          h('caption', {}, label),
          h(
            'thead',
            {},
            h(
              'tr',
              {},
              h('td', {}),
              source.map((word) => h('th', { scope: 'col' }, visible(word))),
            ),
          ),
          h(
            'tbody',
            {},
            weights.map((row, index) =>
              h(
                'tr',
                {},
                h('th', { scope: 'row' }, visible(target[index])),
                row.map((weight) => h('td', {}, number(weight, 3))),
              ),
            ),
          ),
        ),
      ),
    );
  });
  return details;
}
