/**
 * What hypotheses are ranked by, as in weft.search.ranking:
 *
 *     power   log p / length^α        gnmt   log p / ((5 + length) / 6)^α        none   log p
 *
 * and + β · coverage with a coverage penalty β. The length counts the end token.
 */

/** What log p is divided by. */
export function lengthTerm(length, { normalization, length_penalty: alpha }) {
  if (normalization === 'power') return Math.max(length, 1) ** alpha;
  return normalization === 'gnmt' ? ((5 + length) / 6) ** alpha : 1;
}

/** The score of a hypothesis under some search settings. */
export function score({ log_probability, length, coverage }, search) {
  const penalty = search.coverage_penalty ? search.coverage_penalty * (coverage ?? 0) : 0;
  return log_probability / lengthTerm(length, search) + penalty;
}

/** Hypotheses with their scores under some search settings, best first; equal ones stay in order. */
export function rank(hypotheses, search) {
  return hypotheses
    .map((hypothesis) => ({
      hypothesis,
      score: score(hypothesis, search),
      term: lengthTerm(hypothesis.length, search),
    }))
    .sort((a, b) => b.score - a.score);
}
