"""Batches filled up to one shape: the parts that need no GPU. That the updates agree: tests/contracts/test_gpu.py."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from weft.data.batching.batches import Position, StoredCorpus, side_budgets
from weft.data.store.token_store import Batch, PairStore, TokenStore
from weft.models import AnyModel
from weft.models.build import build_model
from weft.ragged import Layout
from weft.recipe import ModelSettings, TrainingSettings
from weft.training.cuda_graph_update import (
    BOUNDS,
    Side,
    bound,
    can_pack,
    filled,
    frame_of,
    pays_to_compile,
    rows_needed,
)

quick = settings(deadline=None, max_examples=50)
CPU, CUDA = torch.device("cpu"), torch.device("cuda")
LENGTHS = st.lists(st.tuples(st.integers(1, 13), st.integers(1, 13)), min_size=1, max_size=50)
either = pytest.mark.parametrize("recurrent", [False, True], ids=["attention", "recurrence"])
STACK = {"kind": "transformer", "layers": 1, "hidden": 6, "heads": 2, "feed_forward": 7}


def corpus(lengths: list[tuple[int, int]]) -> PairStore:
    return PairStore(
        TokenStore.of([3] * source for source, _ in lengths), TokenStore.of([4] * target for _, target in lengths)
    )


def epoch_of(pairs: PairStore, budget: int, epoch: int) -> Iterator[Batch]:
    """All batches of an epoch."""
    stream = StoredCorpus(pairs).batches(budget, seed=1, start=Position(epoch=epoch))
    while stream.position.epoch == epoch:
        [planned] = stream.take(1, 1)
        yield planned.make()


def transformer(**tree: object) -> AnyModel:
    given = {"embedding": 6, "encoder": STACK, "decoder": STACK, **tree}
    return build_model(ModelSettings.model_validate(given), source_size=11, target_size=13)


@either
def test_a_frame_by_hand(recurrent: bool) -> None:
    pairs = corpus([(4, 8), (2, 3), (5, 11)])  # 11 and 22 tokens
    assert frame_of(pairs.corpus_size, 100, recurrent=recurrent)[:4] == (53, 100, 5, 11)
    assert frame_of(pairs.corpus_size, 6400, recurrent=recurrent)[:4] == (3360, 6400, 5, 11)


@either
def test_a_row_over_the_budget_sets_the_shape(recurrent: bool) -> None:
    assert frame_of(corpus([(4, 8), (30, 3), (3, 50)]).corpus_size, 20, recurrent=recurrent)[:4] == (30, 50, 30, 50)


@either
def test_the_frame_of_nothing_has_room_for_a_token(recurrent: bool) -> None:
    assert min(frame_of(corpus([]).corpus_size, 20, recurrent=recurrent)[:5]) >= 1


@quick
@given(LENGTHS, st.integers(1, 40), st.integers(0, 3), st.booleans())
def test_every_batch_of_an_epoch_fits_into_the_frame(
    lengths: list[tuple[int, int]], budget: int, epoch: int, recurrent: bool
) -> None:
    """And, filled up, it is just the frame: all of its tokens, no row over the bound, as many rows as its key says."""
    pairs = corpus(lengths)
    frame = frame_of(pairs.corpus_size, budget, recurrent=recurrent)
    assert all(own >= least for own, least in zip(frame[:2], side_budgets(pairs.corpus_size, budget), strict=True))
    for batch in epoch_of(pairs, budget, epoch):
        key = frame.key(batch)
        assert key.rows % frame.row_step == 0
        for own, tokens, longest in (
            (batch.source.lengths, frame.source_tokens, key.max_source_length),
            (batch.target.lengths, frame.target_tokens, key.max_target_length),
        ):
            found = Side(tokens, longest, key.rows, CPU)._lengths(own)
            assert len(found) == key.rows >= rows_needed(own, tokens, longest)
            assert int(found.sum()) == tokens and int(found.max()) <= longest
            assert found[: len(own)].tolist() == own.tolist() and int(found.min()) >= 0


def test_bounds_are_few() -> None:
    assert [bound(longest, 300, (16, 32, 64)) for longest in (1, 16, 17, 33, 64)] == [16, 16, 32, 64, 64]
    assert bound(65, 300, (16, 32, 64)) == bound(300, 300, (16, 32, 64)) == 300
    assert [bound(longest, 20, (16, 32, 64)) for longest in (1, 16, 17, 20)] == [16, 16, 20, 20], "no row is longer"
    for bounds in BOUNDS.values():
        assert list(bounds) == sorted(set(bounds))


def test_bounds_keep_to_learned_positions() -> None:
    """Rows of at most 12 tokens, as many as were learned: what a batch is filled up to can be read."""
    learned = {**STACK, "positions": "learned", "max_positions": 12}
    model = transformer(encoder=learned, decoder=learned)
    pairs = corpus([(12, 12), (3, 5)])
    frame = frame_of(pairs.corpus_size, 40, recurrent=False)
    key = frame.key(pairs.batch(np.array([1])))
    source = Side(frame.source_tokens, key.max_source_length, key.rows, CPU).ragged()
    target = Side(frame.target_tokens, key.max_target_length, key.rows, CPU).ragged()
    model.hidden_states(source, target)


def test_rows_that_fill_up_by_hand() -> None:
    side = Side(20, 6, 7, CPU)
    assert side._lengths(torch.tensor([3, 2])).tolist() == [3, 2, 6, 6, 3, 0, 0]
    assert side._lengths(torch.tensor([6, 6, 6, 2])).tolist() == [6, 6, 6, 2, 0, 0, 0]
    assert side._lengths(torch.tensor([2, 6])).tolist() == [2, 6, 6, 6, 0, 0, 0]
    assert rows_needed(torch.tensor([3, 2]), 20, 6) == 5
    assert rows_needed(torch.tensor([6, 6, 6, 2]), 20, 6) == 4
    assert rows_needed(torch.tensor([2, 6]), 20, 6) == 4


def test_a_side_is_a_ragged_of_its_shape() -> None:
    ragged = Side(20, 6, 7, CPU).ragged()
    assert ragged.values.tolist() == [0] * 20
    assert (ragged.layout.rows, ragged.layout.total, ragged.layout.longest) == (7, 20, 6)
    assert ragged.layout.device_offsets.tolist() == [0, 6, 12, 18, 20, 20, 20, 20]


def test_a_bound_stands_for_the_longest_row() -> None:
    assert Layout(torch.tensor([2, 3]), longest=9).longest == 9
    assert Layout(torch.tensor([2, 3])).longest == 3


@quick
@given(st.lists(st.integers(0, 99), max_size=9), st.integers(0, 5), st.integers(-1, 50))
def test_filled(values: list[int], more: int, filler: int) -> None:
    given = torch.tensor(values, dtype=torch.int64)
    found = filled(given, len(values) + more, filler)
    assert found.tolist() == values + [filler] * more and found.dtype == torch.int64
    assert given.tolist() == values


class TestWhatCanBePacked:
    @pytest.mark.parametrize(
        ("model", "training", "expected"),
        [
            ({}, {}, True),
            ({}, {"optimizer": "adam"}, True),
            ({"encoder": {**STACK, "kind": "attention"}}, {}, True),
            ({"encoder": {"hidden": 6}, "decoder": {"hidden": 6}}, {}, True),
            ({}, {"optimizer": "sgd"}, False),
            ({}, {"accumulate": 2}, False),
            ({}, {"forcing": "scheduled"}, False),
            ({}, {"forcing": "free"}, False),
            ({"encoder": {"hidden": 6, "bidirectional": False, "reverse_source": True}}, {}, False),
            ({"kind": "prefix_lm"}, {}, False),
            ({"kind": "language_model"}, {}, False),
        ],
    )
    def test_on_a_gpu(self, model: dict[str, object], training: dict[str, object], expected: bool) -> None:
        built, asked = transformer(**model), TrainingSettings(**training)
        assert can_pack(built, asked, CUDA) is expected
        assert not can_pack(built, asked, CPU)


def test_compiling_pays_in_long_runs_of_large_models() -> None:
    small = transformer()
    assert not pays_to_compile(small, TrainingSettings(steps=100_000))
    assert pays_to_compile(small, TrainingSettings(steps=10**15))
