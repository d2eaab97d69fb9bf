/**
 * The sampling filters, as in weft.search.sampling_filters, in its order: temperature, top-k, top-p, min-p, typical,
 * each applied to what those before it kept. Here they draw the cut through a distribution before anything is sampled.
 */

/**
 * @typedef {{log_probability: number}} Candidate sorted, the most likely first
 * @typedef {{probabilities: number[], kept: boolean[], mass: number}} Cut probabilities after the temperature
 */

/**
 * @param {Candidate[]} candidates
 * @param {{count: number, probability: number}} rest the tokens that are not listed
 * @param {{temperature: number, top_k: number, top_p: number, min_p: number, typical: number}} filter
 * @returns {Cut}
 */
export function cut(candidates, rest, filter) {
  const { probabilities, unlisted } = tempered(candidates, rest, filter.temperature);
  let kept = probabilities.map(() => true);
  const complete = rest.count === 0;
  if (filter.top_k > 0 && filter.top_k < probabilities.length) {
    const least = probabilities[filter.top_k - 1];
    kept = probabilities.map((probability) => probability >= least);
  }
  const limited = filter.top_k > 0 && filter.top_k <= probabilities.length;
  const outside = () => (limited || kept.some((one) => !one) ? 0 : unlisted);
  if (filter.top_p < 1)
    kept = holding(
      filter.top_p,
      probabilities,
      kept,
      outside(),
      probabilities.map((p) => -p),
    );
  if (filter.min_p > 0) {
    const least = filter.min_p * Math.max(...probabilities.filter((_, index) => kept[index]));
    kept = kept.map((one, index) => one && probabilities[index] >= least);
  }
  if (filter.typical < 1) {
    const tail = complete || kept.some((one) => !one) ? 0 : unlisted;
    const total = sum(probabilities.filter((_, index) => kept[index])) + tail;
    const surprisal = probabilities.map((p) => -Math.log(p / total));
    const entropy = sum(probabilities.map((p, index) => (kept[index] ? (p / total) * surprisal[index] : 0)));
    kept = holding(
      filter.typical,
      probabilities,
      kept,
      tail,
      surprisal.map((bits) => Math.abs(bits - entropy)),
    );
  }
  const mass = sum(probabilities.filter((_, index) => kept[index]));
  return { probabilities, kept, mass };
}

/** p ∝ exp(log p / T), with the unlisted tokens taken to be equally likely. */
function tempered(candidates, rest, temperature) {
  const top = candidates[0].log_probability;
  const weights = candidates.map((one) => Math.exp((one.log_probability - top) / temperature));
  const each = rest.count ? Math.max(rest.probability, 1e-12) / rest.count : 0;
  const tail = rest.count ? rest.count * Math.exp((Math.log(each) - top) / temperature) : 0;
  const total = sum(weights) + tail;
  return { probabilities: weights.map((weight) => weight / total), unlisted: tail / total };
}

/** The fewest tokens of lowest priority value that hold a share of what was kept, ties together. */
function holding(share, probabilities, kept, unlisted, priority) {
  const indices = probabilities.map((_, index) => index).filter((index) => kept[index]);
  const total = sum(indices.map((index) => probabilities[index])) + unlisted;
  const order = [...indices].sort((a, b) => priority[a] - priority[b]);
  let held = 0;
  let last = order.length - 1;
  for (let place = 0; place < order.length; place += 1) {
    held += probabilities[order[place]] / total;
    if (held >= share - 1e-12) {
      last = place;
      break;
    }
  }
  const bound = priority[order[last]];
  return kept.map((one, index) => one && priority[index] <= bound);
}

function sum(values) {
  return values.reduce((total, value) => total + value, 0);
}
