/**
 * Picture: drop a picture (or frames, or sound) and see what the model reads, and token by token from where.
 */

import * as address from '../address.js';
import * as api from '../api.js';
import { h, reducedMotion, replace, uniqueId } from '../dom.js';
import { pictureAttention } from '../figures/picture_attention.js';
import { count, direction, number, percent, shorten, visible } from '../labels.js';
import { formula } from '../mathml.js';
import { panel, scrollable } from '../panels/panel.js';
import { Player } from '../player.js';

/** What a file chooser offers, by what the model reads. */
const ACCEPTED = { picture: 'image/*,.pgm,.tif,.tiff', frames: '.npy,.wav,audio/wav' };
const NOUNS = { picture: 'picture', frames: 'file of frames or sound' };
/** Bytes of a file, where the service names no limit. */
const MOST_BYTES = 2e6;
/** Characters of base64 for three bytes, and what else a request holds. */
const [BASE64, REST] = [4 / 3, 2_000];
const OUTPUTS = 4;
/** Pixels of the screen: how high a low picture is drawn, and how high and wide a large one is at most. */
const [LOWEST, HIGHEST, LONGEST] = [120, 480, 4_000];

export default class PictureView {
  constructor(context) {
    this.context = context;
    const [model, file] = [uniqueId('model'), uniqueId('file')];
    this.select = h('select', { id: model, on: { change: () => this.pick(this.select.value) } });
    this.about = h('p', { class: 'hint' });
    this.file = h('input', { type: 'file', id: file, class: 'unseen', on: { change: () => this.read(this.file.files[0]) } });
    this.invitation = h('span');
    this.preview = h('img', { alt: '', hidden: true });
    this.drop = h('label', { for: file, class: 'drop' }, this.preview, this.invitation);
    this.player = new Player((steps) => this.showStep(steps));
    this.output = h('div', { class: 'output', role: 'region', 'aria-label': 'Output' });
    this.status = h('p', { class: 'hint', role: 'status' });
    this.tokens = h('div', { class: 'words', role: 'group', 'aria-label': 'Tokens' });
    this.figure = h('div', { class: 'figure' });
    this.pointed = h('p', { class: 'pointed hint' });
    this.looks = panel(
      'Where the model looks',
      {
        help: 'Each token of the output was read from the colored part; the stronger the color, the larger its weight.',
        figure: () => this.figure.querySelector('svg'),
        name: 'attention',
      },
      this.player.element,
      this.tokens,
      this.pointed,
      scrollable('The picture with the attention of a token', this.figure),
    );
    this.others = h('table', { class: 'ranking' });
    this.ranked = panel('Outputs by score', {}, this.others);
    this.reads = panel('What it reads', {}, this.output, this.status);
    this.results = h('div', { class: 'view', hidden: true }, this.reads, this.looks, this.ranked);
    const form = h(
      'div',
      { class: 'picture-form' },
      h('div', {}, this.file, this.drop),
      h('div', { class: 'field model' }, h('label', { for: model }, 'Model'), this.select, this.about),
    );
    this.element = h('div', { class: 'view picture' }, form, this.results);
    this.listeners = {
      dragover: (event) => this.over(event, true),
      dragleave: (event) => this.over(event, false),
      drop: (event) => this.dropped(event),
      paste: (event) => this.pasted(event),
    };
    for (const [name, listener] of Object.entries(this.listeners)) addEventListener(name, listener);
  }

  close() {
    this.abort?.abort();
    this.player.pause();
    for (const [name, listener] of Object.entries(this.listeners)) removeEventListener(name, listener);
  }

  /** @param {Object<string, string>} values of the address */
  async update(values) {
    const { readers } = this.context;
    const chosen = readers.find(({ name }) => name === values.model) ?? readers.find(({ state }) => state === 'ready') ?? readers[0];
    if (!chosen) throw new Error('No model of this service reads pictures.');
    const isOther = this.model && this.model.name !== chosen.name;
    this.model = chosen;
    replace(
      this.select,
      readers.map(({ name, title }) => h('option', { value: name }, title && title !== name ? `${name}: ${shorten(title, 60)}` : name)),
    );
    this.select.value = chosen.name;
    this.about.textContent = chosen.description ?? '';
    this.file.setAttribute('accept', ACCEPTED[chosen.reads]);
    this.invitation.textContent = `Drop a ${NOUNS[chosen.reads]} here, paste one, or choose a file.`;
    if (isOther && this.source) await this.translate();
  }

  pick(model) {
    address.change({ model }, { push: true });
    this.update(address.read().values).catch(this.context.fail);
  }

  over(event, isOver) {
    if (!event.dataTransfer?.types.includes('Files')) return;
    event.preventDefault();
    this.drop.classList.toggle('over', isOver);
  }

  dropped(event) {
    this.over(event, false);
    this.read(event.dataTransfer?.files[0]);
  }

  pasted(event) {
    const [file] = event.clipboardData?.files ?? [];
    if (!file) return;
    event.preventDefault();
    this.read(file);
  }

  async read(file) {
    if (!file) return;
    this.context.fail(null);
    this.player.pause();
    this.results.hidden = true;
    try {
      const most = Math.floor(((this.context.limits.body_bytes ?? MOST_BYTES) - REST) / BASE64);
      if (file.size > most) {
        const advice = 'Send a smaller one, or use weft translate.';
        throw new Error(`${file.name} has ${count(file.size)} bytes; at most ${count(most)} are accepted. ${advice}`);
      }
      this.source = await dataUrl(file);
      this.preview.hidden = !file.type.startsWith('image/') || file.type === 'image/tiff';
      if (!this.preview.hidden) this.preview.src = this.source;
      this.invitation.textContent = `${file.name}: drop or choose another one.`;
      await this.translate();
    } catch (error) {
      this.context.fail(error);
    }
    this.file.value = '';
  }

  async translate() {
    this.abort?.abort();
    this.abort = new AbortController();
    await this.context.ready(this.model);
    const { kind, size } = this.model.search;
    const body = { model: this.model.name, text: this.source, attention: true, n_best: kind === 'beam' ? Math.min(size, OUTPUTS) : 1 };
    const start = performance.now();
    const { translations } = await api.translate(body, this.abort.signal);
    [this.record] = translations;
    this.show((performance.now() - start) / 1000);
  }

  show(seconds) {
    const { record } = this;
    this.results.hidden = false;
    replace(this.output, shown(record));
    const facts = [`log p ${number(record.log_probability)}`, `${seconds.toFixed(1)} s`];
    if (record.ended === 'length') facts.push('cut off at the length limit');
    if (record.mathml) facts.unshift(record.text);
    this.status.textContent = facts.join(' · ');
    this.context.announce(record.text ? `It reads: ${record.text}` : 'It reads nothing.');
    this.looks.hidden = !record.picture;
    this.ranked.hidden = !record.alternatives.length;
    replace(this.others, [record, ...record.alternatives].map(ranking));
    if (!record.picture) return;
    const { width, height } = record.picture;
    this.scale = Math.min(Math.max(LOWEST / height, Math.min(HIGHEST / height, 1)), LONGEST / width);
    replace(
      this.tokens,
      record.tokens.map((token, index) =>
        h('button', { type: 'button', class: 'word', on: { click: () => this.choose(index + 1) } }, visible(token)),
      ),
    );
    this.player.setTotal(record.tokens.length);
    if (reducedMotion()) this.player.go(record.tokens.length);
    else this.player.start();
  }

  choose(step) {
    this.player.pause();
    this.player.go(step);
  }

  /** The attention of the last token of the first so many. */
  showStep(steps) {
    if (!this.record?.picture) return;
    const { tokens, attention, picture, token_scores: scores } = this.record;
    const weights = steps ? attention[steps - 1] : null;
    const token = steps ? visible(tokens[steps - 1]) : '';
    const label = steps ? `The picture; ${token} was read from the colored part` : 'The picture';
    replace(this.figure, pictureAttention(picture, weights, { label, scale: this.scale }));
    [...this.tokens.children].forEach((button, index) => {
      button.classList.toggle('lit', index === steps - 1);
      button.setAttribute('aria-pressed', String(index === steps - 1));
    });
    const peak = weights ? Math.max(...weights) : 0;
    this.pointed.textContent = steps
      ? `${token}: p ${percent(Math.exp(scores[steps - 1]))}, largest weight ${number(peak)}`
      : 'Nothing has been read yet.';
    const box = this.figure.parentElement;
    if (!weights || box.scrollWidth <= box.clientWidth) return;
    const column = weights.indexOf(peak) % picture.columns;
    box.scrollLeft = (column + 0.5) * picture.cell[1] * this.scale - box.clientWidth / 2;
  }
}

/** An output: a formula, if it is one. */
function shown({ text, mathml }) {
  const math = mathml ? formula(mathml, text) : null;
  return math ?? h('bdi', { dir: direction(text) }, text || '∅');
}

function ranking(record) {
  return h('tr', {}, h('th', { scope: 'row' }, shown(record)), h('td', { class: 'number' }, number(record.score, 3)));
}

/** The bytes of a file as a data URL; of a kind that the browser does not know, too. */
function dataUrl(file) {
  return new Promise((resolve, reject) => {
    const reader = new FileReader();
    reader.addEventListener('load', () => resolve(reader.result));
    reader.addEventListener('error', () => reject(new Error(`${file.name} cannot be read.`)));
    reader.readAsDataURL(file);
  });
}
