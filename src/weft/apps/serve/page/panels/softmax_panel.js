/** The end of a walk: logits, and their softmax at a temperature that a slider sets. */

import { h, replace, uniqueId } from '../dom.js';
import { count, direction, formula, number, percent, visible } from '../labels.js';
import { panel } from './panel.js';

export class SoftmaxPanel {
  constructor() {
    const slider = uniqueId('temperature');
    this.slider = h('input', { id: slider, type: 'range', step: 1, on: { input: () => this.show() } });
    this.value = h('output', { for: slider });
    this.note = h('p', { class: 'hint' });
    this.list = h('ol', { class: 'candidates', 'aria-label': 'Most likely tokens' });
    this.element = panel(
      'Logits and softmax',
      {
        help: 'The output layer compares the last vector with that of every token of the vocabulary. A low temperature τ sharpens the distribution, a high one flattens it; the order stays.',
      },
      h('p', { class: 'equation' }, formula('z = W h + b;  p(y) = exp(z_y / τ) / Σ_v exp(z_v / τ)')),
      h('div', { class: 'setting' }, h('label', { for: slider }, 'Temperature τ'), this.value, this.slider),
      this.list,
      this.note,
    );
  }

  /**
   * @param {Object} output of the answer to POST api/walk
   * @param {number} place counted from 1
   */
  update(output, place) {
    this.output = output;
    this.element.querySelector('h2').textContent = `${place}. Logits and softmax`;
    const { temperatures } = output;
    this.slider.max = temperatures.length - 1;
    this.slider.value = this.temperature === undefined ? temperatures.indexOf(1) : temperatures.indexOf(this.temperature);
    this.show();
  }

  show() {
    const { tokens, temperatures, log_normalizers: normalizers, chosen, vocabulary } = this.output;
    const index = Number(this.slider.value);
    this.temperature = temperatures[index];
    this.value.textContent = number(this.temperature, 1);
    this.slider.setAttribute('aria-valuetext', number(this.temperature, 1));
    const probabilities = tokens.map(({ logit }) => Math.exp(logit / this.temperature - normalizers[index]));
    replace(
      this.list,
      tokens.map(({ token, id, logit }, place) =>
        h(
          'li',
          { class: `candidate ${id === chosen ? 'chosen' : ''}` },
          h('span', { class: 'token', dir: direction(token) }, visible(token)),
          h('span', { class: 'bar', style: { '--share': probabilities[place].toFixed(4) } }),
          h('span', { class: 'share' }, percent(probabilities[place])),
          h('span', { class: 'mark' }, `z = ${number(logit)}${id === chosen ? ' ◀' : ''}`),
        ),
      ),
    );
    const listed = probabilities.reduce((total, probability) => total + probability, 0);
    const others = vocabulary - tokens.length;
    this.note.textContent =
      others > 0 ? `The other ${count(others)} tokens have ${percent(Math.max(1 - listed, 0))} together. ◀: the token of this output.` : '◀: the token of this output.';
  }
}
