"""Forced decoding: the probabilities, and the attention, of targets that are given rather than searched for."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
import torch
from torch import Tensor

from weft.attention.ragged_attention import alignment_weights
from weft.data.store.token_store import PairStore, length_sorted_batches
from weft.models.interface import Model
from weft.runtime.activity import activity
from weft.runtime.devices import DividedWork
from weft.search.interface import Hypothesis

BATCH_TOKENS = 4096
"""Tokens per batch, on either side."""


class Likelihood(NamedTuple):
    """log p(y|x) of a corpus."""

    log_probability: float
    tokens: int
    """Target tokens, end tokens included."""

    @property
    def loss(self) -> float:
        """The mean negative log-likelihood of a token."""
        return -self.log_probability / max(self.tokens, 1)


@torch.no_grad()
def token_log_probabilities(
    model: Model, pairs: PairStore, *, start: Sequence[int], device: torch.device | str = "cpu"
) -> list[Tensor]:
    """log p(y_t | y_<t, x) for every target token of every pair, in the order of the pairs.

    ``start``: the tokens that the decoder reads before a text; all but the first are in the targets, and are not
    scored.
    """
    results: list[Tensor] = [torch.zeros(0)] * len(pairs)
    divided = DividedWork("scoring")

    def score(rows: np.ndarray) -> Sequence[Tensor]:
        batch = pairs.batch(rows).to(device)
        logits_NV = model(batch.source, batch.target.shifted(start[0])).logits_NV
        chosen_N1 = logits_NV.float().log_softmax(-1).gather(1, batch.target.values[:, None])
        return batch.target.like(chosen_N1[:, 0].cpu()).split()

    with activity("scoring", "pairs", total=len(pairs)) as scoring:
        for rows in length_sorted_batches(pairs, BATCH_TOKENS):
            for row, scores in zip(rows.tolist(), divided.over_rows(score, rows), strict=True):
                results[row] = scores[len(start) - 1 :]
            scoring.done += len(rows)
    return results


def likelihood(model: Model, pairs: PairStore, *, begin: int, device: torch.device | str = "cpu") -> Likelihood:
    """The log-probability of a whole corpus."""
    scores = token_log_probabilities(model, pairs, start=(begin,), device=device)
    return Likelihood(sum(float(row.sum(dtype=torch.float64)) for row in scores), sum(len(row) for row in scores))


@torch.no_grad()
def force_decode(
    model: Model, pairs: PairStore, *, start: Sequence[int], batch_tokens: int, device: torch.device | str = "cpu"
) -> list[Hypothesis]:
    """The targets of the pairs as hypotheses, with their scores and their attention, in the order of the pairs.

    ``start``: see `token_log_probabilities`.
    """
    given, divided = len(start) - 1, DividedWork("forced decoding")
    results: dict[int, Hypothesis] = {}

    def decode(rows: np.ndarray) -> Sequence[Hypothesis]:
        hypotheses = []
        batch = pairs.batch(rows).to(device)
        out = model(batch.source, batch.target.shifted(start[0]), return_attention="alignment")
        weights_BTS = alignment_weights(out.attention, batch.source.layout)
        chosen_N1 = out.logits_NV.float().log_softmax(-1).gather(1, batch.target.values[:, None])
        targets = zip(batch.target.split(), batch.target.like(chosen_N1[:, 0]).split(), strict=True)
        for index, (target, scores) in enumerate(targets):
            scores = scores[given:]
            total = float(scores.sum())
            hypothesis = Hypothesis(
                tokens=target.tolist()[given:-1],
                score=total,
                log_probability=total,
                token_scores=scores.tolist(),
                ended="end",
                attention_TS=None if weights_BTS is None else weights_BTS[index, given : len(target)].cpu(),
            )
            hypotheses.append(hypothesis)
        return hypotheses

    for rows in length_sorted_batches(pairs, batch_tokens):
        results |= dict(zip(rows.tolist(), divided.over_rows(decode, rows), strict=True))
    return [results[row] for row in range(len(pairs))]
