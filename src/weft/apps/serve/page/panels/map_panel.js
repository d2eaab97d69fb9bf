/** The attention map of the output so far, with a table behind it. */

import { h, replace, uniqueId } from '../dom.js';
import { attentionMap, weightTable } from '../figures/attention_map.js';
import { heat, pooled } from '../figures/heat.js';
import { count } from '../labels.js';
import { panel, scrollable } from './panel.js';

const HELP =
  'Each row is an output word, each column a source word; the stronger the color, the more the model looked there. ' +
  'Arrow keys move from cell to cell.';

/** More columns than these are given the whole width. */
const MANY = 18;

export class MapPanel {
  /**
   * @param {{highlight: Object, title?: string, name?: string, help?: string, pickHead?: (head: string|null) => void}}
   *   context pickHead: shows another head of a Transformer
   */
  constructor({ highlight, title = 'Where the model looks', name = 'attention', help = HELP, pickHead = null }) {
    this.highlight = highlight;
    const id = uniqueId('heads');
    this.select = h('select', { id, on: { change: () => pickHead(this.select.value || null) } });
    this.heads = h('p', { class: 'heads-choice', hidden: true }, h('label', { for: id }, 'Heads of the map'), this.select);
    this.figure = h('div', { class: 'figure' });
    this.table = h('div');
    this.note = h('p', { class: 'hint' });
    this.overview = h('figure', { class: 'overview', hidden: true });
    this.element = panel(
      title,
      {
        help,
        figure: () => this.figure.querySelector('svg'),
        name,
      },
      this.heads,
      this.note,
      this.overview,
      scrollable(`${title}: the map`, this.figure),
      this.table,
    );
  }

  update({ alignment: shown, differing = [], run = null, steps = 0, model = null, head = null, ofHead = null, whole = null }) {
    const alignment = ofHead ?? shown;
    this.showChoice(model, head);
    const isOver = run?.translation && steps >= run.length;
    this.showOverview(alignment.part, whole ?? (isOver ? run.translation.attention : null));
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

  /** Which heads of a Transformer the map shows, and the others to choose from. */
  showChoice(model, head) {
    const text = model?.shown_heads;
    this.heads.hidden = !text;
    if (!text) return;
    const [layers, count] = model.heads_of.cross;
    const names = Array.from({ length: layers * count }, (_, index) => [Math.floor(index / count) + 1, (index % count) + 1]);
    replace(
      this.select,
      h('option', { value: '' }, `Cross-attention: ${text}`),
      names.map(([layer, number]) => h('option', { value: `${layer}.${number}` }, `Layer ${layer}, head ${number}`)),
    );
    this.select.value = head ?? '';
  }

  /** The whole map as pixels, where only a part of it is drawn as cells; made once for each output. */
  showOverview(part, whole) {
    this.overview.hidden = !part || !whole;
    if (this.overview.hidden || this.overviewOf === whole) return;
    this.overviewOf = whole;
    const [rows, columns] = [whole.length, whole[0].length];
    const text = `All ${count(rows)} × ${count(columns)} weights, output from top to bottom, source from left to right; below, the last rows as cells`;
    replace(this.overview, heat(pooled(whole), { label: text }), h('figcaption', { class: 'hint' }, `${text}.`));
  }
}
