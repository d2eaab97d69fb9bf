"""Searches that follow a single path: greedy (argmax at every step) and sampling.

    greedy    y_t = argmax p(y | y_<t, x)
    sampling  y_t ~ p(y | y_<t, x), with a temperature, cut to the k likeliest (top-k; Fan et al. 2018) or to the
              fewest that hold probability p (top-p, nucleus; Holtzman et al. 2020)

A sentence that has ended leaves the batch.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch import Tensor

from weft.search.hypothesis import Hypothesis, Steps, normalised
from weft.tree import select

Choice = Callable[[Tensor], Tensor]
"""Logits (R, V) to the tokens (R,) said next."""


def greedy(logits_RV: Tensor) -> Tensor:
    """The likeliest token; of equals the one with the smallest id."""
    return logits_RV.argmax(-1)


def sampler(
    *, temperature: float = 1.0, top_k: int = 0, top_p: float = 1.0, generator: torch.Generator | None = None
) -> Choice:
    """A choice by chance. Temperature first, then top-k, then top-p over what is left."""

    def draw(logits_RV: Tensor) -> Tensor:
        logits_RV = logits_RV.float() / temperature
        if top_k:
            kept = logits_RV.topk(min(top_k, logits_RV.shape[-1]))
            logits_RV = torch.full_like(logits_RV, float("-inf")).scatter(1, kept.indices, kept.values)
        if top_p < 1.0:
            sorted_RV, order_RV = logits_RV.sort(-1, descending=True)
            probability_RV = sorted_RV.softmax(-1)
            outside_RV = probability_RV.cumsum(-1) - probability_RV >= top_p
            outside_RV[:, 0] = False  # the likeliest always stays
            cut_RV = torch.zeros_like(outside_RV).scatter(1, order_RV, outside_RV)
            logits_RV = logits_RV.masked_fill(cut_RV, float("-inf"))
        return torch.multinomial(logits_RV.softmax(-1), 1, generator=generator)[:, 0]

    return draw


@torch.no_grad()
def follow(
    model: Steps,
    memory: Any,
    limits: Sequence[int],
    choose: Choice,
    *,
    begin: int,
    end: int,
    prefix: Sequence[int] = (),
    weights: bool = False,
    length_penalty: float = 0.0,
    device: torch.device | str = "cpu",
) -> list[Hypothesis]:
    """One hypothesis for every row, each of at most ``limits[row]`` tokens; ``prefix`` is said first by all."""
    rows = torch.arange(len(limits), device=device)
    limit_B = torch.tensor(list(limits), device=device)
    state = model.start(memory)
    tokens_R = torch.full((len(limits),), begin, device=device)
    said: list[list[int]] = [[] for _ in limits]
    scores: list[list[float]] = [[] for _ in limits]
    looks: list[list[Tensor]] = [[] for _ in limits]
    length = 0
    while len(rows):
        logits_RV, state, weights_RS = model.step(tokens_R, state, memory)
        log_RV = logits_RV.float().log_softmax(-1)
        tokens_R = torch.full_like(tokens_R, prefix[length]) if length < len(prefix) else choose(logits_RV)
        chosen_R = log_RV.gather(1, tokens_R[:, None])[:, 0]
        for place, row in enumerate(rows.tolist()):
            if weights and weights_RS is not None:
                looks[row].append(weights_RS[place].cpu())
        for row, token, score in zip(rows.tolist(), tokens_R.tolist(), chosen_R.tolist(), strict=True):
            said[row].append(token)
            scores[row].append(score)
        length += 1
        going_R = (tokens_R != end) & (limit_B[rows] > length)
        if not bool(going_R.all()):
            keep = going_R.nonzero()[:, 0]
            rows, tokens_R = rows[keep], tokens_R[keep]
            state, memory = select((state, memory), keep)
    return [
        _hypothesis(said[row], scores[row], looks[row], end=end, length_penalty=length_penalty)
        for row in range(len(limits))
    ]


def _hypothesis(
    tokens: list[int], scores: list[float], looks: list[Tensor], *, end: int, length_penalty: float
) -> Hypothesis:
    ended = "end" if tokens and tokens[-1] == end else "length"
    total = sum(scores)
    return Hypothesis(
        tokens=tokens[:-1] if ended == "end" else tokens,
        score=normalised(total, len(scores), length_penalty),
        log_probability=total,
        token_scores=scores,
        ended=ended,
        weights_TS=stack_weights(looks) if looks else None,
    )


def stack_weights(rows: Sequence[Tensor]) -> Tensor:
    """Rows of weights one under the other; shorter ones (a past that grows) are filled with zeros."""
    width = max(len(row) for row in rows)
    return torch.stack([torch.nn.functional.pad(row, (0, width - len(row))) for row in rows])
