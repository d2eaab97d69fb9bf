/**
 * Embeddings: the matrix of positions and how similar positions are; the tokens nearest to a token.
 */

import * as address from '../address.js';
import * as api from '../api.js';
import { h, replace, uniqueId } from '../dom.js';
import { heat, sheet } from '../figures/heat.js';
import { direction, number, visible } from '../labels.js';
import { panel } from '../panels/panel.js';

/** The kinds of positions that are vectors. */
const WITH_TABLE = ['sinusoidal', 'learned'];
const POSITIONS = 64;

export default class EmbeddingsView {
  constructor(context) {
    this.context = context;
    this.loaded = '';
    const [model, token] = [uniqueId('model'), uniqueId('token')];
    this.select = h(
      'select',
      { id: model, on: { change: () => this.go({ model: this.select.value, token: null }) } },
      context.models.map(({ name }) => h('option', { value: name }, name)),
    );
    this.field = h('input', { id: token, type: 'text', autocomplete: 'off', spellcheck: 'false' });
    const side = (name, label) =>
      h(
        'button',
        {
          type: 'button',
          class: 'quiet',
          'data-side': name,
          'aria-pressed': 'false',
          on: { click: () => this.go({ side: name }) },
        },
        label,
      );
    this.sides = h(
      'span',
      { class: 'choice', role: 'group', 'aria-label': 'Vocabulary' },
      side('source', 'Source'),
      side('target', 'Output'),
    );
    this.neighbors = h('ol', { class: 'candidates', 'aria-label': 'Nearest tokens' });
    this.note = h('p', { class: 'hint', 'aria-live': 'polite' });
    this.positions = h('div', { class: 'matrices' });
    this.positionsNote = h('p', { class: 'hint' });
    this.canvases = [];
    const form = h(
      'form',
      {
        class: 'inline',
        on: {
          submit: (event) => {
            event.preventDefault();
            if (this.field.value.trim()) this.go({ token: this.field.value.trim() });
          },
        },
      },
      h('label', { for: token }, 'Token'),
      this.field,
      h('button', { type: 'submit', class: 'primary' }, 'Show its neighbors'),
    );
    this.element = h(
      'div',
      { class: 'view' },
      h('div', { class: 'model-line' }, h('label', { for: model }, 'Model'), this.select),
      h(
        'div',
        { class: 'results' },
        panel(
          'Nearest neighbors of a token',
          {
            help: 'The tokens whose embedding vectors point the same way: the cosine is 1 for the same direction, 0 for unrelated ones.',
            tools: [this.sides],
          },
          form,
          this.note,
          this.neighbors,
        ),
        panel(
          'Positions',
          {
            help: 'Each row is a position, each column a dimension; light colors are small values, strong colors large ones. The square shows how similar two positions are.',
            figure: () => (this.canvases.length ? sheet([this.canvases], 420) : null),
            name: 'positions',
          },
          this.positionsNote,
          this.positions,
        ),
      ),
    );
    this.repaint = () => this.draw();
    this.scheme = matchMedia('(prefers-color-scheme: dark)');
    this.scheme.addEventListener('change', this.repaint);
  }

  close() {
    this.scheme.removeEventListener('change', this.repaint);
  }

  async update(values) {
    const { models } = this.context;
    this.model =
      models.find(({ name }) => name === values.model) ?? models.find(({ positions }) => positions) ?? models[0];
    if (!this.model) throw new Error('The service has no model.');
    this.select.value = this.model.name;
    const side = values.side ?? (this.model.has_source ? 'source' : 'target');
    for (const button of this.sides.children) button.setAttribute('aria-pressed', String(button.dataset.side === side));
    await this.showPositions();
    const token = values.token ?? '';
    this.field.value = token;
    this.field.setAttribute('dir', direction(token));
    await this.showNeighbors(token, side);
  }

  async showNeighbors(token, side) {
    replace(this.neighbors);
    this.note.textContent = token ? '' : 'Enter a token, for example a word of the sentence you translated.';
    if (!token) return;
    try {
      const { neighbors, token: name } = await api.neighbors(this.model.name, { token, side, count: 12 });
      this.note.textContent = `Nearest to “${visible(name)}”:`;
      replace(
        this.neighbors,
        neighbors.map((one) =>
          h(
            'li',
            {},
            h(
              'button',
              {
                type: 'button',
                class: 'candidate',
                'aria-label': `${visible(one.token)}: cosine ${number(one.cosine)}. Show its neighbors`,
                on: { click: () => this.go({ token: one.token }) },
              },
              h('span', { class: 'token', dir: direction(one.token) }, visible(one.token)),
              h('span', { class: 'bar', style: { '--share': Math.max(one.cosine, 0).toFixed(3) } }),
              h('span', { class: 'share' }, number(one.cosine)),
              h('span', { class: 'mark' }),
            ),
          ),
        ),
      );
    } catch (error) {
      if (error.status !== 404) throw error;
      this.note.textContent = error.message;
    }
  }

  async showPositions() {
    if (this.loaded === this.model.name) return this.draw();
    this.loaded = this.model.name;
    this.table = null;
    const { positions } = this.model;
    if (!WITH_TABLE.includes(positions)) {
      this.positionsNote.textContent =
        positions && positions !== 'none'
          ? `This model has ${positions} positions, for which there is no table.`
          : 'This model has no positions.';
      return this.draw();
    }
    try {
      this.table = await api.positions(this.model.name, POSITIONS);
      this.positionsNote.textContent = `${this.table.kind} positions, ${this.table.matrix.length} × ${this.table.matrix[0].length}`;
    } catch (error) {
      if (error.status !== 404) throw error;
      this.positionsNote.textContent = error.message;
    }
    return this.draw();
  }

  draw() {
    this.canvases = [];
    if (!this.table) return replace(this.positions);
    const { matrix, kind } = this.table;
    const peak = Math.max(...matrix.flat().map(Math.abs)) || 1;
    const similar = similarity(matrix);
    this.canvases = [
      {
        caption: `${kind} positions`,
        canvas: heat(matrix, {
          low: -peak,
          high: peak,
          label: `Matrix of ${matrix.length} ${kind} positions in ${matrix[0].length} dimensions, from −${number(peak)} to ${number(peak)}`,
        }),
      },
      {
        caption: 'similarity of positions',
        canvas: heat(similar, {
          low: Math.min(...similar.flat()),
          high: 1,
          label: 'Cosine similarity of each pair of positions; the diagonal is 1',
        }),
      },
    ];
    return replace(
      this.positions,
      this.canvases.map(({ caption, canvas }, index) =>
        h(
          'figure',
          {},
          canvas,
          h('figcaption', {}, index ? `${caption} (cosine)` : `${caption}: ${number(-peak, 1)} to ${number(peak, 1)}`),
        ),
      ),
    );
  }

  go(changes) {
    address.change({ model: this.model.name, ...changes }, { push: true });
    return this.update(address.read().values).catch(this.context.fail);
  }
}

/** The cosine of every two rows. */
export function similarity(matrix) {
  const norms = matrix.map((row) => Math.hypot(...row) || 1);
  return matrix.map((a, i) =>
    matrix.map((b, j) => a.reduce((total, value, k) => total + value * b[k], 0) / (norms[i] * norms[j])),
  );
}
