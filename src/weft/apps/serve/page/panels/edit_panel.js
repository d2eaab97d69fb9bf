/** Change something by hand: block source words, move attention at a step; and see what the model then says. */

import { marked } from '../difference.js';
import { h, refresh, replace, uniqueId } from '../dom.js';
import { isEdited, NO_EDITS } from '../edits.js';
import { direction, percent, visible } from '../labels.js';
import { panel } from './panel.js';

/** More sliders than these are folded away at first. */
const MANY = 20;

export class EditPanel {
  /** @param {{change: (edits: import('../edits.js').Edits) => void}} actions */
  constructor({ change }) {
    this.change = change;
    this.scene = null;
    this.drawn = '';
    this.changes = h('ul', { class: 'chips', 'aria-label': 'Your changes' });
    this.effect = h('div', { class: 'effect', 'aria-live': 'polite' });
    this.words = h('div', { class: 'chips', role: 'group', 'aria-label': 'Source words to block' });
    this.sliders = h('div', { class: 'weights-by-hand' });
    this.step = h('span');
    this.byHand = h(
      'details',
      { open: true, on: { toggle: () => this.scene && this.drawSliders() } },
      h('summary', {}, 'A slider for every source word'),
      this.sliders,
      h('button', { type: 'button', on: { click: () => this.apply() } }, 'Apply this attention'),
    );
    this.moving = h(
      'div',
      {},
      h('h3', {}, 'Move attention at ', this.step),
      h('p', { class: 'hint' }, 'Choose the step with the player above, then move attention by hand.'),
      this.byHand,
    );
    this.tools = h(
      'div',
      {},
      h('h3', {}, 'Block a source word'),
      h('p', { class: 'hint' }, 'The model cannot look at a blocked word.'),
      this.words,
      this.moving,
    );
    this.unable = h('p', { class: 'hint' });
    this.element = panel('Change something', { class: 'wide edit' }, this.changes, this.effect, this.tools, this.unable);
  }

  update(scene) {
    this.scene = scene;
    const { model, edits, alignment, run } = scene;
    const isEditable = model.editable && Boolean(alignment.weights ?? run.translation?.attention);
    this.tools.hidden = !isEditable;
    this.moving.hidden = run.length === 0; // of a search without steps none can be chosen
    this.unable.textContent = isEditable
      ? ''
      : model.editable
        ? ''
        : 'The attention of this model cannot be changed by hand.';
    this.showChanges(edits);
    this.showEffect();
    const step = this.shownStep();
    this.step.textContent = `step ${step}`;
    const { source, sourceTokens } = alignment;
    refresh(
      this.words,
      source.map((word, index) => {
        const isBlocked =
          sourceTokens[index].length > 0 && sourceTokens[index].every((token) => edits.blocked.includes(token));
        return h(
          'button',
          {
            type: 'button',
            class: 'chip',
            'aria-pressed': String(isBlocked),
            dir: direction(word),
            on: { click: () => this.toggle(sourceTokens[index], isBlocked) },
          },
          visible(word),
        );
      }),
    );
    if (this.drawn === '') this.byHand.open = source.length <= MANY;
    this.drawSliders();
  }

  /** Draw the sliders, unless they are folded away, or drawn already. */
  drawSliders() {
    const step = this.shownStep();
    const { alignment, edits } = this.scene;
    const key = JSON.stringify([alignment.source, step, edits.attention]);
    if (key === this.drawn || !this.byHand.open) {
      this.drawn ||= ' ';
      return;
    }
    this.showSliders(step);
    this.drawn = key;
  }

  /** The step of the leading hypothesis that is shown, counted from 1. */
  shownStep() {
    const { steps, run } = this.scene;
    return Math.min(Math.max(steps, 1), Math.max(run.leader(steps).length, 1));
  }

  showChanges(edits) {
    const { run } = this.scene;
    const sources = run.start?.source_tokens ?? [];
    const named = (position) => visible(sources[position] ?? `token ${position + 1}`);
    const prefix = run.translation?.tokens.slice(0, edits.prefix.length).map(visible).join(' ') ?? '…';
    const chips = [
      ...(edits.prefix.length ? [[`begins with ${prefix}`, { ...edits, prefix: [] }]] : []),
      ...(edits.blocked.length ? [[`blocked: ${edits.blocked.map(named).join(', ')}`, { ...edits, blocked: [] }]] : []),
      ...edits.attention.map((one) => [
        `attention moved at step ${one.step + 1}`,
        { ...edits, attention: edits.attention.filter((other) => other !== one) },
      ]),
      ...edits.off.map((one) => [
        `${one.kind} layer ${one.layer} head ${one.head} off`,
        { ...edits, off: edits.off.filter((other) => other !== one) },
      ]),
    ];
    refresh(
      this.changes,
      chips.map(([text, without]) =>
        h(
          'li',
          {},
          h(
            'button',
            {
              type: 'button',
              class: 'chip change',
              'aria-label': `Undo: ${text}`,
              on: { click: () => this.change(without) },
            },
            text,
            h('span', { 'aria-hidden': 'true' }, ' ✕'),
          ),
        ),
      ),
      chips.length > 1
        ? h(
            'li',
            {},
            h('button', { type: 'button', class: 'chip', on: { click: () => this.change(NO_EDITS) } }, 'Undo all'),
          )
        : null,
    );
  }

  /** The output without the changes and with them. */
  showEffect() {
    const { baseline, run, edits } = this.scene;
    if (!isEdited(edits) || !baseline || !run.translation) return replace(this.effect);
    const [before, after] = marked(baseline.text, run.translation.text);
    const same = baseline.text === run.translation.text;
    return replace(
      this.effect,
      h(
        'dl',
        {},
        h('dt', {}, 'Without your changes'),
        h('dd', {}, before),
        h('dt', {}, same ? 'With them: the same' : 'With them'),
        h('dd', {}, after),
      ),
    );
  }

  showSliders(step) {
    const { alignment, run, edits } = this.scene;
    const moved = edits.attention.find((one) => one.step === step - 1);
    const row = moved?.weights ?? run.leader(step)[step - 1]?.attention ?? run.translation?.attention?.[step - 1] ?? [];
    const sum = row.reduce((total, weight) => total + weight, 0) || 1;
    replace(
      this.sliders,
      alignment.source.map((word, index) => {
        const share = alignment.sourceTokens[index].reduce((total, token) => total + (row[token] ?? 0), 0) / sum;
        const id = uniqueId('weight');
        const output = h('output', { for: id }, percent(share));
        const input = h('input', {
          id,
          type: 'range',
          min: 0,
          max: 1,
          step: 0.01,
          'data-word': index,
          on: {
            input: () => {
              output.textContent = percent(Number(input.value));
            },
          },
        });
        input.value = share;
        return h(
          'div',
          { class: 'weight-by-hand' },
          h('label', { for: id, dir: direction(word) }, visible(word)),
          input,
          output,
          h(
            'button',
            {
              type: 'button',
              class: 'quiet',
              'aria-label': `All attention to ${visible(word)}`,
              on: { click: () => this.apply(index) },
            },
            'all here',
          ),
        );
      }),
    );
  }

  toggle(tokens, isBlocked) {
    const { edits } = this.scene;
    const others = edits.blocked.filter((token) => !tokens.includes(token));
    this.change({ ...edits, blocked: isBlocked ? others : [...others, ...tokens].sort((a, b) => a - b) });
  }

  /** Use the weights of the sliders, or all weight on one word, at the step that is shown. */
  apply(only = null) {
    const { alignment, run, edits } = this.scene;
    const weights = Array.from({ length: run.start.source_tokens.length }, () => 0);
    alignment.sourceTokens.forEach((tokens, index) => {
      const share =
        only === null ? Number(this.sliders.querySelector(`[data-word="${index}"]`).value) : Number(index === only);
      for (const token of tokens) weights[token] = share / tokens.length;
    });
    if (!weights.some((weight) => weight > 0)) return;
    const step = this.shownStep() - 1;
    this.change({
      ...edits,
      attention: [...edits.attention.filter((one) => one.step !== step), { step, weights }].sort(
        (a, b) => a.step - b.step,
      ),
    });
  }
}
