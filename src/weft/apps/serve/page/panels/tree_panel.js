/** The search tree as it grows; a click on a branch continues from there. */

import { h, replace, uniqueId } from '../dom.js';
import { searchTree } from '../figures/search_tree.js';
import { path } from '../search_run.js';
import { panel, scrollable } from './panel.js';

export class TreePanel {
  /** @param {{force: (ids: number[]) => void}} actions */
  constructor({ force }) {
    this.force = force;
    this.scene = null;
    this.figure = h('div', { class: 'figure' });
    const id = uniqueId('everything');
    this.everything = h('input', { type: 'checkbox', id, on: { change: () => this.update(this.scene) } });
    this.scroll = scrollable('Search tree', this.figure);
    this.scroll.classList.add('tall');
    this.element = panel(
      'The search tree',
      {
        class: 'wide',
        figure: () => this.figure.querySelector('svg'),
        name: 'search-tree',
        help: 'Every branch that the search considered. Click one, or press Enter on it, to continue from there.',
        tools: [h('span', { class: 'check' }, this.everything, h('label', { for: id }, 'All cut branches'))],
      },
      h(
        'p',
        { class: 'legend' },
        ['● kept', '× cut', '■ finished', '★ winner'].map((text) => h('span', {}, text)),
      ),
      this.scroll,
    );
  }

  update(scene) {
    this.scene = scene;
    const { run, steps } = scene;
    this.element.hidden = run.length === 0;
    if (!run.length) return replace(this.figure);
    const hadFocus = this.figure.contains(document.activeElement);
    const leader = run.leader(steps);
    replace(
      this.figure,
      searchTree(run, {
        steps,
        leader,
        everything: this.everything.checked,
        choose: (node) => {
          if (node.step)
            this.force(
              path(node)
                .filter(({ branch }) => branch.outcome !== 'finished')
                .map(({ id }) => id),
            );
        },
      }),
    );
    if (hadFocus) this.figure.querySelector('[tabindex="0"]')?.focus();
    return this.follow(leader.at(-1)?.step ?? 0, run.length);
  }

  /** Keep the newest step in sight. */
  follow(step, total) {
    const { scrollWidth, clientWidth } = this.scroll;
    if (scrollWidth > clientWidth)
      this.scroll.scrollLeft = Math.max(0, scrollWidth * (step / Math.max(total, 1)) - clientWidth * 0.7);
  }
}
