/** The output as a tree, if it is one: parsing as a sequence. */

import { h, replace } from '../dom.js';
import { parse, parseTree } from '../figures/parse_tree.js';
import { panel, scrollable } from './panel.js';

export class ParsePanel {
  constructor() {
    this.figure = h('div', { class: 'figure' });
    this.element = panel(
      'The tree',
      {
        help: 'The output is a tree in brackets. Each label stands over the words that it covers.',
        figure: () => this.figure.querySelector('svg'),
        name: 'tree',
      },
      scrollable('The tree: the picture', this.figure),
    );
    this.element.hidden = true;
  }

  update({ run, steps, picked }) {
    const isOver = run?.translation && steps >= run.length;
    const text = isOver ? (picked ?? run.translation).text : '';
    const tree = text.startsWith('(') ? parse(text) : null;
    this.element.hidden = !tree;
    replace(this.figure, tree ? parseTree(tree, text) : null);
  }
}
