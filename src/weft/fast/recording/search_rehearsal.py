"""The first search of a kind, gone through without its kernels, so that all of them are compiled at the same time.

A search launches its kernels for the first time in turn: of the encoder, of a step, of the steps of fewer sentences as
others are done, of the best hypotheses. See `weft.fast.recording.compilation`.

Changes no result; tests/fast/recording/test_search_rehearsal.py.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Callable
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np
import torch

from weft.fast.recording.buffer_sizes import (
    INITIAL_CAPACITY,
    few_active,
    initial_capacity,
    pad_sentences,
    padded_count,
    take_sentences,
)
from weft.fast.recording.compilation import Rehearsals, compiles_ahead, rehearse
from weft.fast.steps.fixed_capacity import fixed_capacity
from weft.models.interface import Model
from weft.search.loop import SearchInputs, SearchStart, SearchState, Step, StepLoop, StepRecords
from weft.translation.engines.batch_sizes import StepSize
from weft.translation.engines.interface import TranslationRequest
from weft.tree import map_tree

if TYPE_CHECKING:
    from weft.translation.engines.torch import TorchEngine

ROW_COUNTS = (1, 16, 64)
"""Up to so many hypotheses, other kernels are used than above."""
FEW_SENTENCES = (16, 12, 3, 1)
MOST_SENTENCES = 1024
"""Sentences that are rehearsed at a time."""


class SearchRehearsals:
    """The searches that were rehearsed for one model on a GPU."""

    def __init__(self, model: Model, device: torch.device) -> None:
        self.model = model
        self.device = device
        self._seen: set[Any] = set()

    def before(self, engine: TorchEngine, request: TranslationRequest) -> None:
        """Rehearse a request if it is the first of its kind, and this machine has not had one."""
        sentences = min(len(request.sources), MOST_SENTENCES)
        if not sentences or not compiles_ahead():
            return
        settings = request.settings
        kind = (
            (settings.kind, settings.size, settings.groups, settings.stop, settings.normalization),
            (request.return_attention, request.return_trace, bool(settings.coverage_penalty), bool(request.prompts)),
            bisect_left(ROW_COUNTS, sentences * settings.size if settings.kind == "beam" else sentences),
        )
        if kind in self._seen:
            return
        self._seen.add(kind)
        weights = [(tuple(weight.shape), weight.dtype) for weight in _parameters(self.model)]
        notes = Rehearsals("search", str(self.model), weights, kind)
        if not notes.are_done:
            rehearse(lambda: _search(engine, request, sentences))
            notes.note()


def _parameters(model: Model) -> list[torch.Tensor]:
    return list(model.parameters()) if isinstance(model, torch.nn.Module) else []


def _search(engine: TorchEngine, request: TranslationRequest, sentences: int) -> None:
    """Search the first sentences, but for few steps."""
    batch = engine.prepare(request, np.arange(sentences))
    loop = RehearsedLoop(engine.device)
    engine.search_prepared(batch._replace(inputs=replace(batch.inputs, loop=loop)), request.settings)
    model, inputs = engine.prepare(request, np.arange(1))[1:]
    StepSize.measure(model, inputs.memory, inputs.begin, engine.device)


def _fewer(sentences: int) -> int:
    """The next of few sentences: an end of a search may have any number of them."""
    return max((count for count in FEW_SENTENCES if count < sentences), default=0)


class RehearsedLoop(StepLoop):
    """Takes one step with each number of sentences that a search may move through (`few_active`)."""

    def __init__(self, device: torch.device) -> None:
        self.device = device

    def search(
        self,
        step: Step,
        start: SearchStart,
        inputs: SearchInputs,
        *,
        return_attention: bool = False,
        callback: Callable[[], None] | None = None,
    ) -> list[StepRecords]:
        state = start(inputs.on(self.device))
        count = len(state.sentences_B)
        state = pad_sentences(state, padded_count(count))

        def grow(tokens: int) -> SearchState:
            grown = fixed_capacity(state.model_state, tokens, return_attention=return_attention)
            return state._replace(model_state=grown)

        state = grow(capacity := initial_capacity(len(state.tokens_R)))
        _, record = step(state)
        if capacity < INITIAL_CAPACITY:
            state = grow(INITIAL_CAPACITY - capacity)
            step(state)
        while few := few_active(len(state.sentences_B)) or _fewer(len(state.sentences_B)):
            state = take_sentences(state, torch.arange(few, device=self.device))
            step(state)
        return [StepRecords(torch.arange(count), map_tree(lambda leaf: leaf[None, :count], record))]
