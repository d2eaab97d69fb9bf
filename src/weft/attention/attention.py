"""Attention by a score: weights α = normalize(e), context Σ_j α_j v_j; optionally local, or aware of earlier weights.

Keys and values are given as a Ragged, which `Attention.project` pads and masks once per source. Every query gets an
output.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import torch
from torch import Tensor, nn

from weft.attention.normalizers import Normalizer, softmax
from weft.attention.scores import HiddenLayerScore, Score
from weft.ragged import Ragged, additive_mask
from weft.runtime.replaceable import replaceable

if TYPE_CHECKING:
    from weft.attention.alignment_history import AlignmentHistory, HistoryFeatures
    from weft.attention.windows import Window


class ProjectedKeys(NamedTuple):
    """Keys and values of a source, computed once per source and not once per step."""

    keys_BSD: Tensor
    """The keys as the score projects them."""
    values_BSD: Tensor
    mask_BS: Tensor
    """Additive: 0 at a source state, −∞ at padding."""
    fertility_BS: Tensor | None = None
    """Φ_j of each source state, if the coverage is divided by it."""


def attend(
    scores_BTS: Tensor, values_BSD: Tensor, mask_BTS: Tensor, normalize: Normalizer = softmax
) -> tuple[Tensor, Tensor]:
    """The context Σ_j α_j v_j with α = normalize(scores + additive mask), and the weights α."""
    weights_BTS = normalize(scores_BTS + mask_BTS)
    return weights_BTS @ values_BSD, weights_BTS


class AttentionParts(NamedTuple):
    """The optional parts of an attention."""

    normalize: Normalizer = softmax
    key_projection: nn.Module | None = None
    value_projection: nn.Module | None = None
    window: Window | None = None
    features: HistoryFeatures | None = None
    """Features of the weights of earlier steps, added to the scores; needs a `HiddenLayerScore`."""


class Attention(nn.Module):
    """A score, and keys and values that are the source states themselves or learned projections of them."""

    def __init__(self, score: Score, parts: AttentionParts = AttentionParts()) -> None:
        super().__init__()
        self.score = score
        self.normalize = parts.normalize
        self.key_projection = parts.key_projection or nn.Identity()
        self.value_projection = parts.value_projection or nn.Identity()
        self.window = parts.window
        self.features = parts.features

    @property
    def is_stepwise(self) -> bool:
        """Whether the weights of a step depend on those of the steps before it."""
        return self.features is not None

    def project(self, states: Ragged, columns_N: Tensor | None = None) -> ProjectedKeys:
        """Keys and values of a batch of sources. Every row must have at least one state.

        ``columns_N``: the source column of every state, if there are several; one attention treats all columns equally.
        """
        states_BSD = states.to_padded()
        return self.project_masked(states_BSD, additive_mask(states.layout.masked_BS, states_BSD.dtype))

    def project_padded(self, states_BSD: Tensor) -> ProjectedKeys:
        """Keys and values of rows of equal length, such as the history of a search."""
        return self.project_masked(states_BSD, states_BSD.new_zeros(states_BSD.shape[:2]))

    def project_masked(self, states_BSD: Tensor, mask_BS: Tensor) -> ProjectedKeys:
        """Keys and values with an additive mask: −∞ at states that are not attended to."""
        keys_BSD = self.score.project_keys(self.key_projection(states_BSD))
        fertility_BS = None if self.features is None else self.features.fertility_of(states_BSD)
        return ProjectedKeys(keys_BSD, self.value_projection(states_BSD), mask_BS, fertility_BS)

    def start(self, keys: ProjectedKeys) -> AlignmentHistory | None:
        """The history before the first step, if the attention needs one."""
        if self.window is None and self.features is None:
            return None
        from weft.attention.alignment_history import AlignmentHistory

        return AlignmentHistory.start(keys.mask_BS)

    @replaceable
    def forward(
        self, queries_BTD: Tensor, keys: ProjectedKeys, history: AlignmentHistory | None = None
    ) -> tuple[Tensor, Tensor]:
        """The contexts (B, T, D) and the weights (B, T, S) for T queries per row.

        ``history``: one for each query; None: the queries of a row are those of steps 0 … T − 1.
        """
        if self.features is None:
            scores_BTS = self.score(queries_BTD, keys.keys_BSD)
        else:
            assert history is not None and isinstance(self.score, HiddenLayerScore)
            features_BTSA = self.features(history, rows=queries_BTD.shape[0], fertility_BS=keys.fertility_BS)
            scores_BTS = self.score(queries_BTD, keys.keys_BSD, features_BTSA)
        mask_B1S = keys.mask_BS[:, None]
        if self.window is None:
            return attend(scores_BTS, keys.values_BSD, mask_B1S, self.normalize)
        rows, queries = queries_BTD.shape[:2]
        if history is None:
            steps_BT = torch.arange(queries, device=queries_BTD.device).expand(rows, -1)
        else:
            steps_BT = history.steps_R.view(rows, queries)
        window = self.window(queries_BTD, steps_BT, keys.mask_BS)
        weights_BTS = self.normalize(scores_BTS + mask_B1S + window.mask_BTS)
        if window.factor_BTS is not None:
            weights_BTS = weights_BTS * window.factor_BTS
        return weights_BTS @ keys.values_BSD, weights_BTS

    def attend_ragged(self, queries: Ragged, keys: ProjectedKeys) -> tuple[Ragged, Tensor]:
        """Attend with a ragged batch of queries; weights (B, longest, S)."""
        contexts_BTD, weights_BTS = self(queries.to_padded(), keys)
        return queries.from_padded(contexts_BTD), weights_BTS

    def attend_to_history(self, states: Ragged) -> tuple[Ragged, Tensor]:
        """State s_t as a query over h_0 = 0 and the states before it, h_1 … h_{t−1}."""
        states_BTD = states.to_padded()
        zeros_B1D = states_BTD.new_zeros(len(states_BTD), 1, states_BTD.shape[-1])
        history = self.project_padded(torch.cat([zeros_B1D, states_BTD[:, :-1]], dim=1))
        scores_BTS = self.score(states_BTD, history.keys_BSD)
        length = states_BTD.shape[1]
        mask_TS = states_BTD.new_full((length, length), float("-inf")).triu(1)
        contexts_BTD, weights_BTS = attend(scores_BTS, history.values_BSD, mask_TS, self.normalize)
        return states.from_padded(contexts_BTD), weights_BTS
