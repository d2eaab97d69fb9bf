"""Attention over one row in plain Python: lists of floats, one query, one head and one key after the other."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence

from torch import Tensor

Attends = Callable[[int, int], bool]
"""Whether query i attends to key j."""


def slow_attention(
    queries: list[list[list[float]]],
    keys: list[list[list[float]]],
    values: list[list[list[float]]],
    *,
    attends: Attends = lambda query, key: True,
    bias: Sequence[Sequence[Sequence[float]]] | None = None,
) -> tuple[list[list[list[float]]], list[list[list[float]]]]:
    """α_ij = exp(q_i·k_j/√d + b_ij) / Σ, out_i = Σ_j α_ij v_j   Vaswani et al. 2017, eq. 1.

    Lists by token, head and dimension; neighboring heads share a key–value head where there are fewer of those
    (Ainslie et al. 2023). ``bias`` by head, query and key. Returns outputs by token, and weights by head and query.
    """
    heads, kv_heads = len(queries[0]), len(keys[0])
    outputs = [[[0.0] * len(values[0][0]) for _ in range(heads)] for _ in queries]
    weights = [[[0.0] * len(keys) for _ in queries] for _ in range(heads)]
    for i in range(len(queries)):
        for h in range(heads):
            group = h // (heads // kv_heads)
            powers = []
            for j in range(len(keys)):
                q, k = queries[i][h], keys[j][group]
                score = sum(q[d] * k[d] for d in range(len(q))) / math.sqrt(len(q))
                if bias is not None:
                    score += bias[h][i][j]
                powers.append(math.exp(score) if attends(i, j) else 0.0)
            for j in range(len(keys)):
                weights[h][i][j] = powers[j] / sum(powers)
                for d in range(len(values[j][group])):
                    outputs[i][h][d] += weights[h][i][j] * values[j][group][d]
    return outputs, weights


def rows_of(values: Tensor, lengths: Sequence[int]) -> list[list]:
    """Values stored end to end, as one list per row."""
    return [row.tolist() for row in values.split(list(lengths))]
