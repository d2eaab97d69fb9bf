/** One sentence by two models: both outputs with their differences marked, both maps, both search trees. */

import * as address from '../address.js';
import { alignmentOf, wordsAreUseful } from '../alignment.js';
import * as api from '../api.js';
import { differences, marked } from '../difference.js';
import { h, replace } from '../dom.js';
import { Highlight } from '../highlight.js';
import { number } from '../labels.js';
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
    this.element = h(
      'div',
      { class: 'view', hidden: true },
      this.verdict,
      h(
        'div',
        { class: 'two' },
        this.columns.map(({ element }) => element),
      ),
      this.columns.map(({ treePanel }) => treePanel), // below each other: a tree needs the width
    );
  }

  async update(sides, text) {
    const runs = await Promise.all(sides.map((side) => search(side, text, this.context)));
    const [a, b] = runs.map((run) => run.translation);
    const texts = marked(a.text, b.text);
    this.element.hidden = false;
    const same = a.text === b.text;
    this.verdict.textContent = same
      ? 'Both give the same output.'
      : 'The outputs differ; what only one of them has is marked.';
    const alignments = runs.map((run) =>
      alignmentOf(run, run.length, wordsAreUseful(run.translation) ? 'words' : 'tokens'),
    );
    const differing = differences(alignments[0].target, alignments[1].target);
    this.columns.forEach((column, index) => {
      const goOn = (prefix) =>
        address.open('translate', { model: sides[index].model.name, text, prefix: prefix.join('.') });
      column.show(runs[index], { text: texts[index], alignment: alignments[index], differing: differing[index], goOn });
    });
    this.context.announce(this.verdict.textContent);
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

  show(run, { text, alignment, differing, goOn }) {
    const { score, log_probability: log, length } = run.translation;
    replace(
      this.output,
      h('p', { class: 'output' }, text),
      h('p', { class: 'hint' }, `Score ${number(score, 3)}, log p ${number(log, 3)}, length ${length}`),
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
    const leader = run.leader(run.length);
    this.tree.show(run, { steps: run.length, everything: false, leader, choose });
  }
}
