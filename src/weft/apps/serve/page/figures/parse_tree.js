/**
 * The tree of an output that is one, such as (S (NP he) (VP sleeps)): words side by side at the bottom, each label over
 * the middle of its parts. `parse` and `place` do what weft.evaluation.brackets and weft.pictures.parse_tree do.
 */

import { s, unit } from '../dom.js';
import { visible } from '../labels.js';

const MAX_DEPTH = 200;
/** In sizes of the text: between neighbors, from row to row, and from the middle of a text to the end of a line. */
const [GAP, ROW, HALF] = [1, 3, 0.8];

/**
 * @param {string} text
 * @returns {{label: string, children: Array}|null} the tree; null if the text is none
 */
export function parse(text) {
  const root = { label: '', children: [] };
  const stack = [root];
  for (const token of text.match(/\(\s*[^\s()]*|\)|[^\s()]+/g) ?? []) {
    if (token.startsWith('(')) {
      if (stack.length > MAX_DEPTH) return null;
      const node = { label: token.slice(1).trim(), children: [] };
      stack.at(-1).children.push(node);
      stack.push(node);
    } else if (token === ')') {
      if (stack.length === 1 || !stack.pop().children.length) return null;
    } else if (stack.length === 1) return null;
    else stack.at(-1).children.push(token);
  }
  return stack.length === 1 && root.children.length === 1 ? root.children[0] : null;
}

const isWord = (node) => typeof node === 'string';

function depth(node) {
  return isWord(node) ? 0 : 1 + Math.max(...node.children.map(depth));
}

/** The width of a node with all that is below it. */
function needed(node, widthOf) {
  if (isWord(node)) return widthOf(node);
  const children = node.children.reduce((sum, child) => sum + needed(child, widthOf), GAP * (node.children.length - 1));
  return Math.max(widthOf(node.label), children);
}

/** All nodes with their positions, parents first: {text, isWord, x, row, parent}. */
export function place(tree, widthOf) {
  const bottom = depth(tree);
  const placed = [];
  const visit = (node, left, row, parent) => {
    const width = needed(node, widthOf);
    if (isWord(node)) {
      placed.push({ text: node, isWord: true, x: left + width / 2, row: bottom, parent });
      return;
    }
    const widths = node.children.map((child) => needed(child, widthOf));
    const total = widths.reduce((sum, value) => sum + value, GAP * (widths.length - 1));
    const index = placed.push({ text: node.label, isWord: false, x: left + width / 2, row, parent }) - 1;
    let x = left + (width - total) / 2;
    node.children.forEach((child, at) => {
      visit(child, x, row + 1, index);
      x += widths[at] + GAP;
    });
  };
  visit(tree, 0, 0, -1);
  return placed;
}

/** @returns {SVGSVGElement} */
export function parseTree(tree, text) {
  const em = unit();
  const widthOf = (label) => 0.62 * [...visible(label)].length;
  const nodes = place(tree, widthOf);
  const size = [needed(tree, widthOf) + 2, ROW * depth(tree) + 3].map((value) => Math.ceil(em * value));
  const at = ({ x, row }) => [em * (1 + x), em * (1.5 + ROW * row)];
  const lines = nodes
    .filter(({ parent }) => parent >= 0)
    .map((node) => {
      const [[fromX, fromY], [x, y]] = [at(nodes[node.parent]), at(node)];
      const d = `M${fromX} ${fromY + em * HALF} L${x} ${fromY + em * (ROW - HALF)} V${y - em * HALF}`;
      return s('path', { class: 'edge', d });
    });
  const texts = nodes.map((node) => {
    const [x, y] = at(node);
    return s(
      'text',
      { x, y, class: node.isWord ? 'word' : 'label', 'text-anchor': 'middle', 'dominant-baseline': 'central' },
      visible(node.text),
    );
  });
  return s(
    'svg',
    { class: 'parse', role: 'img', 'aria-label': `Tree: ${text}`, viewBox: `0 0 ${size[0]} ${size[1]}`, width: size[0], height: size[1] },
    lines,
    texts,
  );
}
