"""Loops that are observed: every step is seen, and sentences that nobody waits for leave the batch."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pytest
import torch

from fixtures.small_networks import neural
from weft.models.interface import Model
from weft.ragged import Ragged
from weft.search.beam import BeamRecord, beam_search
from weft.search.interface import Hypothesis, SearchRequest
from weft.search.loop import ObservedLoop
from weft.search.sampling import Sampler, greedy_search, sample

SOURCES = [[3, 7, 5], [4, 9], [4, 9, 3, 6, 8]]
SEARCHES = {
    "beam": beam_search,
    "greedy": greedy_search,
    "sample": lambda model, request: sample(model, request, Sampler()),
}
every_search = pytest.mark.parametrize("search", SEARCHES.values(), ids=SEARCHES)


class Observer:
    """Counts the steps of each sentence, and abandons some after a number of them."""

    def __init__(self, abandoned: dict[int, int]) -> None:
        self.abandoned = abandoned
        self.steps: dict[int, int] = {}
        self.records: list[Any] = []

    def on_step(self, sentences: Sequence[int], record: Any) -> None:
        self.records.append(record)
        for sentence in sentences:
            self.steps[sentence] = self.steps.get(sentence, 0) + 1

    def is_abandoned(self, sentence: int) -> bool:
        return self.steps[sentence] >= self.abandoned.get(sentence, 99)


def request_for(model: Model, **changes: Any) -> SearchRequest:
    memory = model.encode(Ragged.of(SOURCES))
    return SearchRequest(memory=memory, begin=1, end=2, max_lengths=[9, 7, 8], rng_keys=[1, 2, 3], **changes)


def same(one: Hypothesis, other: Hypothesis) -> None:
    assert one.tokens == other.tokens
    assert one.score == pytest.approx(other.score, abs=1e-5)


@torch.no_grad()
@every_search
@pytest.mark.parametrize("kind", ["before", "transformer"])
def test_observing_changes_nothing(search: Any, kind: str) -> None:
    model = neural(kind, vocabulary=11)
    observer = Observer({})
    observed = search(model, request_for(model, loop=ObservedLoop(observer)))
    for [one, *_], [other, *_] in zip(observed, search(model, request_for(model)), strict=True):
        same(one, other)
    assert set(observer.steps) == {0, 1, 2}
    assert all(isinstance(record, BeamRecord) for record in observer.records) == (search is beam_search)


@torch.no_grad()
@every_search
def test_abandoned_sentences_leave(search: Any) -> None:
    model = neural("before", vocabulary=11)
    observer = Observer({1: 2})
    results = search(model, request_for(model, loop=ObservedLoop(observer), min_lengths=[5, 5, 5]))
    plain = search(model, request_for(model, min_lengths=[5, 5, 5]))
    assert observer.steps[1] == 2 and observer.steps[0] >= 5
    assert len(results) == 3
    for row in (0, 2):
        same(results[row][0], plain[row][0])


@torch.no_grad()
@every_search
def test_all_are_abandoned(search: Any) -> None:
    model = neural("before", vocabulary=11)
    observer = Observer({0: 1, 1: 1, 2: 1})
    assert len(search(model, request_for(model, loop=ObservedLoop(observer)))) == 3
    assert observer.steps == {0: 1, 1: 1, 2: 1}
