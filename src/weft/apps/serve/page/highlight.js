/**
 * One word lights up everywhere: figures mark what belongs to the source word or the output word that is pointed at.
 *
 * Elements carry `data-source` and `data-target`, the numbers of the words they stand for. A cell of a map has both.
 */

/** @typedef {{source: number|null, target: number|null}} Pointed */

export class Highlight {
  constructor() {
    /** @type {Set<(pointed: Pointed) => void>} */
    this.listeners = new Set();
    this.pointed = { source: null, target: null };
  }

  /** @param {(pointed: Pointed) => void} listener */
  listen(listener) {
    this.listeners.add(listener);
    return () => this.listeners.delete(listener);
  }

  /** @param {Partial<Pointed>} pointed */
  point({ source = null, target = null } = {}) {
    if (source === this.pointed.source && target === this.pointed.target) return;
    this.pointed = { source, target };
    for (const listener of this.listeners) listener(this.pointed);
  }

  /** Follow the pointer and the focus over the marked elements of a figure. */
  follow(container) {
    const read = (event) => {
      const item = event.target.closest?.('[data-source], [data-target]');
      if (!item || !container.contains(item)) return {};
      const at = (name) => (item.dataset[name] === undefined ? null : Number(item.dataset[name]));
      return { source: at('source'), target: at('target') };
    };
    container.addEventListener('pointerover', (event) => this.point(read(event)));
    container.addEventListener('focusin', (event) => this.point(read(event)));
    container.addEventListener('pointerleave', () => this.point());
    container.addEventListener('focusout', () => this.point());
  }
}
