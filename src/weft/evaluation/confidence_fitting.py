"""From outputs that are known to be right or wrong to a confidence: logistic regression, then isotonic regression.

For n outputs with features x_i and a_i = 1 if output i is right, else 0:

    z_i = b + Σ_f w_f (x_if − m_f) / d_f            m, d: mean and standard deviation of each feature
    minimize  −Σ_i [t_i log σ(z_i) + (1 − t_i) log(1 − σ(z_i))] + ½ λ Σ_f w_f²        over w and b, by Newton's method
    t_i = (n₁ + 1) / (n₁ + 2) if a_i = 1, else 1 / (n₀ + 2)                           Platt 1999

n₁ outputs are right and n₀ wrong; with the targets t_i the minimum is finite even if all are right. The scores z_i that
the rest is computed from are those of outputs that the weights were not fitted to (cross-fitting with `FOLDS` folds;
outputs of a group, such as the forms of a lemma, are in the same fold):
the outputs are sorted by z_i into groups of equal size, each with the mean of its scores and the share that is right,
where each counts a few more outputs, right as often as the scores say; the shares are made non-decreasing (isotonic
regression by pooling adjacent violators, Ayer et al. 1955). Between two groups the confidence is interpolated linearly.

Nothing here knows what the features are: `weft.translation.confidence` computes them and uses the result.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from weft.errors import DataError

RIDGE = 10.0
"""λ. 1, 3 and 10 were compared by outputs that nothing was fitted to, mean AUROC of eight small models: fitted to 50 of
them 0.790, 0.799 and 0.808, to 100 0.807, 0.811 and 0.816, by cross-fitting of all 0.830 each."""
FOLDS = 5
MIN_GROUP = 10
"""Outputs of a group, at least: its share of right outputs must mean something."""
MAX_GROUPS = 25
PRIOR = 5.0
"""Outputs that a group counts beside its own. 1, 5 and 20 were compared by log loss of validation outputs that nothing
was fitted to: with 100 of them 0.446, 0.440 and 0.437, with 1,000 all 0.416 (mean of three runs)."""
MIN_DISTANCE = 1e-4
"""The least distance of the scores of two points of a curve: confidence.json has six decimals."""
MIN_OUTPUTS = 40
"""Outputs that a confidence is fitted to, at least."""
CONSTANT = 1e-6
"""The deviation up to which a feature is constant: confidence.json has six decimals, and no deviation of zero."""
STEPS = 50
"""Steps of Newton's method, at most; it needs about eight."""


class LogisticModel(NamedTuple):
    """z = bias + Σ weights · (x − means) / deviations"""

    means_F: np.ndarray
    deviations_F: np.ndarray
    weights_F: np.ndarray
    bias: float

    def scores(self, features_NF: np.ndarray) -> np.ndarray:
        scores_N: np.ndarray = (features_NF - self.means_F) / self.deviations_F @ self.weights_F + self.bias
        return scores_N


class FittedConfidence(NamedTuple):
    """A logistic model, and the curve from its scores to probabilities."""

    logistic: LogisticModel
    curve: list[tuple[float, float]]
    """(score, probability of being right): both increase."""
    scores_N: np.ndarray
    """The score of each output, by weights that were fitted to others."""

    @property
    def confidences_N(self) -> np.ndarray:
        return interpolate(self.curve, self.scores_N)


def fit_confidence(
    features_NF: np.ndarray, right_N: np.ndarray, groups_N: np.ndarray | None = None
) -> FittedConfidence:
    """Fit a confidence to outputs in random order; at least `MIN_OUTPUTS`.

    ``groups_N``: the number of the group of each output, from 0, in random order, at least `FOLDS`; None: each output
    is its own.
    """
    if len(features_NF) != len(right_N) or len(right_N) < MIN_OUTPUTS:
        counts = f"{len(features_NF)} outputs and {len(right_N)} outcomes"
        raise DataError(f"confidence: {counts}; expected as many of both, at least {MIN_OUTPUTS}")
    scores_N = np.empty(len(right_N))
    folds_N = (np.arange(len(right_N)) if groups_N is None else groups_N) % FOLDS
    for fold in range(FOLDS):
        held_out = folds_N == fold
        scores_N[held_out] = fit_logistic(features_NF[~held_out], right_N[~held_out]).scores(features_NF[held_out])
    return FittedConfidence(fit_logistic(features_NF, right_N), fit_curve(scores_N, right_N), scores_N)


def fit_logistic(features_NF: np.ndarray, right_N: np.ndarray, *, ridge: float = RIDGE) -> LogisticModel:
    """Logistic regression with Platt's targets and an L2 penalty on the weights; ``ridge``: λ."""
    right_N = np.asarray(right_N, dtype=bool)
    means_F, deviations_F = features_NF.mean(0), features_NF.std(0)
    deviations_F = np.where(deviations_F > CONSTANT, deviations_F, 1.0)  # a constant feature has weight 0
    inputs_ND = np.column_stack([(features_NF - means_F) / deviations_F, np.ones(len(right_N))])
    positives = int(right_N.sum())
    negatives = len(right_N) - positives
    targets_N = np.where(right_N, (positives + 1) / (positives + 2), 1 / (negatives + 2))
    penalty_D = np.append(np.full(features_NF.shape[1], ridge), 0.0)
    weights_D = np.zeros(inputs_ND.shape[1])
    for _ in range(STEPS):
        predictions_N = sigmoid(inputs_ND @ weights_D)
        gradient_D = inputs_ND.T @ (targets_N - predictions_N) - penalty_D * weights_D
        slopes_N = np.maximum(predictions_N * (1 - predictions_N), 1e-9)
        step_D = np.linalg.solve((inputs_ND * slopes_N[:, None]).T @ inputs_ND + np.diag(penalty_D), gradient_D)
        weights_D += step_D * min(1.0, 4.0 / max(float(np.abs(step_D).max()), 1e-12))  # no step farther than 4
        if np.abs(step_D).max() < 1e-10:
            break
    return LogisticModel(means_F, deviations_F, weights_D[:-1], float(weights_D[-1]))


def fit_curve(scores_N: np.ndarray, right_N: np.ndarray) -> list[tuple[float, float]]:
    """The curve from scores to probabilities, non-decreasing.

    Each group counts `PRIOR` more outputs, right with the probability that their scores say: the fewer outputs it has,
    the closer it is to the logistic model, and without a wrong output it has no confidence of 1.
    """
    order_N = np.argsort(scores_N, kind="stable")
    groups = np.array_split(order_N, max(1, min(MAX_GROUPS, len(order_N) // MIN_GROUP)))
    scores = [float(scores_N[group].mean()) for group in groups]
    shares = [
        (float(right_N[group].sum()) + PRIOR * float(sigmoid(scores_N[group]).mean())) / (len(group) + PRIOR)
        for group in groups
    ]
    shares = isotonic(shares, [len(group) for group in groups])
    curve: list[tuple[float, float]] = []
    for score, share in zip(scores, shares, strict=True):
        if not curve or score - curve[-1][0] >= MIN_DISTANCE:
            curve.append((score, share))
    return curve


def isotonic(values: Sequence[float], weights: Sequence[float]) -> list[float]:
    """The non-decreasing sequence with the smallest weighted sum of squared distances from the values.

    Neighbors in the wrong order are replaced by their weighted mean until there are none.
    """
    pools: list[tuple[float, float, int]] = []  # mean, weight, length
    for value, weight in zip(values, weights, strict=True):
        mean, total, length = float(value), float(weight), 1
        while pools and pools[-1][0] >= mean:
            previous, previous_weight, previous_length = pools.pop()
            mean = (previous * previous_weight + mean * total) / (previous_weight + total)
            total, length = total + previous_weight, length + previous_length
        pools.append((mean, total, length))
    return [mean for mean, _, length in pools for _ in range(length)]


def interpolate(curve: Sequence[tuple[float, float]], scores_N: np.ndarray) -> np.ndarray:
    """The probabilities of scores: linear between two points of a curve, constant outside."""
    xs, ys = zip(*curve, strict=True)
    probabilities_N: np.ndarray = np.interp(scores_N, xs, ys)
    return probabilities_N


def sigmoid(scores_N: np.ndarray) -> np.ndarray:
    """σ(z) = 1 / (1 + exp(−z))"""
    probabilities_N: np.ndarray = 1 / (1 + np.exp(-np.clip(scores_N, -700, 700)))
    return probabilities_N


def auroc(confidences_N: np.ndarray, right_N: np.ndarray) -> float | None:
    """The probability that a right output has a higher confidence than a wrong one, ties counted half.

    AUROC = (Σ ranks of the right − n₁ (n₁ + 1) / 2) / (n₁ n₀), with the mean rank of ties; None if n₁ or n₀ is 0.
    """
    right_N = np.asarray(right_N, dtype=bool)
    positives = int(right_N.sum())
    negatives = len(right_N) - positives
    if not positives or not negatives:
        return None
    return float((mean_ranks(confidences_N)[right_N].sum() - positives * (positives + 1) / 2) / (positives * negatives))


def mean_ranks(values_N: np.ndarray) -> np.ndarray:
    """The rank of each value, from 1; equal values have the mean of their ranks."""
    _, inverse_N, counts = np.unique(values_N, return_inverse=True, return_counts=True)
    last = np.cumsum(counts)
    ranks_N: np.ndarray = ((last - counts + 1 + last) / 2)[inverse_N]
    return ranks_N
