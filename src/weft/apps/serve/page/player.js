/**
 * Plays the steps of a search: pause, one step, slower. With reduced motion nothing plays automatically.
 */

import { h, replace, s, uniqueId } from './dom.js';

const LONGEST_SHOW = 8_000;
/** The outlines of the buttons' symbols, in a square of 16. */
const ICONS = {
  start: 'M14 3v10L9 8zM9 3v10L4 8zM2 3h1.6v10H2z',
  back: 'M12.6 3v10l-6-5zM3.4 3H5v10H3.4z',
  play: 'M4 2.5v11L13 8z',
  pause: 'M4 3h3v10H4zM9 3h3v10H9z',
  step: 'M3.4 3v10l6-5zM11 3h1.6v10H11z',
  end: 'M2 3v10l5-5zM7 3v10l5-5zM12.4 3H14v10h-1.6z',
};

export class Player {
  /** @param {(steps: number) => void} show called with the number of steps to show */
  constructor(show) {
    this.show = show;
    this.steps = 0;
    this.total = 0;
    this.timer = 0;
    const button = (label, symbol, action) =>
      h('button', { type: 'button', 'aria-label': label, title: label, on: { click: action } }, icon(symbol));
    this.playButton = button('Play', 'play', () => this.toggle());
    this.slider = h('input', {
      type: 'range',
      min: 0,
      max: 0,
      value: 0,
      'aria-label': 'Step of the search',
      on: {
        input: () => {
          this.pause();
          this.go(Number(this.slider.value));
        },
      },
    });
    this.position = h('output', { class: 'position' }, '');
    const speed = uniqueId('speed');
    this.speed = h('input', {
      id: speed,
      type: 'range',
      min: -2,
      max: 3,
      step: 0.5,
      value: 1,
      on: { input: () => this.describeSpeed() },
    });
    this.speedText = h('output', { for: speed });
    this.element = h(
      'div',
      { class: 'player', role: 'group', 'aria-label': 'Step by step' },
      button('To the start', 'start', () => {
        this.pause();
        this.go(0);
      }),
      button('One step back', 'back', () => {
        this.pause();
        this.go(this.steps - 1);
      }),
      this.playButton,
      button('One step on', 'step', () => {
        this.pause();
        this.go(this.steps + 1);
      }),
      button('To the end', 'end', () => {
        this.pause();
        this.go(this.total);
      }),
      this.slider,
      this.position,
      h('span', { class: 'speed' }, h('label', { for: speed }, 'Speed'), this.speed, this.speedText),
    );
    this.describeSpeed();
  }

  get isPlaying() {
    return this.timer !== 0;
  }

  /** Milliseconds that a step is shown; a long output is not played for minutes unless slowed down. */
  get interval() {
    const wanted = 1000 / 2 ** Number(this.speed.value);
    return Number(this.speed.value) < 1 ? wanted : Math.min(wanted, LONGEST_SHOW / Math.max(this.total, 1));
  }

  describeSpeed() {
    const value = 2 ** Number(this.speed.value);
    this.speedText.textContent = `${Number(value.toFixed(value < 1 ? 2 : 1))} steps/s`;
    this.speed.setAttribute('aria-valuetext', this.speedText.textContent.replace('/', ' per '));
  }

  /** How many steps are known; they may grow while a search runs. */
  setTotal(total) {
    this.total = total;
    this.slider.max = total;
    this.describe();
  }

  /** Begin with the first step. */
  start() {
    this.pause();
    this.go(0);
    this.play();
  }

  toggle() {
    if (this.isPlaying) return this.pause();
    if (this.steps >= this.total) this.go(0);
    return this.play();
  }

  play() {
    this.timer = setTimeout(() => this.tick(), this.interval);
    this.label('Pause', 'pause');
  }

  tick() {
    if (this.steps < this.total) this.go(this.steps + 1);
    if (this.steps >= this.total && !this.isWaiting) return this.pause();
    this.timer = setTimeout(() => this.tick(), this.interval);
    return undefined;
  }

  pause() {
    clearTimeout(this.timer);
    this.timer = 0;
    this.label('Play', 'play');
  }

  label(name, symbol) {
    this.playButton.setAttribute('aria-label', name);
    this.playButton.title = name;
    replace(this.playButton, icon(symbol));
  }

  go(steps) {
    this.steps = Math.min(Math.max(steps, 0), this.total);
    this.describe();
    this.show(this.steps);
  }

  describe() {
    this.slider.value = this.steps;
    this.position.textContent = this.total ? `step ${this.steps} of ${this.total}` : '';
    this.slider.setAttribute('aria-valuetext', this.position.textContent);
  }
}

function icon(name) {
  return s('svg', { class: 'icon', viewBox: '0 0 16 16', 'aria-hidden': 'true' }, s('path', { d: ICONS[name] }));
}
