/** The finished hypotheses with score, log p and length term; the length penalty ranks them anew at once. */

import { h, reducedMotion, refresh, uniqueId } from '../dom.js';
import { direction, number } from '../labels.js';
import { lengthTerm, rank } from '../ranking.js';
import { path } from '../search_run.js';
import { panel, scrollable } from './panel.js';

/** What the scores are. */
const HELP = {
  beam: 'Score = log p ÷ length term. Move the length penalty to see the ranking change.',
  mbr: 'Score = the mean similarity of a sample to the others (its utility).',
  sample: 'Each row was drawn at random. Draw again, or change the seed, to see others; the same seed draws the same.',
  other: 'Score = log p ÷ length term.',
};

/** The columns, and what they are. */
const HEADINGS = [
  ['#', 'Rank'],
  ['Output'],
  ['Score', 'log p divided by the length term'],
  ['log p', 'Log-probability of all tokens'],
  ['Length', 'Tokens, including the end token'],
  ['Term', 'Length term: what log p is divided by'],
];

/** How many samples can be drawn side by side. */
const DRAWS = [1, 2, 4, 8, 16];

export class FinishedPanel {
  /** @param {{pick: (index: number) => void, draw: (count: number) => void}} actions draw: draws some samples */
  constructor({ pick, draw }) {
    this.pick = pick;
    const id = uniqueId('draws');
    this.count = h('select', { id, on: { change: () => draw(Number(this.count.value)) } }, DRAWS.map((count) => h('option', { value: count }, count)));
    this.draws = h('span', { class: 'check', hidden: true }, h('label', { for: id }, 'Samples'), this.count);
    this.note = h('p', { class: 'hint' });
    this.body = h('tbody', { role: 'rowgroup' });
    this.element = panel(
      'Finished hypotheses',
      { class: 'finished wide', help: HELP.beam, tools: [this.draws] },
      scrollable(
        'Finished hypotheses: the table',
        h(
          'table',
          { class: 'ranking', role: 'table' },
          h(
            'thead',
            { role: 'rowgroup' },
            h(
              'tr',
              { role: 'row' },
              HEADINGS.map(([text, title], index) =>
                h('th', { scope: 'col', role: 'columnheader', class: index > 1 ? 'number' : null, title }, text),
              ),
            ),
          ),
          this.body,
        ),
      ),
      this.note,
    );
  }

  update({ run, steps, search, picked, draws = 1 }) {
    this.draws.hidden = run.start?.kind !== 'sample';
    this.count.value = DRAWS.findLast((count) => count <= draws) ?? 1;
    const rows = run.translation && steps >= run.length ? whole(run) : soFar(run, steps);
    const isRanked = run.start?.kind === 'beam';
    const ranked = isRanked
      ? rank(rows, search)
      : rows.map((hypothesis) => ({
          hypothesis,
          score: hypothesis.score,
          term: lengthTerm(hypothesis.length, search),
        }));
    this.element.hidden = !rows.length && !isRanked;
    this.element.querySelector('.hint').textContent = HELP[run.start?.kind] ?? HELP.other;
    const before = new Map([...this.body.children].map((row) => [row.dataset.key, row.getBoundingClientRect().top]));
    refresh(
      this.body,
      ranked.map(({ hypothesis, score, term }, index) => this.row(hypothesis, score, term, index, picked)),
    );
    this.animate(before);
    const first = ranked[0]?.hypothesis;
    this.note.textContent = !rows.length
      ? 'None yet.'
      : isRanked && first.number > 0 && run.translation
        ? 'With these settings a different hypothesis ranks first than in the search that found them.'
        : '';
  }

  row({ key, text, log_probability: log, length, number: place }, score, term, index, picked) {
    const isPicked = picked ? picked.text === text : place === 0;
    const name =
      place === null
        ? h('span', { dir: direction(text) }, text)
        : h(
            'button',
            {
              type: 'button',
              class: 'link',
              'aria-pressed': String(isPicked),
              dir: direction(text),
              title: 'Show this one in the map',
              on: { click: () => this.pick(place) },
            },
            text || '(empty)',
          );
    return h(
      'tr',
      { role: 'row', 'data-key': key, class: isPicked && place !== null ? 'picked' : '' },
      h('td', { role: 'cell' }, index + 1),
      h('th', { scope: 'row', role: 'rowheader' }, name),
      [number(score, 3), number(log, 3), length, number(term, 2)].map((value, index) =>
        h('td', { class: 'number', role: 'cell', 'data-label': HEADINGS[index + 2][0] }, value),
      ),
    );
  }

  /** Rows that changed places glide there. */
  animate(before) {
    if (reducedMotion()) return;
    for (const row of this.body.children) {
      const moved = (before.get(row.dataset.key) ?? NaN) - row.getBoundingClientRect().top;
      if (moved)
        row.animate([{ transform: `translateY(${moved}px)` }, { transform: 'none' }], {
          duration: 250,
          easing: 'ease-out',
        });
    }
  }
}

/** The hypotheses of a search that is over. */
function whole({ translation }) {
  return [translation, ...translation.alternatives].map((one, number) => ({ ...one, number, key: one.ids.join('.') }));
}

/** The hypotheses that have finished so far. */
function soFar(run, steps) {
  return run
    .finished(steps)
    .filter(() => run.isBeam)
    .map((node) => {
      const nodes = path(node);
      return {
        text: nodes
          .slice(0, -1)
          .map(({ token }) => token)
          .join(' '),
        score: node.branch.score,
        log_probability: node.branch.total,
        length: nodes.length,
        number: null,
        key: nodes
          .slice(0, -1)
          .map(({ id }) => id)
          .join('.'),
      };
    });
}
