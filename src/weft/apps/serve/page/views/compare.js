/**
 * Compare: two models, or one model with two searches, on one sentence or on pasted lines.
 */

import * as address from '../address.js';
import { h, replace, uniqueId } from '../dom.js';
import { LinesComparison } from '../panels/lines_comparison.js';
import { SentenceComparison } from '../panels/sentence_comparison.js';
import { SearchControls } from '../panels/search_controls.js';
import { readSearch, writeSearch } from '../search_settings.js';

const SIDES = ['a', 'b'];

export default class CompareView {
  constructor(context) {
    this.context = context;
    this.sides = SIDES.map((side) => this.side(side));
    const tab = (mode, label) =>
      h(
        'button',
        {
          type: 'button',
          'data-mode': mode,
          'aria-pressed': 'false',
          on: { click: () => this.go({ mode: mode === 'sentence' ? null : mode }) },
        },
        label,
      );
    this.modes = h(
      'div',
      { class: 'choice', role: 'group', 'aria-label': 'Compare on' },
      tab('sentence', 'One sentence'),
      tab('lines', 'Pasted lines'),
    );
    const text = uniqueId('text');
    this.textarea = h('textarea', {
      id: text,
      rows: 2,
      spellcheck: 'false',
      dir: 'auto',
      on: {
        keydown: (event) => {
          if (event.key === 'Enter' && !event.shiftKey) {
            event.preventDefault();
            this.submit();
          }
        },
      },
    });
    this.sentenceForm = h(
      'form',
      {
        class: 'sentence-line',
        on: {
          submit: (event) => {
            event.preventDefault();
            this.submit();
          },
        },
      },
      h('label', { for: text }, 'Sentence'),
      this.textarea,
      h('button', { type: 'submit', class: 'primary' }, 'Compare'),
    );
    this.sentence = new SentenceComparison(context);
    this.lines = new LinesComparison(context, (lines) => this.go({ lines }));
    this.body = h('div');
    this.element = h(
      'div',
      { class: 'view' },
      this.modes,
      h(
        'div',
        { class: 'two' },
        this.sides.map(({ element }) => element),
      ),
      this.body,
    );
  }

  /** The model and the search of one side. */
  side(side) {
    const id = uniqueId('model');
    const { models, settings } = this.context;
    const name = side.toUpperCase();
    const select = h(
      'select',
      { id, on: { change: () => this.go({ [side]: select.value }) } },
      models.map((model) => h('option', { value: model.name, disabled: model.state !== 'ready' || null }, model.name)),
    );
    const controls = new SearchControls(settings, {
      preview: () => {},
      commit: (search) => this.go(writeSearch(search, settings, this.chosen(side).model.search, `${side}.`)),
    });
    const summary = h('span');
    const element = h(
      'fieldset',
      { class: 'panel side' },
      h('legend', { class: 'side-name' }, name),
      h('label', { for: id }, 'Model'),
      select,
      h('details', {}, h('summary', {}, 'Search: ', summary), controls.element),
    );
    return { side, select, controls, element, summary };
  }

  /** What one side has chosen. */
  chosen(side) {
    const { models, settings } = this.context;
    const { values } = this;
    const fallback =
      side === 'a' ? (models.find(({ name }) => name === values.model) ?? models[0]) : (models[1] ?? models[0]);
    const model = models.find(({ name }) => name === values[side]) ?? fallback;
    return { name: side.toUpperCase(), model, search: readSearch(values, settings, model.search, `${side}.`) };
  }

  async update(values) {
    if (!this.context.models.length) throw new Error('The service has no model.');
    this.values = values;
    const sides = SIDES.map((side) => this.chosen(side));
    this.sides.forEach((part, index) => {
      part.select.value = sides[index].model.name;
      part.controls.show(sides[index].search, sides[index].model.search, sides[index].model.languages);
      const { kind, size } = sides[index].search;
      part.summary.textContent = kind === 'beam' ? `beam of ${size}` : kind;
    });
    const isLines = values.mode === 'lines';
    for (const button of this.modes.children)
      button.setAttribute('aria-pressed', String((button.dataset.mode === 'lines') === isLines));
    const wanted = isLines ? [this.lines.element] : [this.sentenceForm, this.sentence.element];
    if (this.body.firstChild !== wanted[0]) replace(this.body, wanted);
    if (isLines) {
      if (values.lines) for (const { model } of sides) await this.context.ready(model);
      return this.lines.update(sides, values.lines);
    }
    if (values.text !== undefined && this.textarea.value !== values.text) this.textarea.value = values.text;
    if (!values.text) this.textarea.placeholder = sides[0].model.examples[0]?.source ?? '';
    if (!values.text) return undefined;
    for (const { model } of sides) await this.context.ready(model);
    return this.sentence.update(sides, values.text, address.stepOf(values));
  }

  submit() {
    const text = (this.textarea.value.trim() || this.textarea.placeholder).replace(/\n+/g, ' ');
    if (text) this.go({ text, step: null });
  }

  close() {
    this.lines.close();
    this.sentence.close();
  }

  go(changes) {
    address.change(changes, { push: true });
    return this.update(address.read().values).catch(this.context.fail);
  }
}
