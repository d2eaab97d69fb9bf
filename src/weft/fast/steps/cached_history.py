"""Search steps of a recurrent language model with attention to its previous states, in storage of a fixed size.

Equal to `RecurrentLanguageModel.step`, whose history grows; tests/fast/steps/test_cached_history.py. No shape depends
on the number of tokens, so that a step can be captured as a CUDA graph.
"""

from __future__ import annotations

from typing import NamedTuple

import torch
from torch import Tensor
from torch.nn import functional

from weft.fast.steps.kv_cache import LENGTH_MULTIPLE
from weft.models.interface import StepOutput
from weft.models.language_model import LanguageModelMemory, LanguageModelState, RecurrentLanguageModel
from weft.models.recurrent import StackState
from weft.ragged import additive_mask
from weft.tree import Tree


class HistoryCache(NamedTuple):
    """h_0 … h_{t−1} of every hypothesis, with storage for more; written in place."""

    history_RTD: Tensor
    length_1: Tensor
    """Number of stored states: t."""

    def select_rows(self, rows: Tensor) -> HistoryCache:
        return self._replace(history_RTD=self.history_RTD.index_select(0, rows))

    def keep_rows(self, rows: Tensor) -> HistoryCache:
        return self.select_rows(rows)

    def with_capacity(self, tokens: int, *, return_attention: bool) -> HistoryCache:
        return self._replace(history_RTD=functional.pad(self.history_RTD, (0, 0, 0, tokens)))

    @property
    def mask_RT(self) -> Tensor:
        """Additive: 0 at a state, −∞ at storage for those to come."""
        empty_T = torch.arange(self.history_RTD.shape[1], device=self.history_RTD.device) >= self.length_1
        return additive_mask(empty_T, self.history_RTD.dtype).expand(self.history_RTD.shape[:2])

    def append(self, states_RD: Tensor) -> HistoryCache:
        """The history with the next state of every hypothesis appended."""
        self.history_RTD.index_copy_(1, self.length_1, states_RD[:, None])
        return self._replace(length_1=self.length_1 + 1)


class CachedHistoryState(NamedTuple):
    """The state of a hypothesis whose previous states are in storage of a fixed size."""

    cache: HistoryCache
    layers: StackState


def cached_history(state: LanguageModelState, tokens: int, **_: bool) -> Tree:
    """A state with storage for this many more tokens; without a history its shapes never change."""
    if state.history_RTD is None:
        return state
    length = state.history_RTD.shape[1]
    capacity = -(-length // LENGTH_MULTIPLE) * LENGTH_MULTIPLE + tokens
    history_RTD = functional.pad(state.history_RTD, (0, 0, 0, capacity - length))
    length_1 = torch.full((1,), length, device=history_RTD.device)
    return CachedHistoryState(HistoryCache(history_RTD, length_1), state.layers)


def is_cached(self: RecurrentLanguageModel, tokens_R: Tensor, state: object, memory: LanguageModelMemory) -> bool:
    return isinstance(state, CachedHistoryState)


def step(
    self: RecurrentLanguageModel, tokens_R: Tensor, state: CachedHistoryState, memory: LanguageModelMemory
) -> StepOutput:
    """See `RecurrentLanguageModel.step`."""
    assert self.attention is not None
    output_RD, layers = self.stack.step(self.embedding(tokens_R), state.layers)
    keys = self.attention.project_masked(state.cache.history_RTD, state.cache.mask_RT)
    after = CachedHistoryState(state.cache.append(output_RD), layers)
    context_R1D, weights_R1T = self.attention(output_RD[:, None], keys)
    logits_RV = self.output(self.readout_states(output_RD, context_R1D[:, 0]))
    return StepOutput(logits_RV, after, weights_R1T[:, 0])
