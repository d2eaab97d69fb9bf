/**
 * The search as controls: the kind, and a slider or a field for every setting that applies to it.
 *
 * While a slider moves, `preview` is called; when it is let go, `commit`.
 */

import { h, replace, uniqueId } from '../dom.js';
import { KINDS, range, settingsFor } from '../search_settings.js';

const NAMES = {
  size: 'Beam size',
  stop: 'Stop when',
  finish: 'Finished hypotheses to stop at',
  groups: 'Groups',
  diversity: 'Diversity',
  normalization: 'Length normalization',
  length_penalty: 'Length penalty α',
  coverage_penalty: 'Coverage penalty β',
  temperature: 'Temperature',
  top_k: 'Top-k',
  top_p: 'Top-p',
  min_p: 'Min-p',
  typical: 'Typical',
  seed: 'Random seed',
  samples: 'Samples',
  utility: 'Utility',
  max_nodes: 'Give up after (prefixes)',
  max_space: 'Maximum number of outputs',
  max_length: 'Maximum length',
  max_ratio: 'Maximum length per source token',
  max_extra: 'Maximum extra tokens',
  min_length: 'Minimum length',
  min_ratio: 'Minimum length per source token',
  banned: 'Banned phrases',
  required: 'Required phrases',
  no_repeat_ngram: 'No repeated n-grams of',
  repetition_penalty: 'Repetition penalty',
  no_loops: 'Forbid loops',
  replace_unknown: 'Replace unknown words',
  source_language: 'Language of the source',
  target_language: 'Translate into',
};
const OFF = {
  top_k: 0,
  top_p: 1,
  min_p: 0,
  typical: 1,
  no_repeat_ngram: 0,
  repetition_penalty: 1,
  max_length: 0,
  min_length: 0,
  min_ratio: 0,
  coverage_penalty: 0,
  finish: 0,
};

/** Draw again takes one of these seeds. */
const SEEDS = 1_000_000;

export class SearchControls {
  /**
   * @param {Object[]} settings as GET /api/settings describes them
   * @param {{preview: (search: Object, name: string) => void, commit: (search: Object, name: string) => void}} actions
   */
  constructor(settings, { preview, commit }) {
    this.settings = settings;
    this.actions = { preview, commit };
    this.search = null;
    this.element = h('div', { class: 'controls' });
  }

  /** Show some search settings; `own`: those of the model itself, `languages`: of each side, if it has several. */
  show(search, own, languages = this.languages) {
    this.own = own;
    const kindChanged =
      this.search?.kind !== search.kind || JSON.stringify(languages) !== JSON.stringify(this.languages);
    this.languages = languages;
    const isSame = !kindChanged && JSON.stringify(search) === JSON.stringify(this.search);
    this.search = { ...search };
    if (isSame || (this.element.contains(document.activeElement) && !kindChanged)) return;
    const isOpen = this.element.querySelector('details')?.open ?? false;
    const { first, more } = settingsFor(this.settings, search.kind, languages);
    replace(
      this.element,
      this.kinds(),
      h('p', { class: 'hint' }, `${KINDS[search.kind]?.[0] ?? search.kind}: ${KINDS[search.kind]?.[1] ?? ''}.`),
      first.map((setting) => this.control(setting)),
      more.length
        ? h(
            'details',
            { open: isOpen || null },
            h('summary', {}, 'More settings'),
            more.map((setting) => this.control(setting)),
          )
        : null,
    );
  }

  kinds() {
    const name = uniqueId('kind');
    const choices = this.settings.find((setting) => setting.name === 'kind')?.choices ?? Object.keys(KINDS);
    return h(
      'fieldset',
      { class: 'kinds' },
      h('legend', {}, 'Kind of search'),
      choices.map((kind) => {
        const id = uniqueId('choice');
        return h(
          'span',
          { class: 'kind' },
          h('input', {
            type: 'radio',
            name,
            id,
            value: kind,
            checked: kind === this.search.kind || null,
            on: { change: () => this.pickKind(kind) },
          }),
          h('label', { for: id, title: KINDS[kind]?.[1] }, KINDS[kind]?.[0] ?? kind),
        );
      }),
    );
  }

  pickKind(kind) {
    this.show({ ...this.search, kind }, this.own);
    this.element.querySelector(`input[value="${kind}"]`)?.focus();
    this.actions.commit(this.search, 'kind');
  }

  control(setting) {
    const id = uniqueId('setting');
    const help = h(
      'p',
      { class: 'help', id: `${id}-help` },
      capitalize(setting.description.replace(/^[a-z, ]+: (?=\S)/, '')),
    );
    const label = h('label', { for: id }, NAMES[setting.name] ?? setting.name);
    const common = { id, 'data-setting': setting.name, 'aria-describedby': `${id}-help` };
    if (setting.type === 'boolean') {
      return h(
        'div',
        { class: 'setting check' },
        h('input', {
          ...common,
          type: 'checkbox',
          checked: this.search[setting.name] || null,
          on: { change: (event) => this.set(setting.name, event.target.checked, true) },
        }),
        label,
        help,
      );
    }
    if (setting.type === 'choice') return this.choice(setting, common, label, help);
    if (setting.type === 'texts' || setting.type === 'text') return this.phrases(setting, common, label, help);
    if (setting.name === 'seed') return this.seed(setting, common, label, help);
    return this.slider(setting, common, label, help);
  }

  choice(setting, common, label, help) {
    const value = this.search[setting.name];
    const isAutomatic = value === null || this.own[setting.name] === null;
    const choices = isAutomatic ? ['', ...setting.choices] : setting.choices;
    const options = choices.map((choice) =>
      h('option', { value: choice, selected: choice === (value ?? '') || null }, choice || 'automatic'),
    );
    const change = (event) => this.set(setting.name, event.target.value || null, true);
    return h('div', { class: 'setting' }, label, h('select', { ...common, on: { change } }, options), help);
  }

  phrases(setting, common, label, help) {
    const value = [].concat(this.search[setting.name] ?? []).join('\n');
    const field = h('textarea', {
      ...common,
      rows: 2,
      placeholder: 'one per line',
      on: {
        change: (event) =>
          this.set(
            setting.name,
            event.target.value
              .split('\n')
              .map((line) => line.trim())
              .filter(Boolean),
            true,
          ),
      },
    });
    field.value = value;
    return h('div', { class: 'setting' }, label, field, help);
  }

  slider(setting, common, label, help) {
    const [low, high, step] = range(setting);
    const value = this.search[setting.name];
    const output = h('output', { for: common.id }, display(setting.name, value));
    const input = h('input', {
      ...common,
      type: 'range',
      min: low,
      max: Math.max(high, value ?? low),
      step,
      'aria-valuetext': display(setting.name, value),
    });
    input.value = value ?? low;
    const read = () => {
      const number = Number(input.value);
      output.textContent = display(setting.name, number);
      input.setAttribute('aria-valuetext', output.textContent);
      return number;
    };
    input.addEventListener('input', () => this.set(setting.name, read(), false));
    input.addEventListener('change', () => this.set(setting.name, read(), true));
    return h('div', { class: 'setting' }, label, output, input, help);
  }

  /** The seed as a number, empty for the model's own, and a button that draws again with another one. */
  seed(setting, common, label, help) {
    const range = { min: 0, max: setting.maximum ?? null, step: 1, placeholder: 'automatic' };
    const input = h('input', { ...common, ...range, type: 'number' });
    input.value = this.search.seed ?? '';
    const commit = () => {
      const value = input.value.trim() === '' ? null : Math.max(Math.trunc(Number(input.value)), 0);
      input.value = value ?? '';
      this.set('seed', value, true);
    };
    input.addEventListener('change', commit);
    const again = () => {
      input.value = Math.floor(Math.random() * SEEDS);
      commit();
    };
    const button = h('button', { type: 'button', on: { click: again } }, 'Draw again');
    return h('div', { class: 'setting seed' }, label, h('span', { class: 'inline' }, input, button), help);
  }

  set(name, value, isFinal) {
    this.search = { ...this.search, [name]: value };
    this.actions[isFinal ? 'commit' : 'preview'](this.search, name);
  }
}

function display(name, value) {
  if (value === null || value === undefined) return 'automatic';
  const text = Number.isInteger(value) ? value.toLocaleString('en-US') : value.toFixed(2);
  return OFF[name] === value ? `${text} (off)` : text;
}

function capitalize(text) {
  return text.charAt(0).toUpperCase() + text.slice(1);
}
