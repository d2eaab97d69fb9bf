/**
 * A search tree that fits its place: laid out for the steps so far, in as much detail as has room, enlarged or reduced,
 * and scrolled to the end of its leading path.
 */

import { h, replace } from '../dom.js';
import { measured, searchTree } from '../figures/search_tree.js';
import { DETAILS } from '../tree_layout.js';
import { scrollable } from './panel.js';

/** How far a tree is enlarged or reduced to fit by itself: labels stay readable; one that does not fit is scrolled. */
const [SMALLEST, LARGEST, SCROLLED] = [0.6, 2, 0.85];
const STEP = 1.25;
/** How much larger than a part of it a place has to be for more detail. */
const ROOM = 1.15;
/** The part of the window's height that a tree may take, also in present mode. */
const [HEIGHT, HEIGHT_PRESENTED] = [0.55, 0.68];

export class TreeFigure {
  /** @param {string} label of the part that scrolls */
  constructor(label) {
    this.figure = h('div', { class: 'figure' });
    this.element = scrollable(label, this.figure);
    this.element.classList.add('tall');
    /** A factor that the person has chosen; `fit`: as large as fits, however small; `auto`: as far as it is readable. */
    this.zoom = 'auto';
    const button = (name, text, action) =>
      h('button', { type: 'button', class: 'quiet', 'aria-label': name, title: name, on: { click: action } }, text);
    this.tools = h(
      'span',
      { class: 'choice', role: 'group', 'aria-label': 'Size of the tree' },
      button('Smaller', '−', () => this.scale(this.factor / STEP)),
      button('Larger', '+', () => this.scale(this.factor * STEP)),
      button('Fit the whole tree', 'Fit', () => this.scale('fit')),
    );
    this.factor = 1;
  }

  get svg() {
    return this.figure.querySelector('svg');
  }

  clear() {
    replace(this.figure);
  }

  /**
   * @param {import('../search_run.js').SearchRun} run
   * @param {Object} options those of `searchTree`
   */
  show(run, options) {
    const hadFocus = this.figure.contains(document.activeElement);
    const tree = searchTree(run, { ...options, detail: this.detail(run, options) });
    this.size = [tree.getAttribute('width'), tree.getAttribute('height')].map(Number);
    replace(this.figure, tree);
    this.fit();
    if (hadFocus) this.figure.querySelector('[tabindex="0"]')?.focus({ preventScroll: true });
    const end = tree.querySelector('[tabindex="0"] .target');
    const x = end ? Number(end.getAttribute('x')) + Number(end.getAttribute('width')) : this.size[0];
    this.element.scrollLeft = x * this.factor - this.element.clientWidth;
  }

  /** As much detail as there is room for; of a tree that is too wide in any case, as the height has room for. */
  detail(run, options) {
    const sizes = DETAILS.map((detail) => measured(run, { ...options, detail }).size);
    const [width, height] = [(this.element.clientWidth || innerWidth) / ROOM, mostHeight() / ROOM];
    const fits = sizes.findIndex((size) => size[0] <= width && size[1] <= height);
    const isLow = (size, index) => !DETAILS[index].shares && size[1] <= height;
    return DETAILS[fits >= 0 ? fits : sizes.findIndex(isLow)] ?? DETAILS.at(-1);
  }

  scale(zoom) {
    this.zoom = zoom === 'fit' ? zoom : Math.min(Math.max(zoom, 0.2), 4);
    this.fit();
  }

  fit() {
    const { svg } = this;
    if (!svg) return;
    const [width, height] = this.size;
    const whole = Math.min(this.element.clientWidth / width, mostHeight() / height) || 1;
    const readable = whole < SMALLEST ? SCROLLED : Math.min(whole, LARGEST);
    const factors = { auto: readable, fit: Math.min(whole, LARGEST) };
    this.factor = factors[this.zoom] ?? this.zoom;
    svg.setAttribute('width', Math.floor(width * this.factor));
    svg.setAttribute('height', Math.floor(height * this.factor));
  }
}

/** Pixels that a tree may be high. */
function mostHeight() {
  const isPresented = document.documentElement.classList.contains('presenting');
  return innerHeight * (isPresented ? HEIGHT_PRESENTED : HEIGHT);
}
