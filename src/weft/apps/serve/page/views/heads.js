/**
 * Heads: a small map for every layer and head, one of them enlarged; a head can be switched off.
 */

import * as address from '../address.js';
import { MANY, partOf } from '../alignment.js';
import * as api from '../api.js';
import { marked } from '../difference.js';
import { h, replace } from '../dom.js';
import { isOff, readEdits, requestOf, toggleHead, writeEdits } from '../edits.js';
import { heat, pooled, sheet } from '../figures/heat.js';
import { Highlight } from '../highlight.js';
import { direction, plural } from '../labels.js';
import { MapPanel } from '../panels/map_panel.js';
import { panel } from '../panels/panel.js';
import { SentenceForm } from '../panels/sentence_form.js';

const KINDS = {
  encoder: ['Encoder self-attention', 'Source tokens look at source tokens.'],
  decoder: ['Decoder self-attention', 'Each output token looks at the output before it.'],
  cross: ['Cross-attention', 'Output tokens look at source tokens.'],
  copy: ['Copy attention', 'From which source token a word is copied.'],
};

export default class HeadsView {
  constructor(context) {
    this.context = context;
    this.requested = '';
    this.form = new SentenceForm(context.models, {
      action: 'Show the heads',
      submit: (text) => this.go({ text, model: this.model.name }),
      pickModel: (model) => this.go({ model, off: null, head: null }),
    });
    this.outputs = h('div', { class: 'outputs', 'aria-live': 'polite' });
    this.grids = h('div', { class: 'view' });
    this.enlarged = new MapPanel({
      highlight: new Highlight(),
      title: 'One head, enlarged',
      name: 'head',
      help: 'Each row looks at the columns: the stronger the color, the more. Arrow keys move from cell to cell.',
    });
    this.switch = h('button', { type: 'button' });
    this.enlarged.element.querySelector('.tools').prepend(this.switch);
    this.results = h(
      'div',
      { class: 'heads-view', hidden: true },
      h(
        'div',
        { class: 'view steady' },
        panel('Output', { help: 'Switch heads off below to see the output change.' }, this.outputs),
        this.enlarged.element,
      ),
      this.grids,
    );
    this.element = h('div', { class: 'view' }, this.form.element, this.results);
    this.repaint = () => this.showGrids();
    this.scheme = matchMedia('(prefers-color-scheme: dark)');
    this.scheme.addEventListener('change', this.repaint);
  }

  close() {
    this.scheme.removeEventListener('change', this.repaint);
  }

  /** Offer examples that were found since. */
  showExamples() {
    this.form.show(this.model.name);
  }

  async update(values) {
    const { models } = this.context;
    this.model = models.find(({ name }) => name === values.model) ?? models.find(({ heads }) => heads) ?? models[0];
    if (!this.model) throw new Error('The service has no model.');
    this.values = values;
    this.edits = { ...readEdits({}), off: readEdits(values).off };
    this.form.show(this.model.name, values.text);
    if (!values.text) return;
    this.model = await this.context.ready(this.model);
    if (!this.model.heads) {
      this.results.hidden = true;
      throw new Error(`${this.model.name} has no attention heads to show.`);
    }
    const key = JSON.stringify([this.model.name, values.text, values.off]);
    if (key !== this.requested) await this.load(values.text);
    this.requested = key;
    this.results.hidden = false;
    this.showOutputs();
    this.showGrids();
    this.showEnlarged();
  }

  async load(text) {
    const body = { model: this.model.name, text };
    const isChanged = this.edits.off.length > 0;
    const output = (await api.translate({ ...body, ...requestOf(this.edits) })).translations[0];
    const baseline = isChanged ? (await api.translate(body)).translations[0] : output;
    const { heads } = await api.heads({
      ...body,
      ...requestOf(this.edits),
      ...(this.model.has_source ? { target_ids: output.ids } : {}),
    });
    Object.assign(this, { heads, output, baseline });
  }

  showOutputs() {
    const { off } = this.edits;
    if (!off.length)
      return replace(this.outputs, h('p', { class: 'output', dir: direction(this.output.text) }, this.output.text));
    const [before, after] = marked(this.baseline.text, this.output.text);
    const same = this.baseline.text === this.output.text;
    return replace(
      this.outputs,
      h(
        'dl',
        {},
        h('dt', {}, 'With all heads'),
        h('dd', {}, before),
        h('dt', {}, `With ${plural(off.length, 'head')} off${same ? ': the same' : ''}`),
        h('dd', {}, after),
      ),
      h('button', { type: 'button', on: { click: () => this.go({ off: null }) } }, 'Switch all on'),
    );
  }

  showGrids() {
    if (!this.heads) return;
    const kinds = [...new Set(this.heads.map(({ kind }) => kind))];
    const focused = document.activeElement?.dataset?.head;
    replace(
      this.grids,
      kinds.map((kind) => this.grid(kind)),
    );
    if (focused) this.grids.querySelector(`[data-head="${focused}"]`)?.focus();
  }

  grid(kind) {
    const heads = this.heads.filter((head) => head.kind === kind);
    const layers = [...new Set(heads.map(({ layer }) => layer))];
    const drawn = layers.map((layer) =>
      heads
        .filter((head) => head.layer === layer)
        .map((head) => ({
          head,
          caption: `layer ${layer} · head ${head.head}`,
          canvas: heat(pooled(head.weights), { label: `${KINDS[kind]?.[0] ?? kind}, layer ${layer}, head ${head.head}` }),
        })),
    );
    const [title, help] = KINDS[kind] ?? [kind, ''];
    return panel(
      title,
      { help, figure: () => sheet(drawn), name: `${kind}-heads` },
      h(
        'div',
        { class: 'head-rows', style: { '--heads': Math.max(...drawn.map((row) => row.length)) } },
        drawn.map((row) =>
          h(
            'ul',
            { class: 'head-row' },
            row.map(({ head, canvas, caption }) => this.thumb(head, canvas, caption)),
          ),
        ),
      ),
    );
  }

  thumb(head, canvas, caption) {
    const name = `${head.kind}.${head.layer}.${head.head}`;
    const off = isOff(this.edits, head);
    canvas.setAttribute('aria-hidden', 'true');
    canvas.removeAttribute('role');
    return h(
      'li',
      { class: off ? 'thumb off' : 'thumb' },
      h(
        'button',
        {
          type: 'button',
          'data-head': name,
          'aria-pressed': String(name === this.headName()),
          'aria-label': `${KINDS[head.kind]?.[0] ?? head.kind}, ${caption}${off ? ', off' : ''}. Enlarge`,
          on: { click: () => this.go({ head: name }) },
        },
        canvas,
        h('span', {}, caption, off ? ' · off' : ''),
      ),
    );
  }

  headName() {
    const wanted = this.values.head;
    const first = this.heads.find(({ kind }) => kind === 'cross') ?? this.heads[0];
    const head = this.heads.find((one) => `${one.kind}.${one.layer}.${one.head}` === wanted) ?? first;
    return `${head.kind}.${head.layer}.${head.head}`;
  }

  showEnlarged() {
    const name = this.headName();
    const head = this.heads.find((one) => `${one.kind}.${one.layer}.${one.head}` === name);
    const off = isOff(this.edits, head);
    this.enlarged.element.querySelector('h2').textContent =
      `${KINDS[head.kind]?.[0] ?? head.kind}, layer ${head.layer}, head ${head.head}${off ? ' (off)' : ''}`;
    this.switch.textContent = off ? 'Switch this head on' : 'Switch this head off';
    this.switch.onclick = () => this.go(writeEdits(toggleHead(this.edits, head)));
    const { source, target, weights } = head;
    const isLong = source.length > MANY || target.length > MANY;
    const part = isLong ? partOf({ sourceTokens: source, tokens: target, row: (index) => weights[index] }) : null;
    this.enlarged.update({ alignment: part ?? { source, target, weights, unit: 'tokens' }, whole: weights });
  }

  go(changes) {
    address.change(changes, { push: true });
    return this.update(address.read().values).catch(this.context.fail);
  }
}
