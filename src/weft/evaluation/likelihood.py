"""How probable a model finds given targets."""

from __future__ import annotations

from typing import NamedTuple

import torch
from torch import Tensor

from weft.data.batching.batches import length_sorted_batches
from weft.data.store.token_store import PairStore
from weft.models import Searchable


class Likelihood(NamedTuple):
    """log p(y|x) of a corpus."""

    log_probability: float
    tokens: int
    """Target tokens, end marks included."""

    @property
    def loss(self) -> float:
        """−log p of a token, on average."""
        return -self.log_probability / max(self.tokens, 1)


@torch.no_grad()
def token_log_probabilities(
    model: Searchable, pairs: PairStore, *, begin: int, budget: int = 4096, device: torch.device | str = "cpu"
) -> list[Tensor]:
    """log p(y_t | y_<t, x) for every target token of every pair, in the order of the pairs."""
    answers: list[Tensor] = [torch.zeros(0)] * len(pairs)
    for rows in length_sorted_batches(pairs, budget):
        batch = pairs.batch(rows).to(device)
        logits_NV = model(batch.source, batch.target.shifted(begin)).logits_NV
        chosen_N1 = logits_NV.float().log_softmax(-1).gather(1, batch.target.values[:, None])
        for row, scores in zip(rows.tolist(), batch.target.like(chosen_N1[:, 0].cpu()).split(), strict=True):
            answers[row] = scores
    return answers


def likelihood(
    model: Searchable, pairs: PairStore, *, begin: int, budget: int = 4096, device: torch.device | str = "cpu"
) -> Likelihood:
    """The log-probability of a whole corpus."""
    scores = token_log_probabilities(model, pairs, begin=begin, budget=budget, device=device)
    return Likelihood(sum(float(row.sum(dtype=torch.float64)) for row in scores), sum(len(row) for row in scores))
