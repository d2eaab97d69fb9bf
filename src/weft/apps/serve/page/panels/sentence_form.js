/** The sentence to translate, with the model and examples of its own kind. */

import { h, replace, uniqueId } from '../dom.js';
import { direction, shorten } from '../labels.js';

const EXAMPLES = 6;

export class SentenceForm {
  /**
   * @param {Object[]} models
   * @param {{submit: (text: string) => void, pickModel: (name: string) => void, action?: string,
   *   fail?: (message: string) => void}} actions fail: tells the person what is missing
   */
  constructor(models, { submit, pickModel, action = 'Translate', fail = () => {} }) {
    this.fail = fail;
    const [text, model] = [uniqueId('text'), uniqueId('model')];
    this.models = models;
    this.submit = submit;
    this.action = action;
    this.textarea = h('textarea', {
      id: text,
      rows: 2,
      spellcheck: 'false',
      autocomplete: 'off',
      on: {
        input: () => this.orient(),
        keydown: (event) => {
          if (event.key === 'Enter' && !event.shiftKey) {
            event.preventDefault();
            this.send();
          }
        },
      },
    });
    this.select = h('select', { id: model, on: { change: () => pickModel(this.select.value) } });
    this.label = h('label', { for: text }, 'Sentence');
    this.about = h('p', { class: 'hint' });
    this.examples = h('ul', { class: 'examples', 'aria-label': 'Examples' });
    this.button = h('button', { type: 'submit', class: 'primary' }, action);
    this.element = h(
      'form',
      {
        class: 'sentence',
        on: {
          submit: (event) => {
            event.preventDefault();
            this.send();
          },
        },
      },
      h('div', { class: 'field text' }, this.label, this.textarea, this.examples),
      h('div', { class: 'field model' }, h('label', { for: model }, 'Model'), this.select, this.about, this.button),
    );
  }

  get text() {
    return this.textarea.value;
  }

  send() {
    const { has_source: hasSource = true, source_columns: columns = 1 } = this.model ?? {};
    if (!this.text.trim() && hasSource) {
      this.fail('There is no text yet: enter a sentence, or choose an example.');
      return this.textarea.focus();
    }
    return this.submit(this.text.trim().replace(/\s*\n\s*/g, columns > 1 ? '\t' : ' '));
  }

  orient() {
    this.textarea.setAttribute('dir', this.text.trim() ? direction(this.text) : 'auto');
  }

  /** @param {string} name of the model */
  show(name, text) {
    const model = this.models.find((one) => one.name === name);
    this.model = model;
    replace(this.select, this.models.map(modelOption));
    this.select.value = name;
    const shown = (text ?? this.text).replaceAll('\t', '\n');
    if (shown !== this.text) this.textarea.value = shown;
    this.orient();
    this.label.textContent = labelOf(model);
    this.button.textContent = model?.has_source === false && this.action === 'Translate' ? 'Continue it' : this.action;
    this.about.textContent = model?.description ?? '';
    replace(
      this.examples,
      (model?.examples ?? []).slice(0, EXAMPLES).map(({ source }) =>
        h(
          'li',
          {},
          h(
            'button',
            {
              type: 'button',
              class: 'chip',
              dir: direction(source),
              title: source,
              on: {
                click: () => {
                  this.textarea.value = source.replaceAll('\t', '\n');
                  this.orient();
                  this.send();
                },
              },
            },
            shorten(source, 48),
          ),
        ),
      ),
    );
  }
}

/** What the field asks for. */
function labelOf(model) {
  if (model?.has_source === false) return 'Beginning of a text';
  return model?.source_columns > 1 ? `Source: ${model.source_columns} columns, one per line (Shift+Enter)` : 'Sentence';
}

function modelOption({ name, title, state }) {
  const label = title && title !== name ? `${name}: ${shorten(title, 60)}` : name;
  return h('option', { value: name }, state === 'ready' ? label : `${name} (${state})`);
}
