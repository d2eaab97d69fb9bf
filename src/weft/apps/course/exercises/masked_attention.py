"""Exercise: causal self-attention   (chapter 12; Vaswani et al. 2017, section 3.2.3)."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

from weft.apps.course.exercise import NONE, Case, Exercise, Mistakes

if TYPE_CHECKING:
    from torch import Tensor

STUB = '''\
"""Masked attention: position t sees itself and the positions before it.

Write the function, then run:  weft course check masked_attention.py
"""

import torch


def causal_attention(X, W_Q, W_K, W_V):
    """Self-attention of a sequence with a causal mask.

    X: the vectors of n words, one in each row      n × d
    W_Q, W_K: weights of queries and of keys        d × d_k
    W_V: weights of values                          d × d_v

    Queries, keys and values are products of X with the three matrices. Scores are divided by the square root of d_k.
    Position t may look at positions 1 to t only: the mask is added to the scores before the softmax.

    Returns the outputs (n × d_v) and the weights (n × n).
    """
    raise NotImplementedError
'''


def causal_attention(
    X: Tensor, W_Q: Tensor, W_K: Tensor, W_V: Tensor, *, mistakes: Mistakes = NONE
) -> tuple[Tensor, Tensor]:
    """softmax(Q Kᵀ / √d_k + M) V with M = −∞ above the diagonal"""
    import torch

    Q, K, V = X @ (W_K if "projections" in mistakes else W_Q), X @ W_K, X @ W_V
    scores = Q @ K.T / (1 if "scale" in mistakes else math.sqrt(K.shape[1]))
    above = torch.ones_like(scores, dtype=torch.bool).triu(1)
    if "inverted" in mistakes:
        above = above.T
    if "diagonal" in mistakes:
        above = torch.ones_like(above).triu(0)
    if "ahead" in mistakes:
        above = torch.ones_like(above).triu(2)
    if mistakes & {"mask", "weights"}:
        masked = scores
    elif "zero" in mistakes:
        masked = scores.masked_fill(above, 0.0)
    elif "slightly" in mistakes:
        masked = scores - above.double()
    elif "sign" in mistakes:
        masked = scores.masked_fill(above, math.inf)
    else:
        masked = scores.masked_fill(above, -math.inf)
    weights = masked.softmax(0 if "axis" in mistakes else 1)
    if "weights" in mistakes:
        weights = weights.masked_fill(above, 0.0)
    return weights @ V, weights


def cases() -> list[Case]:
    import torch

    generator = torch.Generator().manual_seed(2)

    def example(words: int, width: int, keys: int, values: int) -> tuple[Tensor, ...]:
        shapes = ((words, width), (width, keys), (width, keys), (width, values))
        return tuple(torch.randn(*shape, generator=generator, dtype=torch.float64) for shape in shapes)

    return [
        Case("one word", "causal_attention", example(1, 4, 3, 5)),
        Case("two words", "causal_attention", example(2, 4, 3, 5)),
        Case("five words", "causal_attention", example(5, 6, 3, 4)),
        Case("seven words, d_v = d_k", "causal_attention", example(7, 4, 4, 4)),
    ]


EXERCISE = Exercise(
    name="masked_attention",
    chapter=12,
    title="causal self-attention, with a mask",
    stub=STUB,
    solutions={"causal_attention": causal_attention},
    cases=cases,
    mistakes={
        "mask": "No mask: each position sees the words after it, which it is to predict.",
        "axis": "The weights of each query must sum to 1. Over which axis is the softmax taken?",
        "scale": "The mask is right; the scores are not divided by √d_k.",
        "inverted": "The mask is the wrong way round: each position sees itself and the words after it.",
        "diagonal": "A position may look at itself. As it is, the first word sees nothing, and its softmax is 0/0.",
        "ahead": "The mask is off by one: each position sees one word after it.",
        "weights": "Weights are set to 0 after the softmax, so rows no longer sum to 1, and the words that should be "
        "hidden still enter the denominator. Where does the mask belong?",
        "zero": "Masked scores are 0, and exp(0) = 1 is no small weight. Which score has weight 0?",
        "slightly": "Masked scores are lowered by 1, which lowers their weight a little. Which score has weight 0?",
        "sign": "Masked scores are +∞. Which score has weight 0?",
        "projections": "Queries and keys are made with the same matrix.",
    },
)
