/** Source and output as text, appearing step by step, with the links between their words. */

import { doubtsOf, shaded } from '../doubts.js';
import { h, replace } from '../dom.js';
import { WordLinks } from '../figures/word_links.js';
import { count, direction, number, percent, plural } from '../labels.js';
import { END } from '../search_run.js';
import { panel } from './panel.js';

const ENDINGS = {
  length: 'stopped by the length limit',
  constraints: 'stopped: no token was allowed to follow',
  nodes: 'the exact search gave up: a better output may exist',
};

const UNKNOWN = '<unk>';

export class Reading {
  /** @param {{highlight: Object, player: import('../player.js').Player, pickUnit: (unit: string) => void}} context */
  constructor({ highlight, player, pickUnit }) {
    this.player = player.element;
    this.links = new WordLinks(highlight);
    this.summary = h('p', { class: 'summary' });
    this.doubts = h('ul', { class: 'doubts', 'aria-label': 'Doubts' });
    this.part = h('p', { class: 'hint' });
    this.end = h('p', { class: 'hint' });
    this.output = h('p', { class: 'output', 'aria-label': 'Output' });
    const choice = (unit, label) =>
      h(
        'button',
        {
          type: 'button',
          class: 'quiet',
          'aria-pressed': 'false',
          'data-unit': unit,
          on: { click: () => pickUnit(unit) },
        },
        label,
      );
    this.units = h(
      'span',
      { class: 'choice', role: 'group', 'aria-label': 'Show' },
      choice('words', 'Words'),
      choice('tokens', 'Tokens'),
    );
    this.element = panel(
      'Translation, step by step',
      {
        class: 'wide reading',
        help: 'Point at a word, or move to it with Tab and the arrow keys, to see where it comes from.',
        figure: () => this.links.picture(),
        name: 'words',
        tools: [this.units],
      },
      player.element,
      this.output,
      this.doubts,
      this.part,
      this.links.element,
      this.links.sentence,
      this.end,
      this.summary,
    );
  }

  update({ alignment, run, steps, edits, unit, picked, model }) {
    const { part } = alignment;
    this.part.textContent = part
      ? `Source tokens ${part.source[0]} to ${part.source[1]} of ${count(part.source[2])}, output tokens ${part.target[0]} to ${part.target[1]} of ${count(part.target[2])}: the last ones, and where they look. Move the step to see others.`
      : '';
    this.end.textContent =
      model.has_source && alignment.source.includes(END)
        ? `${END} is the end token: it marks the end of the source, and the model ends its output with it.`
        : '';
    this.links.show(alignment, { blocked: new Set(edits.blocked) });
    for (const button of this.units.children) button.setAttribute('aria-pressed', String(button.dataset.unit === unit));
    const isOver = run.translation && steps >= run.length;
    this.player.hidden = Boolean(run.translation) && run.length === 0;
    const translation = picked ?? run.translation;
    const text = isOver ? translation.text : alignment.target.join(alignment.unit === 'words' ? ' ' : '\u2009');
    replace(this.output, isOver ? shaded(text, translation.words) : text);
    replace(this.doubts, isOver ? doubtsOf(translation).map((doubt) => h('li', {}, doubt)) : []);
    this.output.setAttribute('dir', direction(text));
    this.output.classList.toggle('growing', !isOver);
    this.summary.textContent = isOver
      ? describe(translation)
      : run.seconds === null || run.translation
        ? ''
        : `Searching for ${Math.round(run.seconds)} s …`;
    if (isOver && !translation.attention && model.has_source)
      this.summary.append(' This model has no attention, so nothing links its words to the source.');
    const unknown = (run.start?.source_tokens ?? []).filter((token) => token === UNKNOWN).length;
    if (unknown && model.has_source)
      this.summary.append(` ${plural(unknown, 'token')} of the source ${unknown === 1 ? 'is' : 'are'} unknown to the model.`);
  }
}

function describe({ score, log_probability: log, length, ended, proven, confidence }) {
  const ending = ENDINGS[ended] ? `; ${ENDINGS[ended]}` : '';
  const right = confidence === null || confidence === undefined ? '' : `Right with a probability of ${percent(confidence)}. `;
  return `${right}Score ${number(score, 3)}, log p ${number(log, 3)}, ${plural(length, 'token')} including the end token${proven ? '; proven: no output has a higher score' : ''}${ending}.`;
}
