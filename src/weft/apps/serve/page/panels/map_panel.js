/** The attention map of the output so far, with a table behind it. */

import { h, replace } from '../dom.js';
import { attentionMap, weightTable } from '../figures/attention_map.js';
import { panel, scrollable } from './panel.js';

const HELP =
  'Each row is an output word, each column a source word; the stronger the color, the more the model looked there. ' +
  'Arrow keys move from cell to cell.';

/** More columns than these are given the whole width. */
const MANY = 18;

export class MapPanel {
  /** @param {{highlight: Object, title?: string, name?: string, help?: string}} context */
  constructor({ highlight, title = 'Where the model looks', name = 'attention', help = HELP }) {
    this.highlight = highlight;
    this.figure = h('div', { class: 'figure' });
    this.table = h('div');
    this.note = h('p', { class: 'hint' });
    this.element = panel(
      title,
      {
        help,
        figure: () => this.figure.querySelector('svg'),
        name,
      },
      this.note,
      scrollable(title, this.figure),
      this.table,
    );
  }

  update({ alignment, differing = [] }) {
    const { source, target, weights, unit } = alignment;
    this.element.classList.toggle('wide', source.length > MANY);
    const isEmpty = !weights || !target.length;
    this.note.textContent = !isEmpty
      ? ''
      : target.length
        ? 'This model has no attention to show.'
        : 'Nothing has been translated yet.';
    this.note.hidden = !isEmpty;
    if (isEmpty) {
      replace(this.table);
      return replace(this.figure);
    }
    const data = {
      source,
      target,
      weights,
      label: `Attention of ${target.length} output ${unit} over ${source.length} source ${unit}`,
    };
    const isOpen = this.table.querySelector('details')?.open;
    replace(
      this.figure,
      attentionMap(data, { width: this.figure.parentElement.clientWidth || 520, differing, highlight: this.highlight }),
    );
    const table = weightTable(data);
    replace(this.table, table);
    if (isOpen) table.open = true;
    return undefined;
  }
}
