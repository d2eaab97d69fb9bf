/** One step of the search: the candidates with their probabilities, the cut of the filters, and a word of one's own. */

import * as address from '../address.js';
import { h, refresh, replace, uniqueId } from '../dom.js';
import { distribution } from '../figures/distribution.js';
import { direction, percent, plural, visible } from '../labels.js';
import { cut } from '../sampling.js';
import { END } from '../search_run.js';
import { panel, scrollable } from './panel.js';

const LISTED = 8;
const NO_FILTER = { temperature: 1, top_k: 0, top_p: 1, min_p: 0, typical: 1 };

export class NextWord {
  /** @param {{force: (ids: number[]) => void, forceText: (text: string, ids: number[]) => void}} actions */
  constructor({ force, forceText }) {
    this.actions = { force, forceText };
    this.before = [];
    this.heading = h('p', { class: 'hint', 'aria-live': 'off' });
    this.list = h('ol', { class: 'candidates', 'aria-label': 'Candidates' });
    this.figure = h('div');
    this.mass = h('p', { class: 'hint' });
    const field = uniqueId('next');
    this.field = h('input', {
      id: field,
      type: 'text',
      autocomplete: 'off',
      spellcheck: 'false',
      on: { input: () => this.field.setAttribute('dir', direction(this.field.value)) },
    });
    this.form = h(
      'form',
      {
        class: 'inline',
        on: {
          submit: (event) => {
            event.preventDefault();
            if (this.field.value.trim()) this.actions.forceText(this.field.value.trim(), this.before);
            this.field.value = '';
          },
        },
      },
      h('label', { for: field }, 'Or enter the next word yourself'),
      this.field,
      h('button', { type: 'submit' }, 'Use it'),
    );
    this.walk = h('a', {}, 'Walk through this step: from the embedding to the softmax');
    this.element = panel(
      'The next word',
      { name: 'next-word', class: 'next-word', figure: () => this.figure.querySelector('svg') },
      this.heading,
      this.list,
      scrollable('Distribution of the next token', this.figure),
      this.mass,
      this.form,
      h('p', { class: 'onward' }, this.walk),
    );
  }

  update({ run, steps, search, model }) {
    const step = Math.max(Math.min(steps, run.length), 1);
    const found = run.length ? run.distribution(step, model.vocabulary?.target ?? 0) : null;
    this.element.hidden = run.length === 0;
    if (!found || !found.candidates.length) return replace(this.list);
    const nodes = run.leader(step);
    this.before = nodes.slice(0, Math.min(step, nodes.length) - 1).map((node) => node.id);
    this.walk.hidden = !model.has_walk;
    const values = {
      model: model.name,
      text: run.request.text,
      step: Math.min(step, nodes.length),
      ids: nodes.filter(({ token }) => token !== END).map(({ id }) => id).join('.'),
    };
    this.walk.setAttribute('href', address.format({ view: 'walk', values }));
    const samples = run.start.kind === 'sample' || run.start.kind === 'mbr';
    const shown = cut(found.candidates, found.rest, samples ? search : NO_FILTER);
    const chosen = steps === 0 ? null : found.chosen;
    this.heading.textContent =
      steps === 0
        ? 'What the model considers likely as the first word. Choose a candidate to force it.'
        : `${stepName(step, nodes.length)}: what the model considered likely here. Choose another candidate to continue with it instead.`;
    this.showList(found, shown, chosen);
    const width = this.figure.clientWidth || 480;
    replace(this.figure, distribution(found.candidates, shown, { width, chosen }));
    this.mass.textContent = samples ? describeCut(shown, found.rest) : '';
    return undefined;
  }

  showList({ candidates }, { probabilities, kept }, chosen) {
    const indices = candidates
      .map((_, index) => index)
      .filter((index) => index < LISTED || candidates[index].id === chosen);
    refresh(
      this.list,
      indices.map((index) => {
        const { token, id } = candidates[index];
        const isChosen = id === chosen;
        const name = `${visible(token)}: ${percent(probabilities[index])}${isChosen ? ', chosen' : ''}${kept[index] ? '' : ', cut off by the filters'}`;
        return h(
          'li',
          {},
          h(
            'button',
            {
              type: 'button',
              class: `candidate ${isChosen ? 'chosen' : ''} ${kept[index] ? '' : 'removed'}`,
              'aria-label': `${name}. Force it`,
              title: `Continue with “${visible(token)}”`,
              on: { click: () => this.actions.force([...this.before, id]) },
            },
            h('span', { class: 'token', dir: direction(token) }, visible(token)),
            h('span', { class: 'bar', style: { '--share': probabilities[index].toFixed(4) } }),
            h('span', { class: 'share' }, percent(probabilities[index])),
            h('span', { class: 'mark' }, isChosen ? '◀ chosen' : ''),
          ),
        );
      }),
    );
  }
}

/** The step of the leading output; a search may go on for others after that one has ended. */
function stepName(step, length) {
  return step > length ? `Step ${length}, the last of this output (the search went on to step ${step} for others)` : `Step ${step}`;
}

/** How much the filters keep; tokens that are not listed are counted as more. */
function describeCut({ kept, mass }, rest) {
  const count = kept.filter(Boolean).length;
  const more = rest.count > 0 && kept.every(Boolean) ? 'more than ' : '';
  const share = percent(mass);
  return `The filters keep ${more}${plural(count, 'token')} with ${share.startsWith('>') ? '' : more}${share} of the probability.`;
}
