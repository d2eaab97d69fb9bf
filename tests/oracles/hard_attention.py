"""Hard attention in plain Python: every alignment is written down, and their probabilities are added up."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from itertools import product

Transition = Callable[[int, int, int], float]
"""p(a_t = j | a_{t−1} = i) as a function of t, i and j."""
Table = Sequence[Sequence[float]]


def softmax(values: Sequence[float]) -> list[float]:
    powers = [math.exp(value) for value in values]
    return [power / sum(powers) for power in powers]


def zeroth(scores: Table) -> Transition:
    """exp e_tj / Σ_k exp e_tk, whatever i is."""
    return lambda t, i, j: softmax(scores[t])[j]


def monotonic(scores: Table) -> Transition:
    """exp e_tj / Σ_{k ≥ i} exp e_tk for j ≥ i."""
    return lambda t, i, j: math.exp(scores[t][j]) / sum(math.exp(score) for score in scores[t][i:]) if j >= i else 0.0


def first(jumps: Sequence[Table]) -> Transition:
    """exp u_tiδ / Σ_δ' exp u_tiδ' for j = i + δ, over those δ' that stay within the source."""

    def probability(t: int, i: int, j: int) -> float:
        possible = jumps[t][i][: len(jumps[t]) - i]
        return softmax(possible)[j - i] if 0 <= j - i < len(possible) else 0.0

    return probability


def alignment_probabilities(
    transition: Transition, emissions: Table, steps: int
) -> list[tuple[tuple[int, ...], float, float]]:
    """Each alignment of ``steps`` steps: its positions, and p(a | …) with the emissions of all steps and of all but the
    last. ``emissions``: p(y_t | a_t = j) by step and position."""
    found = []
    for positions in product(range(len(emissions[0])), repeat=steps):
        probability, before = 1.0, 0
        for t, position in enumerate(positions):
            without_last = probability = probability * transition(t, before, position)
            probability *= emissions[t][position]
            before = position
        found.append((positions, probability, without_last))
    return found


def likelihood(transition: Transition, emissions: Table, steps: int) -> float:
    """p(y_1 … y_steps) = Σ_a Π_t p(a_t | a_{t−1}) p(y_t | a_t), with a_0 the first position."""
    return sum(probability for _, probability, _ in alignment_probabilities(transition, emissions, steps))


def weights(transition: Transition, emissions: Table, step: int) -> list[float]:
    """p(a_t = j | y_<t) for every j; steps count from 0."""
    alignments = alignment_probabilities(transition, emissions, step + 1)
    total = sum(probability for _, _, probability in alignments)
    return [
        sum(probability for positions, _, probability in alignments if positions[-1] == j) / total
        for j in range(len(emissions[0]))
    ]


def emission(
    state: Sequence[float], source_state: Sequence[float], weights: dict[str, list], bias: Sequence[float]
) -> list[float]:
    """softmax(W tanh(R_s s + R_h h + b) + c) over the vocabulary."""
    hidden = []
    for k in range(len(weights["queries"])):
        total = weights["bias"][k]
        total += sum(weights["queries"][k][d] * state[d] for d in range(len(state)))
        total += sum(weights["keys"][k][d] * source_state[d] for d in range(len(source_state)))
        hidden.append(math.tanh(total))
    return softmax(
        [sum(row[k] * hidden[k] for k in range(len(hidden))) + bias[v] for v, row in enumerate(weights["output"])]
    )
