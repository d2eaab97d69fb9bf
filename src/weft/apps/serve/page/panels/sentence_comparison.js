/**
 * One sentence by two models: both outputs with their differences marked, both maps, both search trees, at the same step
 * of both searches.
 */

import * as address from '../address.js';
import { alignmentOf, wordsAreUseful } from '../alignment.js';
import * as api from '../api.js';
import { differences, marked } from '../difference.js';
import { debounce, h, replace } from '../dom.js';
import { Highlight } from '../highlight.js';
import { direction, number } from '../labels.js';
import { Player } from '../player.js';
import { path, SearchRun } from '../search_run.js';
import { LONG_TEXT, sent } from '../search_settings.js';
import { MapPanel } from './map_panel.js';
import { panel } from './panel.js';
import { TreeFigure } from './tree_figure.js';

export class SentenceComparison {
  constructor(context) {
    this.context = context;
    this.verdict = h('p', { class: 'verdict', role: 'status' });
    this.columns = ['A', 'B'].map((name) => new Column(name));
    this.player = new Player((steps) => this.showStep(steps));
    this.resize = debounce(200, () => this.runs && this.showStep(this.player.steps));
    addEventListener('resize', this.resize);
    this.element = h(
      'div',
      { class: 'view', hidden: true },
      this.verdict,
      this.player.element,
      h(
        'div',
        { class: 'two' },
        this.columns.map(({ element }) => element),
      ),
      this.columns.map(({ treePanel }) => treePanel), // below each other: a tree needs the width
    );
  }

  close() {
    this.player.pause();
    removeEventListener('resize', this.resize);
  }

  /** @param {number|null} step that is shown; null: the last one of both */
  async update(sides, text, step) {
    const asked = JSON.stringify([sides.map(({ model, search: settings }) => [model.name, settings]), text]);
    if (asked !== this.asked) {
      this.player.pause();
      this.runs = await Promise.all(sides.map((side) => search(side, text, this.context)));
      Object.assign(this, { asked, sides, text });
      const [a, b] = this.runs.map((run) => run.translation.text);
      this.verdict.textContent =
        a === b ? 'Both give the same output.' : 'The outputs differ; what only one of them has is marked.';
      this.context.announce(this.verdict.textContent);
    }
    this.element.hidden = false;
    this.player.setTotal(Math.max(...this.runs.map((run) => run.length)));
    this.player.element.hidden = !this.player.total;
    this.player.go(step ?? this.player.total);
  }

  showStep(steps) {
    if (!this.player.isPlaying) address.change({ step: steps < this.player.total ? steps : null });
    const { runs, sides, text } = this;
    const texts = marked(...runs.map((run) => run.translation.text));
    const alignments = runs.map((run) =>
      alignmentOf(run, Math.min(steps, run.length), wordsAreUseful(run.translation) ? 'words' : 'tokens'),
    );
    const differing = differences(alignments[0].target, alignments[1].target);
    this.columns.forEach((column, index) => {
      const goOn = (prefix) =>
        address.open('translate', { model: sides[index].model.name, text, prefix: prefix.join('.') });
      const shown = { steps, text: texts[index], alignment: alignments[index], differing: differing[index], goOn };
      column.show(runs[index], shown);
    });
  }
}

/** A whole search. */
async function search({ model, search: settings }, text, { settings: described, limits }) {
  const isShort = text.length <= LONG_TEXT; // the attention of several outputs for a longer one would be too much
  const count = isShort ? Math.min(settings.kind === 'beam' ? settings.size : 1, limits.n_best ?? 1) : 1;
  const run = new SearchRun({});
  for await (const event of api.translateStream({
    model: model.name,
    text,
    search: sent(settings, described),
    n_best: count,
  })) {
    if (event.event === 'error') throw new Error(event.data.error);
    run.take(event);
  }
  return run;
}

/** What one side shows. */
class Column {
  constructor(name) {
    this.output = h('div', { class: 'outputs' });
    this.map = new MapPanel({
      highlight: new Highlight(),
      title: `${name}: where it looked`,
      name: `attention-${name}`,
    });
    this.tree = new TreeFigure(`${name}: search tree, to scroll`);
    this.treePanel = panel(
      `${name}: search tree`,
      { figure: () => this.tree.svg, name: `search-tree-${name}`, tools: [this.tree.tools] },
      this.tree.element,
    );
    this.element = h(
      'div',
      { class: 'view' },
      panel(`${name}: output`, {}, this.output),
      this.map.element,
    );
  }

  show(run, { steps, text, alignment, differing, goOn }) {
    const { score, log_probability: log, length } = run.translation;
    const isOver = steps >= run.length;
    const soFar = alignment.target.join(alignment.unit === 'words' ? ' ' : '\u2009');
    replace(
      this.output,
      h('p', { class: `output ${isOver ? '' : 'growing'}`, dir: direction(isOver ? run.translation.text : soFar) }, isOver ? text : soFar),
      isOver ? h('p', { class: 'hint' }, `Score ${number(score, 3)}, log p ${number(log, 3)}, length ${length}`) : null,
    );
    this.map.update({ alignment, differing });
    this.treePanel.hidden = !run.length;
    if (!run.length) return;
    const choose = (node) =>
      goOn(
        path(node)
          .filter(({ branch }) => branch.outcome !== 'finished')
          .map(({ id }) => id),
      );
    const shown = Math.min(steps, run.length);
    this.tree.show(run, { steps: shown, everything: false, leader: run.leader(shown), choose });
  }
}
