/**
 * The tree of a search: every branch that was kept, cut or finished, and the path of the best hypothesis.
 *
 * For a keyboard and a screen reader it is a tree: the arrow keys lead to the next and the previous token and to the
 * alternatives, Enter continues from a branch.
 */

import { arrowKeys, s, unit } from '../dom.js';
import { number, percent, plural, shorten, visible } from '../labels.js';
import { path } from '../search_run.js';
import { DETAILS, layout } from '../tree_layout.js';

const LONGEST_LABEL = 14;
/** The width of a probability beside a token, and of the number of branches that are not drawn, in sizes of the text. */
const [SHARE_WIDTH, COUNT_WIDTH] = [3.6, 1.7];
const [ROW_HEIGHT, TOP, BOTTOM] = [1.55, 2.4, 0.6];
const OUTCOMES = { kept: 'kept', finished: 'finished', pruned: 'cut' };

/**
 * The width and the height of the tree that `searchTree` draws of the same, and where it draws it.
 * @returns {{size: [number, number], edges: number[], placed: Map, root: Node, first: number}}
 */
export function measured(run, options) {
  const em = unit();
  const { placed, rows, root, first } = layout(run, options);
  const shown = [...placed.keys()];
  const last = first + Math.max(...shown.map(({ step }) => step - first));
  const edges = columnEdges(shown, placed, { first, last, em, shares: (options.detail ?? DETAILS[1]).shares });
  return { size: [edges.at(-1) + em, em * (TOP + BOTTOM + ROW_HEIGHT * rows)].map(Math.ceil), edges, placed, root, first };
}

/**
 * @param {import('../search_run.js').SearchRun} run
 * @param {Object} options
 * @param {number} options.steps how many steps to show
 * @param {Object} [options.detail] one of `DETAILS`
 * @param {boolean} options.everything every cut branch
 * @param {import('../search_run.js').Node[]} options.leader the path to emphasize
 * @param {(node: import('../search_run.js').Node) => void} options.choose
 * @returns {SVGSVGElement}
 */
export function searchTree(run, { steps, everything, leader, choose, detail = DETAILS[1] }) {
  const em = unit();
  const { size, edges, placed, root, first } = measured(run, { steps, leader, everything, detail });
  const shown = [...placed.keys()];
  const at = (node) => ({ x: edges[node.step - first], y: em * (TOP + ROW_HEIGHT * placed.get(node).row) });
  const onPath = new Set(leader);
  const isOnPath = (node) => node === root || onPath.has(node);
  const depth = (node) => (isOnPath(node) ? 2 : Number(node.branch.outcome !== 'pruned'));
  const lines = shown
    .filter((node) => node !== root)
    .sort((a, b) => depth(a) - depth(b))
    .map((node) => edge(at(placed.has(node.parent) ? node.parent : root), at(node), node, isOnPath(node), em));
  const last = leader.at(-1);
  const nodes = shown.map((node) =>
    item(node, at(node), {
      em,
      isRoot: node === root,
      isNew: node.step === steps,
      isOnPath: isOnPath(node),
      isBest: node === last && run.translation && steps >= run.length,
      hidden: placed.get(node).hidden,
      hasShare: detail.shares,
      choose,
    }),
  );
  const headings = edges
    .slice(1, -1)
    .map((x, index) => s('text', { x, y: em * 0.8, class: 'step', 'text-anchor': 'middle' }, first + index + 1));
  const tree = s(
    'svg',
    {
      class: 'tree',
      role: 'tree',
      'aria-label': `Search tree, ${first ? `steps ${first + 1} to ${steps}` : `${steps}`} of ${run.length} steps`,
      viewBox: `0 0 ${size[0]} ${size[1]}`,
      width: size[0],
      height: size[1],
    },
    s('g', { 'aria-hidden': 'true' }, headings, lines),
    nodes,
  );
  const items = new Map(shown.map((node, index) => [node, nodes[index]]));
  const byItem = new Map(shown.map((node, index) => [nodes[index], node]));
  (items.get(last) ?? nodes[0])?.setAttribute('tabindex', '0');
  arrowKeys(tree, (element, key) => items.get(neighbor(byItem.get(element), key, (node) => items.has(node))));
  return tree;
}

/** The x of each step from the one before the first that is drawn, as far apart as its longest label needs. */
function columnEdges(shown, placed, { first, last, em, shares }) {
  const widths = Array.from({ length: last - first + 1 }, () => 0);
  for (const node of shown) {
    const longest = Math.max(Math.min([...visible(node.token)].length, LONGEST_LABEL), 2);
    const beside = (placed.get(node).hidden ? COUNT_WIDTH : 0) + (shares ? SHARE_WIDTH : 0);
    const width = node.step === first ? 2.4 : 2.8 + 0.6 * longest + beside;
    widths[node.step - first] = Math.max(widths[node.step - first], width);
  }
  return widths.reduce((edges, width) => [...edges, edges.at(-1) + em * width], [em * 1.2]);
}

function edge(from, to, node, isOnPath, em) {
  const [trunk, r] = [to.x - em * 1.1, em * 0.5];
  const d =
    from.y === to.y
      ? `M${from.x} ${from.y} H${to.x}`
      : `M${from.x} ${from.y} H${trunk - r} Q${trunk} ${from.y} ${trunk} ${from.y + r} V${to.y - r} Q${trunk} ${to.y} ${trunk + r} ${to.y} H${to.x}`;
  return s('path', { class: `edge ${node.branch.outcome} ${isOnPath ? 'best' : ''}`, d });
}

function item(node, { x, y }, { em, isRoot, isNew, isOnPath, isBest, hidden, hasShare, choose }) {
  if (isRoot)
    return s(
      'g',
      { role: 'treeitem', 'aria-label': node.step ? `After step ${node.step}` : 'Start', 'aria-level': 1, tabindex: '-1', class: 'node root' },
      s('circle', { cx: x, cy: y, r: em * 0.35 }),
    );
  const { branch } = node;
  const label = visible(node.token);
  const log = `log p ${number(branch.total)}`;
  const name = `Step ${node.step}, ${label}: ${OUTCOMES[branch.outcome]}, ${percent(Math.exp(branch.log_probability))} here, ${log} so far${branch.outcome === 'finished' ? `, score ${number(branch.score)}` : ''}${isBest ? ', the winner' : ''}${hidden ? `; ${plural(hidden, 'cut branch', 'cut branches')} after it not drawn` : ''}. Go on from here`;
  const go = () => choose(node);
  return s(
    'g',
    {
      role: 'treeitem',
      'aria-label': name,
      'aria-level': node.step + 1,
      tabindex: '-1',
      class: `node ${branch.outcome} ${isOnPath ? 'best' : ''} ${isNew ? 'new' : ''}`,
      on: {
        click: go,
        keydown: (event) => {
          if (event.key === 'Enter' || event.key === ' ') {
            event.preventDefault();
            go();
          }
        },
      },
    },
    s('title', {}, name),
    s('rect', {
      class: 'target',
      x: x + em * 0.4,
      y: y - em * 0.7,
      width: em * (0.6 + 0.6 * Math.min([...label].length, LONGEST_LABEL) + (hidden ? COUNT_WIDTH : 0) + (hasShare ? SHARE_WIDTH : 0)),
      height: em * 1.4,
      rx: em * 0.3,
    }),
    mark(branch.outcome, x, y, em * 0.32),
    s(
      'text',
      { x: x + em * 0.55, y, 'dominant-baseline': 'central' },
      shorten(label, LONGEST_LABEL),
      hasShare ? s('tspan', { class: 'share', dx: em * 0.4 }, percent(Math.exp(branch.log_probability))) : null,
      hidden ? s('tspan', { class: 'hidden-count', dx: em * 0.3 }, `+${hidden}`) : null,
    ),
    isBest ? s('text', { x: x - em * 0.1, y: y - em * 0.9, class: 'crown', 'text-anchor': 'middle' }, '★') : null,
  );
}

/** A circle was kept, a square finished, a cross was cut: shapes that need no color. */
function mark(outcome, x, y, r) {
  if (outcome === 'kept') return s('circle', { cx: x, cy: y, r });
  if (outcome === 'finished') return s('rect', { x: x - r, y: y - r, width: 2 * r, height: 2 * r, class: 'square' });
  return s('path', {
    class: 'cross',
    d: `M${x - r} ${y - r} L${x + r} ${y + r} M${x + r} ${y - r} L${x - r} ${y + r}`,
  });
}

/** Where the arrow keys lead in a tree. */
function neighbor(node, key, isShown) {
  const siblings = (node.parent?.children ?? []).filter(isShown);
  const index = siblings.indexOf(node);
  const children = node.children.filter(isShown);
  const main = children.find((child) => child.isWinner) ?? children[0];
  return {
    ArrowLeft: node.parent,
    ArrowRight: main,
    ArrowDown: siblings[index + 1],
    ArrowUp: siblings[index - 1],
    Home: path(node)[0],
  }[key];
}
