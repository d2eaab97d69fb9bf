/**
 * Walk: one token's way through the decoder, from its embedding to the softmax, with the numbers of the model.
 */

import * as address from '../address.js';
import * as api from '../api.js';
import { h, replace, uniqueId } from '../dom.js';
import { direction, visible } from '../labels.js';
import { neighborsPanel } from '../panels/neighbors_panel.js';
import { SoftmaxPanel } from '../panels/softmax_panel.js';
import { stagePanel } from '../panels/stage_panel.js';
import { SentenceForm } from '../panels/sentence_form.js';
import { Presenter } from '../present.js';

export default class WalkView {
  constructor(context) {
    this.context = context;
    this.form = new SentenceForm(context.models, {
      action: 'Walk through it',
      submit: (text) => this.go({ text, model: this.model.name, ids: null, step: null }),
      pickModel: (model) => this.go({ model, ids: null, step: null, layer: null, head: null }),
      fail: (message) => context.fail(message && new Error(message)),
    });
    this.tokens = h('ol', { class: 'way', 'aria-label': 'Tokens of the output' });
    this.choices = h('p', { class: 'heads-choice' });
    this.stages = h('div', { class: 'results stages' });
    this.softmax = new SoftmaxPanel();
    this.presenter = new Presenter(
      () => [...this.stages.children],
      (by) => this.turn(by),
    );
    this.results = h(
      'div',
      { class: 'view', hidden: true },
      h(
        'section',
        { class: 'panel walk-output', 'aria-label': 'The token' },
        h('p', { class: 'hint' }, 'Choose a token of the output: the panels follow its way from the token before it to its probability.'),
        this.tokens,
        this.choices,
      ),
      this.presenter.element,
      this.stages,
    );
    this.element = h('div', { class: 'view' }, this.form.element, this.results);
    this.repaint = () => this.record && this.showStages();
    this.scheme = matchMedia('(prefers-color-scheme: dark)');
    this.scheme.addEventListener('change', this.repaint);
  }

  close() {
    this.presenter.toggle(false);
    this.scheme.removeEventListener('change', this.repaint);
    this.abort?.abort();
  }

  /** Offer examples that were found since. */
  showExamples() {
    this.form.show(this.model.name);
  }

  /** @param {Object<string, string>} values of the address; `ids`: the output, if it is not the model's own */
  async update(values) {
    const { models } = this.context;
    this.model = models.find(({ name }) => name === values.model) ?? models.find(({ has_walk: has }) => has) ?? models[0];
    if (!this.model) throw new Error('The service has no model.');
    this.form.show(this.model.name, values.text);
    if (!values.text) return;
    await this.context.ready(this.model);
    this.abort?.abort();
    this.abort = new AbortController();
    const positive = (value) => Math.max(Math.trunc(Number(value)) || 1, 1);
    const output = JSON.stringify([this.model.name, values.text, values.ids]);
    const given = values.ids ? values.ids.split('.').map(Number) : this.output === output ? this.record.target_ids : null;
    const body = {
      model: this.model.name,
      text: values.text,
      step: positive(values.step) - 1,
      layer: positive(values.layer),
      head: positive(values.head),
      ...(given ? { target_ids: given } : {}),
    };
    try {
      this.record = await api.walk(body, this.abort.signal);
    } catch (error) {
      this.results.hidden = true;
      throw error;
    }
    Object.assign(this, { body, output });
    this.results.hidden = false;
    this.showTokens();
    this.showChoices();
    this.showStages();
  }

  /** The output: the token whose making is shown, and the others as buttons. */
  showTokens() {
    const { target_tokens: tokens, begin, step } = this.record;
    const before = step ? tokens[step - 1] : begin;
    const focused = document.activeElement?.closest('.way') === this.tokens;
    replace(
      this.tokens,
      h('li', { class: 'begin' }, visible(begin)),
      tokens.map((token, index) =>
        h(
          'li',
          {},
          h(
            'button',
            {
              type: 'button',
              class: 'word',
              dir: direction(token),
              'aria-pressed': String(index === step),
              'aria-label': `Token ${index + 1}: ${visible(token)}`,
              on: { click: () => this.go({ step: index + 1 }) },
            },
            visible(token),
          ),
        ),
      ),
    );
    if (focused) this.tokens.querySelector('[aria-pressed=true]').focus();
    this.context.announce(`From ${visible(before)} to ${visible(tokens[step])}`);
  }

  /** The layer and the head that are shown in detail, where there are several. */
  showChoices() {
    const { layers, heads } = this.record;
    const isTransformer = this.record.stages.some(({ title }) => title.startsWith('The stream'));
    const choice = (label, name, most) => {
      const id = uniqueId(name);
      const options = Array.from({ length: most }, (_, index) => h('option', { value: index + 1 }, index + 1));
      const select = h('select', { id, 'data-choice': name, on: { change: () => this.go({ [name]: select.value }) } }, options);
      select.value = this.body[name];
      return [h('label', { for: id }, label), select];
    };
    const focused = document.activeElement?.dataset?.choice;
    replace(
      this.choices,
      isTransformer && layers > 1 ? choice('Layer', 'layer', layers) : [],
      isTransformer && heads > 1 ? choice('Head', 'head', heads) : [],
    );
    if (focused) this.choices.querySelector(`[data-choice=${focused}]`)?.focus();
  }

  showStages() {
    const panels = this.record.stages.map((stage, index) => stagePanel(stage, index + 1));
    this.softmax.update(this.record.output, panels.length + 1);
    const { neighbors } = this.record;
    replace(this.stages, panels, this.softmax.element, neighbors ? neighborsPanel(neighbors, panels.length + 2) : null);
    this.presenter.show();
  }

  /** Another token of the output. */
  turn(by) {
    if (!this.record) return;
    const { step, target_tokens: tokens } = this.record;
    const next = Math.min(Math.max(step + by, 0), tokens.length - 1);
    if (next !== step) this.go({ step: next + 1 });
  }

  go(changes) {
    this.context.fail(null);
    address.change(changes, { push: true });
    return this.update(address.read().values).catch(this.context.fail);
  }
}
