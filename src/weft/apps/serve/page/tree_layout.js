/**
 * Where the nodes of a search tree stand: steps from left to right, alternatives below each other.
 *
 * Only what the search has done so far is laid out, so that a tree of one step fills the place of one step. The main
 * child of a node stands straight beside it: the one on the leading path or, off that path, the one with the largest
 * subtree. So a chain of main children is a straight line, the leader's on top. The other children hang below their
 * parent's chain, kept ones before cut ones, those of the last nodes first, each as high as what already hangs there
 * leaves room: no two lines cross.
 */

/**
 * How much of a tree is drawn: of the pruned children of a node on the leading path and of another one how many, the
 * others being counted; whether tokens have their probabilities. The more there is to draw, the less of that has room.
 */
export const DETAILS = [
  { onPath: 6, others: 3, shares: true },
  { onPath: 3, others: 1, shares: true },
  { onPath: 2, others: 0, shares: true },
  { onPath: 3, others: 1, shares: false },
  { onPath: 2, others: 0, shares: false },
  { onPath: 1, others: 0, shares: false },
];
/** A tree with more expanded nodes is large: pruned branches are then drawn along the leading path only. */
const LARGE = 80;
/** A search of more steps is drawn in part: the last of its steps, as many as have this many expanded nodes. */
const [WHOLE, EXPANDED] = [40, 80];

/**
 * @typedef {import('./search_run.js').Node} Node
 * @typedef {{node: Node, row: number, hidden: number}} Placed hidden: pruned children that are not drawn
 */

/** The step before the first one that is drawn. */
export function firstStep(run, steps) {
  if (steps <= WHOLE) return 0;
  let [first, expanded] = [steps, 0];
  while (steps - first < WHOLE && expanded < EXPANDED) {
    expanded += run.levels[first].filter(isGrown).length;
    first -= 1;
  }
  return first;
}

/**
 * @param {import('./search_run.js').SearchRun} run
 * @param {{steps: number, leader?: Node[], everything?: boolean, detail?: Object}} options steps: how many there are so
 *   far; everything: every pruned branch; detail: one of `DETAILS`
 * @returns {{placed: Map<Node, Placed>, rows: number, root: Node, first: number}} root: the start, or where the drawn
 *   steps are the last of many, a node in its place; first: the step before the first one that is drawn
 */
export function layout(run, { steps, leader = [], everything = false, detail = DETAILS[1] }) {
  const first = firstStep(run, steps);
  const levels = run.levels.slice(first, steps + 1);
  const root = first ? { ...levels[0][0], step: first, parent: null, children: levels[1] ?? [] } : levels[0][0];
  const onPath = new Set(leader);
  const isShown = (node) => node.step <= steps;
  const sizes = new Map();
  const grown = levels.slice(1).flat().filter(isGrown);
  for (const node of [...grown].reverse()) {
    sizes.set(
      node,
      node.children.filter((child) => isShown(child) && isGrown(child)).reduce((sum, child) => sum + sizes.get(child), 1),
    );
  }
  const isLarge = grown.length > LARGE;
  const drawn = (node) => {
    const children = node.children.filter(isShown);
    const kept = children
      .filter(isGrown)
      .sort((a, b) => onPath.has(b) - onPath.has(a) || sizes.get(b) - sizes.get(a));
    const pruned = children.filter((child) => !isGrown(child));
    const isLeading = node === root || onPath.has(node);
    const count = everything ? pruned.length : isLeading ? detail.onPath : isLarge ? 0 : detail.others;
    return { children: [...kept, ...pruned.slice(0, count)], hidden: Math.max(pruned.length - count, 0) };
  };
  const { nodes, bottom } = subtree(root, drawn);
  const placed = new Map(nodes.map((one) => [one.node, one]));
  return { placed, rows: 1 + Math.max(...bottom.values()), root, first };
}

function isGrown(node) {
  return node.branch.outcome !== 'pruned';
}

/**
 * The nodes of a subtree, its root in row 0, with the first and the last row that it takes at each step.
 * @returns {{nodes: Placed[], top: Map<number, number>, bottom: Map<number, number>}}
 */
function subtree(root, drawn) {
  const chain = [];
  for (let node = root; node; node = chain.at(-1).children[0]) chain.push({ node, ...drawn(node) });
  const nodes = chain.map(({ node, hidden }) => ({ node, row: 0, hidden }));
  const top = new Map(chain.map(({ node }) => [node.step, 0]));
  const bottom = new Map(top);
  for (const { children } of chain.reverse()) {
    for (const child of children.slice(1)) {
      const part = subtree(child, drawn);
      const shift = Math.max(1, ...[...part.top].map(([step, row]) => (bottom.get(step) ?? -1) + 1 - row));
      nodes.push(...part.nodes.map((one) => ({ ...one, row: one.row + shift })));
      for (const [step, row] of part.bottom) bottom.set(step, Math.max(bottom.get(step) ?? -1, row + shift));
      for (const [step, row] of part.top) top.set(step, Math.min(top.get(step) ?? Infinity, row + shift));
    }
  }
  return { nodes, top, bottom };
}
