"""Exercise: scaled dot-product attention   (chapter 6; Vaswani et al. 2017, equation 1)."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

from weft.apps.course.exercise import NONE, Case, Exercise, Mistakes

if TYPE_CHECKING:
    from torch import Tensor

STUB = '''\
"""Attention: a weighted average of values, with weights from comparing a query with keys.

Write the function, then run:  weft course check attention.py
"""

import torch


def attention(Q, K, V):
    """Scaled dot-product attention.

    Q: queries, one in each row       n_q × d_k
    K: keys, one in each row          n × d_k
    V: values, one for each key       n × d_v

    For each query, the score of a key is their dot product divided by the square root of d_k. The weights are the
    softmax of the scores over the keys. The output is the average of the values with these weights.

    Returns the outputs (n_q × d_v) and the weights (n_q × n).
    """
    raise NotImplementedError
'''


def attention(Q: Tensor, K: Tensor, V: Tensor, *, mistakes: Mistakes = NONE) -> tuple[Tensor, Tensor]:
    """softmax(Q Kᵀ / √d_k) V"""
    scores = Q @ K.T
    if "transposed" in mistakes:
        scores = K @ Q.T
    if "squared" in mistakes:
        scores = scores / K.shape[1]
    elif "values" in mistakes:
        scores = scores / math.sqrt(V.shape[1])
    elif "count" in mistakes:
        scores = scores / math.sqrt(K.shape[0])
    elif "multiplied" in mistakes:
        scores = scores * math.sqrt(K.shape[1])
    elif not mistakes & {"scale", "late"}:
        scores = scores / math.sqrt(K.shape[1])
    weights = scores.softmax(0 if "axis" in mistakes else 1)
    if "overflow" in mistakes:
        exponentials = scores.exp()
        weights = exponentials / exponentials.sum(1, keepdim=True)
    if "sigmoid" in mistakes:
        weights = scores.sigmoid()
    if "softmax" in mistakes:
        weights = scores
    if "sum" in mistakes:
        weights = scores / scores.sum(1, keepdim=True)
    if "late" in mistakes:
        weights = weights / math.sqrt(K.shape[1])
    return weights @ (K if "keys" in mistakes else V), weights


def cases() -> list[Case]:
    import torch

    generator = torch.Generator().manual_seed(1)

    def normal(*shape: int) -> Tensor:
        return torch.randn(*shape, generator=generator, dtype=torch.float64)

    def example(queries: int, keys: int, width: int, values: int) -> tuple[Tensor, Tensor, Tensor]:
        return normal(queries, width), normal(keys, width), normal(keys, values)

    ones = torch.ones(1, 64, dtype=torch.float64)
    keys = torch.tensor([[1.75], [1.5]], dtype=torch.float64).expand(2, 64).clone()
    large = tuple(part * scale for part, scale in zip(example(2, 3, 4, 4), (400.0, 10.0, 1.0), strict=True))
    return [
        Case("one query, two keys, scores 112 and 96", "attention", (ones, keys, torch.eye(2, dtype=torch.float64))),
        Case("three queries, five keys", "attention", example(3, 5, 4, 4)),
        Case("as many queries as keys", "attention", example(4, 4, 6, 6)),
        Case("values wider than keys", "attention", example(2, 3, 4, 7)),
        Case("scores in the thousands", "attention", large),
    ]


EXERCISE = Exercise(
    name="attention",
    chapter=6,
    title="scaled dot-product attention",
    stub=STUB,
    solutions={"attention": attention},
    cases=cases,
    mistakes={
        "axis": "The weights of each query must sum to 1. Over which axis is the softmax taken?",
        "scale": "The scores are not divided by anything. How does their size grow with d_k (chapter 7)?",
        "squared": "The scores are divided by d_k. Their standard deviation, not their variance, is to become 1.",
        "multiplied": "The scores are multiplied by √d_k, which makes them larger.",
        "values": "The scores are divided by the root of the size of a value. Which vectors are in the dot product?",
        "count": "The scores are divided by the root of the number of keys. Which size makes a dot product large?",
        "late": "The scaling comes after the softmax, so the weights no longer sum to 1.",
        "softmax": "The scores are used as weights. Weights are positive, and those of a query sum to 1.",
        "sum": "The scores are divided by their sum. Some may be negative: what makes them positive first?",
        "sigmoid": "A sigmoid looks at each score by itself. The weights of a query compete: they sum to 1.",
        "overflow": "exp of a large number is infinite. What can be subtracted from all scores of a query before?",
        "transposed": "Row i of the scores belongs to key i. Rows belong to queries.",
        "keys": "The average is taken of the keys. What is it that attention returns an average of?",
    },
)
