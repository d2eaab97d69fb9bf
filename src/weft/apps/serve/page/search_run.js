/**
 * One search as it is streamed: its steps so far, and what is known at each of them.
 *
 * A beam's steps become a tree. At any moment a search has a leading hypothesis: the winner once it is known and all
 * steps are shown, before that the most likely one in the beam.
 */

/**
 * @typedef {{token: string, id: number, log_probability: number}} Candidate
 * @typedef {{step: number, token: string, id: number, parent: Node|null, branch: Object, children: Node[],
 *   attention: number[]|null, candidates: Candidate[], isWinner: boolean}} Node
 */

/** The name of the token that ends an output. */
export const END = '</s>';
const PATH_BRANCHES = 6;

export class SearchRun {
  constructor(request) {
    this.request = request;
    this.start = null;
    /** The nodes of each step; the root alone before the first. @type {Node[][]} */
    this.levels = [
      [
        {
          step: 0,
          token: '',
          id: -1,
          parent: null,
          branch: { outcome: 'kept', slot: 0, total: 0, score: 0 },
          children: [],
          attention: null,
          candidates: [],
          isWinner: true,
        },
      ],
    ];
    /** The distribution of each step of greedy search and sampling. */
    this.draws = [];
    this.translation = null;
    this.winner = null;
    this.seconds = null;
  }

  /** Take in one event of the stream. */
  take({ event, data }) {
    if (event === 'start') this.start = data;
    if (event === 'progress') this.seconds = data.seconds;
    if (event === 'step') this.addStep(data);
    if (event === 'done') {
      this.translation = data.translation;
      this.markWinner(data.winner);
    }
  }

  /** How many steps there are. */
  get length() {
    return this.levels.length - 1;
  }

  get isBeam() {
    return this.start?.kind === 'beam';
  }

  addStep(data) {
    const before = this.levels[this.levels.length - 1];
    const inSlot = new Map(before.filter((node) => node.branch.slot >= 0).map((node) => [node.branch.slot, node]));
    const branches = data.branches ?? pathBranches(data.draws?.[0], inSlot.get(0)?.branch.total ?? 0);
    const nodes = branches.map((branch) => {
      const parent = this.length === 0 ? before[0] : (inSlot.get(branch.parent) ?? null);
      const node = {
        step: data.step + 1,
        token: branch.token,
        id: branch.id,
        parent,
        branch,
        children: [],
        isWinner: false,
        attention: data.attention?.[branch.parent] ?? null,
        candidates: data.candidates?.[branch.parent] ?? [],
      };
      parent?.children.push(node);
      return node;
    });
    this.levels.push(nodes);
    this.draws.push(data.draws?.[0] ?? null);
  }

  markWinner(winner) {
    this.winner = winner;
    const nodes = winner
      ? winner.map((index, step) => this.levels[step + 1]?.[index])
      : this.isBeam
        ? []
        : this.levels.slice(1).map((level) => level.find((node) => node.branch.outcome !== 'pruned'));
    for (const node of nodes) if (node) node.isWinner = true;
  }

  /**
   * The leading hypothesis after some steps: its nodes, first to last.
   * @param {number} steps how many steps are shown
   * @returns {Node[]}
   */
  leader(steps) {
    const finished = this.levels
      .slice(1, steps + 1)
      .flat()
      .filter((node) => node.branch.outcome === 'finished');
    const isOver = steps >= this.length && this.translation;
    let last = isOver
      ? this.levels
          .slice(1)
          .flat()
          .filter((node) => node.isWinner)
          .at(-1)
      : null;
    const level = this.levels[Math.min(steps, this.length)] ?? [];
    const kept = level.filter((node) => node.branch.slot >= 0 && node.step > 0);
    last ??= best(kept, (node) => node.branch.total) ?? best(finished, (node) => node.branch.score);
    return last ? path(last) : [];
  }

  /** The finished hypotheses after some steps, as the search met them. */
  finished(steps) {
    return this.levels
      .slice(1, steps + 1)
      .flat()
      .filter((node) => node.branch.outcome === 'finished');
  }

  /**
   * What the model considered likely for the next token of the leading hypothesis, at a step counted from 1.
   * @param {number} step
   * @param {number} vocabulary how many tokens there are; those that are not listed have the rest of the probability
   */
  distribution(step, vocabulary) {
    const draw = this.draws[step - 1];
    if (draw)
      return {
        candidates: fromDraw(draw),
        rest: draw.rest ?? { count: 0, probability: 0 },
        chosen: draw.ids[draw.chosen],
        draw,
      };
    const nodes = this.leader(step);
    const onPath = nodes[step - 1] ?? nodes.at(-1);
    if (!onPath) return null;
    const listed = onPath.candidates.reduce((total, one) => total + Math.exp(one.log_probability), 0);
    return {
      candidates: onPath.candidates,
      rest: { count: Math.max(vocabulary - onPath.candidates.length, 0), probability: Math.max(0, 1 - listed) },
      chosen: onPath.id,
      draw: null,
    };
  }
}

/** The candidates of a draw with the model's own log p. */
function fromDraw(draw) {
  return draw.ids
    .map((id, index) => ({
      id,
      token: draw.tokens[index],
      log_probability: draw.log_probabilities?.[index] ?? Math.log(draw.probabilities[index]),
    }))
    .sort((a, b) => b.log_probability - a.log_probability);
}

/** A step of greedy search or sampling as the branches of a tree with one path; `total`: log p of the path so far. */
function pathBranches(draw, total) {
  if (!draw) return [];
  const listed = draw.ids.map((_, index) => index).filter((index) => index < PATH_BRANCHES || index === draw.chosen);
  return listed.map((index) => {
    const own = draw.log_probabilities?.[index] ?? Math.log(draw.probabilities[index]);
    const isChosen = index === draw.chosen;
    const outcome = !isChosen ? 'pruned' : draw.tokens[index] === END ? 'finished' : 'kept';
    return {
      token: draw.tokens[index],
      id: draw.ids[index],
      parent: 0,
      slot: outcome === 'kept' ? 0 : -1,
      outcome,
      log_probability: own,
      total: total + own,
      score: total + own,
    };
  });
}

/** The nodes from the first token to a node. */
export function path(node) {
  const nodes = [];
  for (let at = node; at && at.step > 0; at = at.parent) nodes.unshift(at);
  return nodes;
}

function best(nodes, value) {
  return nodes.reduce((top, node) => (top === null || value(node) > value(top) ? node : top), null);
}
