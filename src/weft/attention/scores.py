"""Scores: how well a query fits a key, before the softmax.

Each score has two parts, so that work on the keys is done once per source and not once per step:

    prepare(keys)  -> what the score needs to know of the keys
    forward(queries, prepared) -> e_ij, one number for every query and key

To add one: write the class and add its line to SCORES in weft/recipe/choices.py.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod

import torch
from torch import Tensor, nn
from torch.nn import functional

from weft.errors import RecipeError, nearest
from weft.kernels.deferred_gradients import Matrices, as_tensor, batch_dot
from weft.recipe.choices import SCORES, resolve


class Score(nn.Module, ABC):
    """A score between queries of one width and keys of another."""

    same_size = False
    """Whether query and key must have the same width."""

    def __init__(self, queries: int, keys: int, *, size: int, temperature: float) -> None:
        super().__init__()

    def prepare(self, keys_BSD: Tensor) -> Tensor:
        return keys_BSD

    @abstractmethod
    def forward(self, queries_BTD: Tensor, prepared_BSD: Matrices) -> Tensor:
        """e_ij for every query and key of a row."""


class Dot(Score):
    """e_j = q·k_j   Luong et al. 2015, eq. 8 (dot)."""

    same_size = True

    def forward(self, queries_BTD: Tensor, prepared_BSD: Matrices) -> Tensor:
        return batch_dot(queries_BTD, prepared_BSD)


class ScaledDot(Dot):
    """e_j = q·k_j / √d   Vaswani et al. 2017, eq. 1."""

    def forward(self, queries_BTD: Tensor, prepared_BSD: Matrices) -> Tensor:
        return super().forward(queries_BTD / math.sqrt(queries_BTD.shape[-1]), prepared_BSD)


class ParameterFree(Dot):
    """e_j = q·x_j where the items x are keys and values at once: nothing is learned here."""


class General(Score):
    """e_j = qᵀ W k_j   Luong et al. 2015, eq. 8 (general). Sizes may differ."""

    def __init__(self, queries: int, keys: int, *, size: int, temperature: float) -> None:
        super().__init__(queries, keys, size=size, temperature=temperature)
        self.weight_QK = nn.Parameter(torch.empty(queries, keys))
        nn.init.xavier_uniform_(self.weight_QK)

    def prepare(self, keys_BSD: Tensor) -> Tensor:
        return functional.linear(keys_BSD, self.weight_QK)

    def forward(self, queries_BTD: Tensor, prepared_BSD: Matrices) -> Tensor:
        return batch_dot(queries_BTD, prepared_BSD)


class ScaledGeneral(General):
    """e_j = k_jᵀ W q / √m, m the width of the keys."""

    def prepare(self, keys_BSD: Tensor) -> Tensor:
        return super().prepare(keys_BSD) / math.sqrt(keys_BSD.shape[-1])


class Additive(Score):
    """e_j = vᵀ tanh(W₁ k_j + W₂ q)   Bahdanau et al. 2015, A.1.2; the width of v is a free choice."""

    def __init__(self, queries: int, keys: int, *, size: int, temperature: float) -> None:
        super().__init__(queries, keys, size=size, temperature=temperature)
        self.of_keys = nn.Linear(keys, size)
        self.of_queries = nn.Linear(queries, size, bias=False)
        self.vector = nn.Parameter(torch.empty(size).uniform_(-1, 1) / math.sqrt(size))

    def prepare(self, keys_BSD: Tensor) -> Tensor:
        return self.of_keys(keys_BSD)

    def forward(self, queries_BTD: Tensor, prepared_BSD: Matrices) -> Tensor:
        queries_BTA = self.of_queries(queries_BTD)
        return torch.tanh(as_tensor(prepared_BSD)[:, None] + queries_BTA[:, :, None]) @ self.vector


class Concat(Score):
    """e_j = vᵀ tanh(W [q; k_j])   Luong et al. 2015, eq. 8 (concat): one matrix over both, no bias."""

    def __init__(self, queries: int, keys: int, *, size: int, temperature: float) -> None:
        super().__init__(queries, keys, size=size, temperature=temperature)
        self.queries = queries
        self.weight = nn.Parameter(torch.empty(size, queries + keys))
        nn.init.xavier_uniform_(self.weight)
        self.vector = nn.Parameter(torch.empty(size).uniform_(-1, 1) / math.sqrt(size))

    def prepare(self, keys_BSD: Tensor) -> Tensor:
        return functional.linear(keys_BSD, self.weight[:, self.queries :])

    def forward(self, queries_BTD: Tensor, prepared_BSD: Matrices) -> Tensor:
        queries_BTA = functional.linear(queries_BTD, self.weight[:, : self.queries])
        return torch.tanh(as_tensor(prepared_BSD)[:, None] + queries_BTA[:, :, None]) @ self.vector


class Cosine(Score):
    """e_j = (q/|q|)·(k_j/|k_j|) / τ: both at unit length, τ a temperature."""

    same_size = True

    def __init__(self, queries: int, keys: int, *, size: int, temperature: float) -> None:
        super().__init__(queries, keys, size=size, temperature=temperature)
        self.temperature = temperature

    def prepare(self, keys_BSD: Tensor) -> Tensor:
        return functional.normalize(keys_BSD, dim=-1)

    def forward(self, queries_BTD: Tensor, prepared_BSD: Matrices) -> Tensor:
        return batch_dot(functional.normalize(queries_BTD, dim=-1), prepared_BSD) / self.temperature


def make_score(name: str, *, queries: int, keys: int, size: int, temperature: float = 1.0) -> Score:
    """The score of that name for queries and keys of these widths."""
    if name not in SCORES:
        raise RecipeError(f"model.attention.score: unknown score {name!r}; {nearest(name, SCORES)}")
    kind: type[Score] = resolve(SCORES, name)
    if kind.same_size and queries != keys:
        raise RecipeError(
            f"model.attention.score: {name!r} needs queries and keys of one size, but they have {queries} and {keys}; "
            "use 'general' or 'additive', or set model.attention.project = true"
        )
    return kind(queries, keys, size=size, temperature=temperature)
