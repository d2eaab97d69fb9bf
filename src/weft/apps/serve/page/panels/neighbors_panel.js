/** The training pairs where the decoder was in nearly the same state, with the tokens that were made from it. */

import { h } from '../dom.js';
import { direction, number, visible } from '../labels.js';
import { panel, scrollable } from './panel.js';

/** Tokens of a target before and after the one that was made. */
const AROUND = 12;

/**
 * @param {{source: string, target_tokens: string[], position: number, similarity: number}[]} neighbors of the answer to
 *   POST api/walk
 * @param {number} place counted from 1
 */
export function neighborsPanel(neighbors, place) {
  return panel(
    `${place}. Nearest training examples`,
    {
      help: 'The places in the training pairs where the decoder was in the state most similar to this one: what the model made of it there is marked.',
    },
    h('p', { class: 'equation' }, 'cos(h, h′) = h · h′ / (‖h‖ ‖h′‖)'),
    scrollable(
      'Nearest training examples: the table',
      h(
        'table',
        { class: 'neighbors' },
        h(
          'thead',
          {},
          h(
            'tr',
            {},
            h('th', { scope: 'col', class: 'number' }, 'cos'),
            h('th', { scope: 'col' }, 'Target, and its source'),
          ),
        ),
        h('tbody', {}, neighbors.map(row)),
      ),
    ),
  );
}

function row({ source, target_tokens: tokens, position, similarity }) {
  const first = Math.max(position - AROUND, 0);
  const last = Math.min(position + AROUND + 1, tokens.length);
  const names = (part) => part.map(visible).join(' ');
  return h(
    'tr',
    {},
    h('td', { class: 'number' }, number(similarity, 3)),
    h(
      'td',
      {},
      h(
        'p',
        { dir: direction(names(tokens)) },
        first ? '… ' : '',
        names(tokens.slice(first, position)),
        ' ',
        h('mark', {}, visible(tokens[position])),
        ' ',
        names(tokens.slice(position + 1, last)),
        last < tokens.length ? ' …' : '',
      ),
      source ? h('p', { class: 'hint', dir: direction(source) }, source) : null,
    ),
  );
}
