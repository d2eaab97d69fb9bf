/**
 * Source and output as text, with links between their words.
 *
 * Pointing at a word, or reaching it with the keyboard, lights up the words it belongs to on the other side; a click
 * keeps them lit. The links are drawn behind the text, where the words are, and drawn anew when lines break elsewhere.
 */

import { arrowKeys, h, replace, s } from '../dom.js';
import { direction, percent, shorten, visible } from '../labels.js';
import { END } from '../search_run.js';

const MENTIONED = 3;

export class WordLinks {
  /** @param {import('../highlight.js').Highlight} highlight */
  constructor(highlight) {
    this.highlight = highlight;
    this.alignment = null;
    this.pinned = null;
    this.curves = s('svg', { class: 'links', 'aria-hidden': 'true' });
    this.source = h('ol', { class: 'words source', 'aria-label': 'Source words' });
    this.target = h('ol', { class: 'words target', 'aria-label': 'Output words' });
    this.sentence = h('p', { class: 'pointed', 'aria-live': 'polite' });
    this.element = h('div', { class: 'word-links' }, this.curves, this.source, this.target);
    for (const list of [this.source, this.target]) {
      highlight.follow(list);
      arrowKeys(list, (item, key) => {
        const step = { ArrowRight: 1, ArrowLeft: -1 }[key] * (direction(list.textContent) === 'rtl' ? -1 : 1);
        return step
          ? item.closest('li')[step > 0 ? 'nextElementSibling' : 'previousElementSibling']?.firstElementChild
          : null;
      });
    }
    highlight.listen((pointed) =>
      this.light(pointed.source === null && pointed.target === null ? this.pinned : pointed),
    );
    new ResizeObserver(() => this.drawCurves()).observe(this.element);
  }

  /** @param {import('../alignment.js').Alignment} alignment */
  show(alignment, { blocked = new Set(), sources = [] } = {}) {
    this.alignment = alignment;
    this.pinned = null;
    const reading = direction(sources.join(' ') || alignment.source.join(' '));
    this.source.setAttribute('dir', reading);
    this.target.setAttribute('dir', direction(alignment.target.join(' ')));
    replace(
      this.source,
      alignment.source.map((word, index) =>
        this.word(word, 'source', index, {
          class: alignment.sourceTokens[index].some((token) => blocked.has(token)) ? 'blocked' : '',
        }),
      ),
    );
    replace(
      this.target,
      alignment.target.map((word, index) => this.word(word, 'target', index, this.copiedMark(index))),
    );
    this.light(null);
    this.drawCurves();
  }

  copiedMark(index) {
    const copied = this.alignment.copied?.[index];
    if (!copied) return {};
    const note = `${percent(copied.share)} copied, g = ${copied.gate.toFixed(2)}`;
    return { class: copied.share >= 0.5 ? 'copied' : '', note };
  }

  word(word, side, index, { class: kind = '', note = '' }) {
    const button = h(
      'button',
      {
        type: 'button',
        class: `word ${kind}`,
        [`data-${side}`]: index,
        tabindex: index === 0 ? '0' : '-1',
        'aria-pressed': 'false',
        title: note || (word === END ? 'end of the sentence' : null),
        on: { click: () => this.pin(side, index) },
      },
      visible(word),
      kind === 'blocked' ? h('span', { class: 'unseen' }, ' (blocked)') : null,
      note && kind === 'copied' ? h('span', { class: 'unseen' }, ` (${note})`) : null,
    );
    return h('li', {}, button);
  }

  /** Keep a word lit, or let go of it. */
  pin(side, index) {
    const isPinned = this.pinned?.[side] === index;
    this.pinned = isPinned ? null : { source: null, target: null, [side]: index };
    for (const button of this.element.querySelectorAll('button.word')) {
      button.setAttribute('aria-pressed', String(!isPinned && Number(button.dataset[side] ?? -1) === index));
    }
    this.light(this.pinned);
  }

  /** @param {import('../highlight.js').Pointed|null} pointed */
  light(pointed) {
    const { weights } = this.alignment ?? {};
    const strength = (side, index) => {
      if (!pointed || !weights) return 0;
      if (side === 'source') return pointed.target === null ? 0 : (weights[pointed.target]?.[index] ?? 0);
      return pointed.source === null ? 0 : (weights[index]?.[pointed.source] ?? 0);
    };
    for (const [side, list] of [
      ['source', this.source],
      ['target', this.target],
    ]) {
      list.querySelectorAll('button.word').forEach((button, index) => {
        const isPointed = pointed?.[side] === index;
        const weight = strength(side, index);
        button.classList.toggle('lit', isPointed || weight >= 0.1);
        button.classList.toggle('pointed-at', isPointed);
        button.style.setProperty('--strength', isPointed ? 0 : weight.toFixed(3));
      });
    }
    this.element.classList.toggle('pointing', Boolean(pointed));
    for (const curve of this.curves.children) {
      const [source, target] = [Number(curve.dataset.source), Number(curve.dataset.target)];
      const isLit = pointed && (pointed.target === target || pointed.source === source);
      curve.classList.toggle('lit', Boolean(isLit));
      curve.classList.toggle('weak', !curve.dataset.link);
    }
    this.sentence.textContent = this.describe(pointed);
  }

  /** The pointed word in a sentence: “entarté” comes from pie (83 %), hit (9 %). */
  describe(pointed) {
    const { weights, source, target, copied } = this.alignment ?? {};
    if (!pointed || !weights) return '';
    const [from, to] = [pointed.source, pointed.target];
    if (from !== null && to !== null)
      return weights[to]?.[from] === undefined
        ? ''
        : `“${visible(target[to])}” looks at “${visible(source[from])}” with a weight of ${percent(weights[to][from])}`;
    const listed = (values, names) =>
      values
        .map((weight, index) => ({ weight, name: visible(names[index]) }))
        .filter(({ weight }) => weight >= 0.01)
        .sort((a, b) => b.weight - a.weight)
        .slice(0, MENTIONED)
        .map(({ weight, name }) => `${name} (${percent(weight)})`)
        .join(', ');
    if (to !== null) {
      if (!weights[to]) return '';
      const note = copied?.[to] ? `; ${percent(copied[to].share)} copied, g = ${copied[to].gate.toFixed(2)}` : '';
      return `“${visible(target[to])}” looks at ${listed(weights[to], source)}${note}`;
    }
    return `“${visible(source[from])}” is looked at by ${
      listed(
        weights.map((row) => row[from]),
        target,
      ) || 'no word'
    }`;
  }

  drawCurves() {
    const box = this.element.getBoundingClientRect();
    if (!this.alignment?.weights || !box.width) return replace(this.curves);
    this.curves.setAttribute('viewBox', `0 0 ${box.width} ${box.height}`);
    this.element.classList.toggle('wrapped', [this.source, this.target].some(hasSeveralLines));
    const isLink = new Set(this.alignment.links.map(([source, target]) => `${source}-${target}`));
    const middle = (button) => {
      const { left, width, top, bottom } = button.getBoundingClientRect();
      return { x: left - box.left + width / 2, top: top - box.top, bottom: bottom - box.top };
    };
    const sources = [...this.source.querySelectorAll('button.word')].map(middle);
    const targets = [...this.target.querySelectorAll('button.word')].map(middle);
    const drawn = this.alignment.weights.flatMap((row, target) =>
      row.flatMap((weight, source) => {
        const link = isLink.has(`${source}-${target}`);
        return weight >= 0.1 || link ? [{ source, target, weight, link }] : [];
      }),
    );
    return replace(
      this.curves,
      drawn
        .filter(({ source, target }) => sources[source] && targets[target])
        .map(({ source, target, weight, link }) => {
          const [from, to] = [sources[source], targets[target]];
          const bend = (to.top - from.bottom) / 2;
          return s('path', {
            class: link ? 'link' : 'link weak',
            'data-source': source,
            'data-target': target,
            'data-link': link || null,
            'stroke-width': (0.6 + 3 * weight).toFixed(2),
            d: `M${from.x} ${from.bottom} C${from.x} ${from.bottom + bend} ${to.x} ${to.top - bend} ${to.x} ${to.top}`,
          });
        }),
    );
  }

  /** A picture of what is on the screen. */
  picture() {
    const box = this.element.getBoundingClientRect();
    const picture = s(
      'svg',
      { viewBox: `0 0 ${Math.ceil(box.width)} ${Math.ceil(box.height)}`, class: 'word-picture' },
      [...this.curves.children].map((curve) => curve.cloneNode(true)),
      [...this.element.querySelectorAll('button.word')].map((button) => {
        const { left, top, width, height } = button.getBoundingClientRect();
        return s(
          'text',
          {
            x: left - box.left + width / 2,
            y: top - box.top + height / 2,
            'text-anchor': 'middle',
            'dominant-baseline': 'central',
            class: 'label',
          },
          shorten(button.firstChild.textContent, 40),
        );
      }),
    );
    return picture;
  }
}

function hasSeveralLines(list) {
  return list.children.length > 1 && list.lastChild.offsetTop > list.firstChild.offsetTop;
}
