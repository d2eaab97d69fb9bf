"""How likely a pair is damaged: classifiers that are trained on pairs that are damaged for the purpose.

No one has labeled the pairs of a corpus. But most of them are right, and wrong ones are easily made of them:

    misaligned   a source with the target of another pair
    cut          a source, or a target, that lost its end: 20 to 70 % of its words

For each of these three a logistic regression (`weft.evaluation.confidence_fitting`) tells the pairs as they are from
such damaged ones, as Bicleaner does (Sánchez-Cartagena et al. 2018). Its features are the evidence r(w) about the words
of both sides (`weft.pairs.cleaning.word_evidence`), their lengths, and the products of all of these. Of a side:

    mean, sum, share of r < 0, sum of those, mean of the last 40 %, the last, the last but one,
    and the smallest sum of an end of the side: min_j Σ_{w ≥ j} r(w)

The score is the log-odds of a damage, if `ODDS` is how often there is one for each pair that is right. A share of the
pairs as they are is wrong too: that moves the scores of all pairs, and hardly their order.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from random import Random

import numpy as np

from weft.data.pairs import Pair
from weft.evaluation.confidence_fitting import fit_logistic
from weft.pairs.cleaning.word_evidence import Judge
from weft.text.words import words

ODDS = {"misaligned": 1.0, "cut": 0.35}
"""How often there is a damage for each pair that is right, before anything is known of the pair."""
DAMAGES = tuple(ODDS)
TAIL = 0.4
"""The share of the words of a side that are its end."""
KEPT = (0.3, 0.8)
"""The share of a side that a cut leaves."""
MAX_EXAMPLES = 5_000
"""Pairs of each half that are damaged."""
RIDGE = 1.0
"""The penalty on the weights of a regression; examples are many."""
LARGEST = 4.0
"""Standard deviations from the mean that a feature counts."""


def damage_scores(
    pairs: Sequence[Pair], rows: np.ndarray, examples: np.ndarray, judge: Judge, seed: int = 1
) -> np.ndarray:
    """(rows, 2) the log-odds of each damage, for some of the pairs. ``examples``: those of them to learn from."""
    if not len(examples):
        return np.zeros((len(rows), len(DAMAGES)))
    if len(examples) > MAX_EXAMPLES:
        examples = examples[np.linspace(0, len(examples) - 1, MAX_EXAMPLES).astype(int)]
    random = Random(f"{seed} {len(rows)}")
    features_NF = np.array([features_of(pairs[row], judge) for row in rows.tolist()])
    right_EF = features_NF[np.searchsorted(rows, examples)]
    means_F, deviations_F = right_EF.mean(0), np.maximum(right_EF.std(0), 1e-9)

    def products(features_NF: np.ndarray) -> np.ndarray:
        scaled_NF = np.clip((features_NF - means_F) / deviations_F, -LARGEST, LARGEST)
        first_P, second_P = np.triu_indices(scaled_NF.shape[1])
        return np.concatenate([scaled_NF, scaled_NF[:, first_P] * scaled_NF[:, second_P]], 1)

    def log_odds(damaged: Sequence[Pair]) -> np.ndarray:
        if not damaged:
            return np.zeros(len(rows))
        wrong_DF = np.array([features_of(pair, judge) for pair in damaged])
        is_wrong_N = np.arange(len(right_EF) + len(wrong_DF)) >= len(right_EF)
        model = fit_logistic(products(np.concatenate([right_EF, wrong_DF])), is_wrong_N, ridge=RIDGE)
        return model.scores(products(features_NF)) - math.log(len(wrong_DF) / len(right_EF))

    chosen = [pairs[row] for row in examples.tolist()]
    scores = (
        log_odds(misaligned(chosen, random)),
        np.logaddexp(log_odds(cut(chosen, 0, random)), log_odds(cut(chosen, 1, random))),
    )
    return np.stack(scores, 1) + np.log(list(ODDS.values()))


def misaligned(pairs: Sequence[Pair], random: Random) -> list[Pair]:
    """Each source with the target of another pair; none where all targets are equal."""
    order = random.sample(range(len(pairs)), len(pairs))
    moved = [
        Pair(pairs[row].source, pairs[other].target) for row, other in zip(order, order[1:] + order[:1], strict=True)
    ]
    return [pair for row, pair in zip(order, moved, strict=True) if pair.target != pairs[row].target]


def cut(pairs: Sequence[Pair], side: int, random: Random) -> list[Pair]:
    """Each pair without the end of one side, 0 or 1; none of sides of one word."""
    damaged: list[Pair] = []
    for pair in pairs:
        text = words(pair.target if side else pair.source)
        kept = " ".join(text[: max(1, round(len(text) * random.uniform(*KEPT)))])
        if len(text) > 1:
            damaged.append(Pair(kept, pair.target) if side == 0 else Pair(pair.source, kept))
    return damaged


def features_of(pair: Pair, judge: Judge) -> list[float]:
    """The features of a pair."""
    sides = judge.evidence(pair)
    features = [value for ratios in sides for value in _side_features(ratios)]
    lengths = [math.log(len(side) + 1) for side in sides]
    characters = math.log((len(pair.target) + 3) / (len(pair.source) + 3))
    return [*features, *lengths, lengths[0] - lengths[1], characters]


def _side_features(ratios: Sequence[float]) -> list[float]:
    if not ratios:
        return [0.0] * 8
    negative = [ratio for ratio in ratios if ratio < 0]
    tail = ratios[-math.ceil(TAIL * len(ratios)) :]
    ends = np.cumsum(ratios[::-1])
    return [
        sum(ratios) / len(ratios),
        sum(ratios),
        len(negative) / len(ratios),
        sum(negative),
        sum(tail) / len(tail),
        ratios[-1],
        ratios[-2] if len(ratios) > 1 else 0.0,
        min(0.0, float(ends.min())),
    ]
