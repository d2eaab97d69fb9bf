/** The search tree as it grows; a click on a branch continues from there. */

import { h, uniqueId } from '../dom.js';
import { path } from '../search_run.js';
import { firstStep } from '../tree_layout.js';
import { panel } from './panel.js';
import { TreeFigure } from './tree_figure.js';

export class TreePanel {
  /** @param {{force: (ids: number[]) => void}} actions */
  constructor({ force }) {
    this.force = force;
    this.scene = null;
    this.tree = new TreeFigure('Search tree');
    const id = uniqueId('everything');
    this.everything = h('input', { type: 'checkbox', id, on: { change: () => this.update(this.scene) } });
    this.note = h('p', { class: 'hint' });
    this.element = panel(
      'The search tree',
      {
        class: 'wide',
        figure: () => this.tree.svg,
        name: 'search-tree',
        help: 'Every branch that the search considered. Click one, or press Enter on it, to continue from there.',
        tools: [
          h('span', { class: 'check' }, this.everything, h('label', { for: id }, 'All cut branches')),
          this.tree.tools,
        ],
      },
      h(
        'p',
        { class: 'legend' },
        ['● kept', '× cut', '■ finished', '★ winner', '+3 more cut'].map((text) => h('span', {}, text)),
      ),
      this.note,
      this.tree.element,
    );
  }

  update(scene) {
    this.scene = scene;
    const { run, steps } = scene;
    this.element.hidden = run.length === 0;
    if (!run.length) return this.tree.clear();
    const first = firstStep(run, steps);
    this.note.textContent = first
      ? `The last ${steps - first} steps; move the step to see earlier ones.`
      : steps
        ? ''
        : 'Nothing yet.';
    return this.tree.show(run, {
      steps,
      leader: run.leader(steps),
      everything: this.everything.checked,
      choose: (node) =>
        this.force(
          path(node)
            .filter(({ branch }) => branch.outcome !== 'finished')
            .map(({ id }) => id),
        ),
    });
  }
}
