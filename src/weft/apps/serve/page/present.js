/**
 * Present mode: large type, one panel at a time. PageDown and PageUp, which presenters' remote controls send, lead to
 * the next panel and back; the arrow keys lead from step to step; Escape ends it.
 */

import { h } from './dom.js';

/** Elements that use the arrow keys themselves. */
const OWN_KEYS = 'input, select, textarea, [role=tree], [role=grid], .words';

export class Presenter {
  /**
   * @param {() => Element[]} panels those that can be shown now
   * @param {(by: number) => void} step goes some steps on
   */
  constructor(panels, step) {
    this.panels = panels;
    this.step = step;
    this.index = 0;
    this.position = h('output', {});
    const button = (text, title, action) => h('button', { type: 'button', title, on: { click: action } }, text);
    this.start = button('Present', 'Large type, one panel at a time', () => this.toggle(true));
    this.controls = h(
      'span',
      { class: 'choice', hidden: true },
      button('Back', 'PageUp', () => this.go(-1)),
      this.position,
      button('Next', 'PageDown', () => this.go(1)),
      button('End', 'Escape', () => this.toggle(false)),
    );
    this.element = h('p', { class: 'presenter' }, this.start, this.controls);
    this.listen = (event) => this.press(event);
  }

  get isOn() {
    return !this.controls.hidden;
  }

  toggle(isOn) {
    if (isOn === this.isOn) return;
    this.controls.hidden = !isOn;
    this.start.hidden = isOn;
    document.documentElement.classList.toggle('presenting', isOn);
    if (isOn) addEventListener('keydown', this.listen);
    else removeEventListener('keydown', this.listen);
    this.index = 0;
    this.show();
    dispatchEvent(new Event('resize')); // figures are drawn for the new size
    (isOn ? this.controls.lastChild : this.start).focus();
  }

  press(event) {
    if (event.ctrlKey || event.metaKey || event.altKey) return;
    const isOwn = event.target.closest?.(OWN_KEYS);
    const action = {
      PageDown: () => this.go(1),
      PageUp: () => this.go(-1),
      Escape: () => this.toggle(false),
      ...(isOwn ? {} : { ArrowRight: () => this.step(1), ArrowLeft: () => this.step(-1) }),
    }[event.key];
    if (!action) return;
    event.preventDefault();
    action();
  }

  go(by) {
    const { length } = this.panels();
    this.index = Math.min(Math.max(this.index + by, 0), Math.max(length - 1, 0));
    this.show();
    dispatchEvent(new Event('resize'));
  }

  show() {
    const panels = this.panels();
    panels.forEach((panel, index) => panel.classList.toggle('current', this.isOn && index === this.index));
    this.position.textContent = `${this.index + 1} of ${panels.length}`;
    if (this.isOn) scrollTo(0, 0);
  }
}
