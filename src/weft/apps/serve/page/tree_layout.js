/**
 * Where the nodes of a search tree stand: steps from left to right, alternatives below each other.
 *
 * The main child of a node stands straight beside it: the one on the winner's path or, off that path, the one with the
 * largest subtree. So a chain of main children is a straight line, the winner's on top. The other children hang below
 * their parent's chain, those of the last nodes first, each as high as what already hangs there leaves room: no two
 * lines cross.
 */

/** Of a node's pruned children, those that are drawn; the others are counted. */
const PRUNED = 3;
/** A tree with more expanded nodes is large: pruned branches are then drawn along the winner's path only. */
const LARGE = 80;

/**
 * @typedef {import('./search_run.js').Node} Node
 * @typedef {{node: Node, row: number, hidden: number}} Placed hidden: pruned children that are not drawn
 */

/**
 * @param {import('./search_run.js').SearchRun} run
 * @param {{everything?: boolean}} [options] everything: every pruned branch
 * @returns {{placed: Map<Node, Placed>, rows: number}}
 */
export function layout(run, { everything = false } = {}) {
  const isLarge = run.levels.flat().filter(isGrown).length > LARGE;
  const sizes = new Map();
  for (const node of run.levels.flat().reverse()) {
    sizes.set(
      node,
      node.children.filter(isGrown).reduce((total, child) => total + sizes.get(child), 1),
    );
  }
  const drawn = (node) => {
    const grown = node.children.filter(isGrown).sort((a, b) => b.isWinner - a.isWinner || sizes.get(b) - sizes.get(a));
    const pruned = node.children.filter((child) => !isGrown(child));
    const most = everything ? pruned.length : isLarge && !node.isWinner ? 0 : PRUNED;
    return { children: [...grown, ...pruned.slice(0, most)], hidden: Math.max(pruned.length - most, 0) };
  };
  const { nodes, bottom } = subtree(run.levels[0][0], drawn);
  return { placed: new Map(nodes.map((one) => [one.node, one])), rows: 1 + Math.max(...bottom.values()) };
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
