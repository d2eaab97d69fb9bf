"""Exercise: a layer of a Transformer encoder, as published   (chapter 13; Vaswani et al. 2017, section 3.1)."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

from weft.apps.course.exercise import NONE, Case, Exercise, Mistakes

if TYPE_CHECKING:
    from torch import Tensor

EPSILON = 1e-5
STUB = '''\
"""A Transformer layer: heads of self-attention, a feed-forward network, and add & norm around both.

Write the functions, then run:  weft course check transformer_layer.py
"""

import torch


def layer_norm(X, scale, shift):
    """For each row of X (n × d): subtract its mean, divide by its standard deviation, then scale and shift.

    The variance is the mean of the squared deviations (divided by d, not by d - 1); add 1e-5 to it before the root.
    scale, shift: d numbers each.
    """
    raise NotImplementedError


def multi_head(X, W_Q, W_K, W_V, W_O, heads):
    """Self-attention in several heads.

    X is n × d and all weights are d × d. Columns 1 to d/heads of X @ W_Q are the queries of the first head, the next
    d/heads those of the second, and so on; likewise keys and values. Each head is scaled dot-product attention. The
    outputs of the heads are joined side by side, in their order, and multiplied by W_O.
    """
    raise NotImplementedError


def layer(X, weights, heads):
    """A layer of the encoder: x = norm(x + sublayer(x)), first with attention, then with the feed-forward network.

    weights: a dict with W_Q, W_K, W_V, W_O (d × d), W_1 (d × f), b_1 (f), W_2 (f × d), b_2 (d), and the scales and
    shifts of the two norms: scale_1, shift_1, scale_2, shift_2 (d each).
    The feed-forward network is max(0, x W_1 + b_1) W_2 + b_2.
    """
    raise NotImplementedError
'''


def layer_norm(X: Tensor, scale: Tensor, shift: Tensor, *, mistakes: Mistakes = NONE) -> Tensor:
    """a (x − μ) / √(Var + ε) + b   Ba et al. 2016"""
    axis = 0 if "norm axis" in mistakes else 1
    centered = X if "mean" in mistakes else X - X.mean(axis, keepdim=True)
    variance = X.var(axis, keepdim=True, correction=1 if "unbiased" in mistakes else 0)
    deviation = variance + EPSILON if "root" in mistakes else (variance + EPSILON).sqrt()
    normal = centered / deviation
    return normal if "affine" in mistakes else normal * scale + shift


def multi_head(X: Tensor, *arguments: Any, mistakes: Mistakes = NONE) -> Tensor:
    """[head_1; …; head_H] W_O"""
    import torch

    W_Q, W_K, W_V, W_O, heads = arguments
    n, d = X.shape
    count = 1 if "single head" in mistakes else heads
    width = d // count
    Q, K, V = X @ W_Q, X @ W_K, X @ W_V
    if mistakes & {"view", "views"}:
        split = [part.reshape(count, n, width) for part in (Q, K, V)]
    else:
        split = [part.reshape(n, count, width).transpose(0, 1) for part in (Q, K, V)]
    scale = 1 if "scale" in mistakes else math.sqrt(d if "scale width" in mistakes else width)
    scores = split[0] @ split[1].transpose(1, 2) / scale
    outputs = scores.softmax(1 if "axis" in mistakes else 2) @ split[2]
    joined = outputs.reshape(n, d) if mistakes & {"views", "joined"} else torch.cat(list(outputs), 1)
    return joined if "W_O" in mistakes else joined @ W_O


def layer(X: Tensor, weights: dict[str, Tensor], heads: int, *, mistakes: Mistakes = NONE) -> Tensor:
    """x ← LayerNorm(x + sublayer(x)), twice"""

    def attend(x: Tensor) -> Tensor:
        return multi_head(x, *(weights[name] for name in ("W_Q", "W_K", "W_V", "W_O")), heads, mistakes=mistakes)

    def feed_forward(x: Tensor) -> Tensor:
        inner = x @ weights["W_1"] + weights["b_1"]
        inner = inner if "relu" in mistakes else inner.clamp(min=0)
        return inner @ weights["W_2"] + weights["b_2"]

    def normalized(x: Tensor, number: int) -> Tensor:
        if "norm" in mistakes:
            return x
        return layer_norm(x, weights[f"scale_{number}"], weights[f"shift_{number}"], mistakes=mistakes)

    x = X
    for number, (sublayer, residual) in enumerate(((attend, "residual"), (feed_forward, "second residual")), 1):
        kept = 0 if residual in mistakes or "no residual" in mistakes else x
        if "pre-norm" in mistakes:
            x = kept + sublayer(normalized(x, number))
        elif "inside" in mistakes:
            x = kept + normalized(sublayer(x), number)
        else:
            x = normalized(kept + sublayer(x), number)
    return x


def cases() -> list[Case]:
    import torch

    generator = torch.Generator().manual_seed(4)

    def normal(*shape: int) -> Tensor:
        return torch.randn(*shape, generator=generator, dtype=torch.float64)

    def weights(d: int, inner: int) -> dict[str, Tensor]:
        square = {name: normal(d, d) / math.sqrt(d) for name in ("W_Q", "W_K", "W_V", "W_O")}
        feed_forward = {"W_1": normal(d, inner), "b_1": normal(inner), "W_2": normal(inner, d), "b_2": normal(d)}
        norms = {f"{kind}_{number}": normal(d) for number in (1, 2) for kind in ("scale", "shift")}
        return {**square, **feed_forward, **norms}

    first, second = weights(4, 7), weights(6, 5)
    matrices = [first[name] for name in ("W_Q", "W_K", "W_V", "W_O")]
    return [
        Case("three rows of five numbers", "layer_norm", (3 * normal(3, 5) + 1, normal(5), normal(5))),
        Case("one head", "multi_head", (normal(3, 4), *matrices, 1)),
        Case("two heads", "multi_head", (normal(5, 4), *matrices, 2)),
        Case("three words, two heads", "layer", (normal(3, 4), first, 2)),
        Case("four words, three heads", "layer", (normal(4, 6), second, 3)),
    ]


VIEW = (
    "The heads mix the columns of different words: reshaping n × d to heads × n × d/heads cuts rows, not columns. "
    "Reshape to n × heads × d/heads first, then exchange two axes."
)
EXERCISE = Exercise(
    name="transformer_layer",
    chapter=13,
    title="a Transformer layer: heads, feed-forward network, add & norm",
    stub=STUB,
    solutions={"layer_norm": layer_norm, "multi_head": multi_head, "layer": layer},
    cases=cases,
    mistakes={
        "no residual": "The residuals are missing: a sub-layer is added to its input, it does not replace it.",
        "residual": "The residual around attention is missing.",
        "second residual": "The residual around the feed-forward network is missing.",
        "norm axis": "The norm is taken over the positions. Each row, the vector of one word, is normalized by itself.",
        "unbiased": "The variance is divided by d - 1 (the default of Tensor.var); layer norm divides by d.",
        "root": "The deviations are divided by the variance, not by its root.",
        "mean": "The mean is not subtracted.",
        "affine": "The learned scale and shift are missing.",
        "norm": "The norms are missing.",
        "pre-norm": "The norm comes before each sub-layer (chapter 14). As published it comes after the sum.",
        "inside": "The norm is taken of the sub-layer's output alone; as published, of its sum with the input.",
        "single head": "There is one head as wide as the model. Queries, keys and values are split by columns.",
        "view": VIEW,
        "views": VIEW,
        "joined": "The outputs of the heads are joined below each other and cut anew. They belong side by side.",
        "scale": "The scores are not divided by the root of the size of a key.",
        "scale width": "The scores are divided by √d. How many numbers has a key of one head?",
        "axis": "The weights of each query must sum to 1. Over which axis is the softmax taken?",
        "W_O": "The joined heads are not multiplied by W_O.",
        "relu": "The feed-forward network has no max(0, ·): two linear maps in a row are one linear map.",
    },
)
