"""Scores: how well a query matches a key, before the softmax.

Each score has two parts, so that work on the keys is done once per source and not once per step:

    project_keys(keys)         -> the keys as the score needs them
    forward(queries, keys)     -> e_ij, one number for every query and (projected) key

To add one: write the class and add its line to SCORES in weft/recipe/choices.py.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from typing import ClassVar, Literal, NamedTuple

import torch
from torch import Tensor, nn
from torch.nn import functional

from weft.attention.initialization import initialize
from weft.errors import RecipeError, nearest
from weft.recipe.choices import SCORES, resolve


class ScoreOptions(NamedTuple):
    """Options of all scores; each score uses some of them."""

    query_width: int
    key_width: int
    size: int
    """The width of the hidden layer of `Additive` and `Concat`."""
    temperature: float
    """The temperature of `Cosine`."""


class Score(nn.Module, ABC):
    """A score between queries of one width and keys of another."""

    same_size = False
    """Whether query and key must have the same width."""
    form: ClassVar[Literal["dot", "hidden layer"] | None] = None
    """The equation of `forward`, where it is one for which there are kernels: q·k or vᵀ tanh(k + W₂ q), k being the
    projected key. A subclass with its own `forward` has none unless it declares it."""

    def __init_subclass__(cls, **options: object) -> None:
        super().__init_subclass__(**options)
        if "forward" in vars(cls) and "form" not in vars(cls):
            cls.form = None

    def __init__(self, options: ScoreOptions) -> None:
        super().__init__()

    def project_keys(self, keys_BSD: Tensor) -> Tensor:
        return keys_BSD

    @abstractmethod
    def forward(self, queries_BTD: Tensor, keys_BSD: Tensor) -> Tensor:
        """e_ij (B, T, S) for every query and projected key of a row."""


class HiddenLayerScore(Score):
    """e_j = vᵀ tanh(W₁ k_j + W₂ q), to whose hidden layer features of earlier weights can be added."""

    form = "hidden layer"

    def __init__(self, options: ScoreOptions) -> None:
        super().__init__(options)
        self.size = options.size

    vector: nn.Parameter

    def reset_parameters(self) -> None:
        """v, uniform in ±1/√n, n its size."""
        with torch.no_grad():
            self.vector.uniform_(-1, 1).div_(math.sqrt(self.size))

    @property
    @abstractmethod
    def query_weight_AD(self) -> Tensor:
        """W₂."""

    @abstractmethod
    def project_queries(self, queries_BTD: Tensor) -> Tensor:
        """W₂ q (B, T, A)."""

    def forward(self, queries_BTD: Tensor, keys_BSD: Tensor, features_BTSA: Tensor | None = None) -> Tensor:
        hidden_BTSA = keys_BSD[:, None] + self.project_queries(queries_BTD)[:, :, None]
        if features_BTSA is not None:
            hidden_BTSA = hidden_BTSA + features_BTSA
        return torch.tanh(hidden_BTSA) @ self.vector


class Dot(Score):
    """e_j = q·k_j   Luong et al. 2015, eq. 8 (dot)."""

    same_size = True
    form = "dot"

    def forward(self, queries_BTD: Tensor, keys_BSD: Tensor) -> Tensor:
        return queries_BTD @ keys_BSD.transpose(1, 2)


class ScaledDot(Dot):
    """e_j = q·k_j / √d   Vaswani et al. 2017, eq. 1."""

    def forward(self, queries_BTD: Tensor, keys_BSD: Tensor) -> Tensor:
        return super().forward(queries_BTD / math.sqrt(queries_BTD.shape[-1]), keys_BSD)


class ParameterFree(Dot):
    """e_j = q·h_j where the source states h are both keys and values: no parameters."""


class General(Score):
    """e_j = qᵀ W k_j   Luong et al. 2015, eq. 8 (general). Widths may differ."""

    form = "dot"

    def __init__(self, options: ScoreOptions) -> None:
        super().__init__(options)
        self.weight_QK = nn.Parameter(torch.empty(options.query_width, options.key_width))
        initialize(self)

    def reset_parameters(self) -> None:
        nn.init.xavier_uniform_(self.weight_QK)

    def project_keys(self, keys_BSD: Tensor) -> Tensor:
        return functional.linear(keys_BSD, self.weight_QK)

    def forward(self, queries_BTD: Tensor, keys_BSD: Tensor) -> Tensor:
        return queries_BTD @ keys_BSD.transpose(1, 2)


class ScaledGeneral(General):
    """e_j = k_jᵀ W q / √m, m the width of the keys."""

    def project_keys(self, keys_BSD: Tensor) -> Tensor:
        return super().project_keys(keys_BSD) / math.sqrt(keys_BSD.shape[-1])


class Additive(HiddenLayerScore):
    """e_j = vᵀ tanh(W₁ k_j + W₂ q)   Bahdanau et al. 2015, A.1.2; the width of v is a free choice."""

    def __init__(self, options: ScoreOptions) -> None:
        super().__init__(options)
        self.key_projection = nn.Linear(options.key_width, options.size)
        self.query_projection = nn.Linear(options.query_width, options.size, bias=False)
        self.vector = nn.Parameter(torch.empty(options.size))
        initialize(self)

    def project_keys(self, keys_BSD: Tensor) -> Tensor:
        return self.key_projection(keys_BSD)

    @property
    def query_weight_AD(self) -> Tensor:
        return self.query_projection.weight

    def project_queries(self, queries_BTD: Tensor) -> Tensor:
        return self.query_projection(queries_BTD)


class Concat(HiddenLayerScore):
    """e_j = vᵀ tanh(W [q; k_j])   Luong et al. 2015, eq. 8 (concat): one matrix for both, no bias."""

    def __init__(self, options: ScoreOptions) -> None:
        super().__init__(options)
        self.query_width = options.query_width
        self.weight = nn.Parameter(torch.empty(options.size, options.query_width + options.key_width))
        self.vector = nn.Parameter(torch.empty(options.size))
        initialize(self)

    def reset_parameters(self) -> None:
        nn.init.xavier_uniform_(self.weight)
        super().reset_parameters()

    def project_keys(self, keys_BSD: Tensor) -> Tensor:
        return functional.linear(keys_BSD, self.weight[:, self.query_width :])

    @property
    def query_weight_AD(self) -> Tensor:
        return self.weight[:, : self.query_width]

    def project_queries(self, queries_BTD: Tensor) -> Tensor:
        return functional.linear(queries_BTD, self.query_weight_AD)


class Cosine(Score):
    """e_j = (q/|q|)·(k_j/|k_j|) / τ: both normalized to unit length, τ a temperature."""

    same_size = True

    def __init__(self, options: ScoreOptions) -> None:
        super().__init__(options)
        self.temperature = options.temperature

    def project_keys(self, keys_BSD: Tensor) -> Tensor:
        return functional.normalize(keys_BSD, dim=-1)

    def forward(self, queries_BTD: Tensor, keys_BSD: Tensor) -> Tensor:
        return functional.normalize(queries_BTD, dim=-1) @ keys_BSD.transpose(1, 2) / self.temperature


def make_score(name: str, *, queries: int, keys: int, size: int, temperature: float = 1.0) -> Score:
    """The score of this name for queries and keys of these widths."""
    if name not in SCORES:
        raise RecipeError(f"model.attention.score: unknown score {name!r}; {nearest(name, SCORES)}")
    kind: type[Score] = resolve(SCORES, name)
    if kind.same_size and queries != keys:
        raise RecipeError(
            f"model.attention.score: {name!r} needs queries and keys of one size, but they have {queries} and {keys}; "
            "use 'general' or 'additive', or set model.attention.project = true"
        )
    return kind(ScoreOptions(queries, keys, size, temperature))
