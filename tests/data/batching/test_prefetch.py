from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator
from itertools import count, islice

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from weft.data.batching.batches import LazyBatch, Part, Position, StepBatches, StoredCorpus, draw_steps
from weft.data.batching.prefetch import prefetch
from weft.data.store.token_store import Batch, PairStore, TokenStore
from weft.ragged import Ragged

quick = settings(deadline=None, max_examples=50)


def corpus(count: int = 150) -> PairStore:
    """Every token of a pair is the pair's number; targets are the longer ones."""
    return PairStore(
        TokenStore.of([row] * (row % 4) for row in range(count)),
        TokenStore.of([row] * (1 + row % 7) for row in range(count)),
    )


MIXED = StoredCorpus(
    corpus(), (Part(0, 40, last_step=6), Part(40, 30, variants=2, weight=2.0), Part(100, 50, first_step=4))
)
PLAIN = StoredCorpus(corpus())
either = pytest.mark.parametrize("data", [PLAIN, MIXED], ids=["plain", "mixed"])


def told(batches: list[Batch]) -> list[tuple[list[int], list[int]]]:
    return [(batch.source.values.tolist(), batch.target.values.tolist()) for batch in batches]


class TestDrawing:
    @either
    @pytest.mark.parametrize("batches_per_step", [1, 3, 8])
    def test_alone_is_what_the_stream_gives(self, data: StoredCorpus, batches_per_step: int) -> None:
        stream = data.batches(30, seed=1)
        for drawn in islice(draw_steps(data.batches(30, seed=1), first_step=1, batches_per_step=batches_per_step), 12):
            batches = [planned.make() for planned in stream.take(drawn.step, batches_per_step)]
            assert told(drawn.batches) == told(batches) and drawn.numbers == list(range(batches_per_step))
            assert drawn.source_tokens == sum(batch.source.layout.total for batch in batches)
            assert drawn.target_tokens == sum(batch.target.layout.total for batch in batches)
            assert drawn.position == stream.position

    @quick
    @given(st.sampled_from([PLAIN, MIXED]), st.integers(1, 9), st.integers(1, 12), st.integers(0, 3))
    def test_workers_share_out_what_one_alone_would_have(
        self, data: StoredCorpus, batches_per_step: int, workers: int, seed: int
    ) -> None:
        alone = draw_steps(data.batches(20, seed=seed), first_step=1, batches_per_step=batches_per_step)
        shares = [
            draw_steps(
                data.batches(20, seed=seed),
                first_step=1,
                batches_per_step=batches_per_step,
                rank=rank,
                world_size=workers,
            )
            for rank in range(workers)
        ]
        for whole, *parts in islice(zip(alone, *shares, strict=True), 9):
            for part in parts:
                same = ("step", "epoch", "source_tokens", "target_tokens", "position")
                assert [getattr(part, name) for name in same] == [getattr(whole, name) for name in same]
                assert len(part.batches) == len(part.numbers)
            found = {n: b for part in parts for n, b in zip(part.numbers, part.batches, strict=True)}
            assert sum(len(part.batches) for part in parts) == batches_per_step and sorted(found) == whole.numbers
            assert told([found[number] for number in whole.numbers]) == told(whole.batches)
            sizes = [len(part.batches) for part in parts]
            assert max(sizes) - min(sizes) <= 1, "the work is even"
            assert sum(batch.target.layout.total for batch in found.values()) == whole.target_tokens

    @either
    @pytest.mark.parametrize("skip", [1, 3, 5, 6, 7, 11])
    def test_a_saved_position_leads_to_the_next_step(self, data: StoredCorpus, skip: int) -> None:
        """Of any number of workers."""
        *_, last, first, second = islice(
            draw_steps(data.batches(30, seed=1), first_step=1, batches_per_step=4), skip + 2
        )
        assert last.step == skip
        for workers in (1, 3):
            again = [
                draw_steps(
                    data.batches(30, seed=1, start=last.position),
                    first_step=skip + 1,
                    batches_per_step=4,
                    rank=n,
                    world_size=workers,
                )
                for n in range(workers)
            ]
            for wanted in (first, second):
                drawn = [next(one) for one in again]
                batches = {n: b for part in drawn for n, b in zip(part.numbers, part.batches, strict=True)}
                assert told([batches[number] for number in range(4)]) == told(wanted.batches)
                assert all(one[:2] == wanted[:2] and one.position == wanted.position for one in drawn)

    def test_the_batches_of_others_are_not_made(self) -> None:
        class Stream:
            position = Position()
            made: list[int] = []  # noqa: RUF012

            def make(self, number: int) -> Batch:
                self.made.append(number)
                return Batch(Ragged.of([[1]]), Ragged.of([[1]]))

            def take(self, step: int, count: int) -> list[LazyBatch]:
                return [LazyBatch(1, number, lambda number=number: self.make(number)) for number in range(count)]  # type: ignore[misc]

        drawn = next(draw_steps(Stream(), first_step=5, batches_per_step=7, rank=1, world_size=3))
        assert Stream.made == drawn.numbers == [1, 4]
        assert (drawn.step, drawn.source_tokens, drawn.target_tokens) == (5, 7, 21)

    def test_the_epoch_is_that_of_the_first_batch(self) -> None:
        stream = PLAIN.batches(100_000, seed=1)  # an epoch is one batch
        epochs = [drawn.epoch for drawn in islice(draw_steps(stream, first_step=1, batches_per_step=3), 4)]
        assert epochs == [0, 3, 6, 9]

    def test_a_stage_begins_with_its_epoch_0(self) -> None:
        data = StoredCorpus(corpus(), (Part(0, 100), Part(100, 50, first_step=4)))
        drawn = list(islice(draw_steps(data.batches(100_000, seed=1), first_step=1, batches_per_step=1), 6))
        assert [one.epoch for one in drawn] == [0, 1, 2, 0, 1, 2]
        assert [one.position for one in drawn] == [Position(stage, epoch) for stage in (0, 1) for epoch in (1, 2, 3)]

    def test_of_given_batches(self) -> None:
        batches = [
            corpus().batch(rows.nonzero()[0]) for rows in (corpus().target.lengths > 5, corpus().target.lengths < 2)
        ]
        drawn = StepBatches.of(batches)
        assert (drawn.step, drawn.epoch, drawn.numbers, drawn.position) == (1, 0, [0, 1], Position())
        assert drawn.batches == batches
        assert drawn.source_tokens == sum(len(batch.source.values) for batch in batches)
        assert drawn.target_tokens == sum(len(batch.target.values) for batch in batches)


def threads() -> list[threading.Thread]:
    return [thread for thread in threading.enumerate() if thread.name == "weft-batches"]


def until(condition: Callable[[], bool]) -> None:
    """Wait for another thread; a minute is for ever."""
    for _ in range(6000):
        if condition():
            return
        time.sleep(0.01)
    raise AssertionError("it never came to that")


@pytest.fixture(autouse=True)
def _no_thread_is_left() -> Iterator[None]:
    before = threads()
    yield
    assert threads() == before


class TestAhead:
    @quick
    @given(st.lists(st.one_of(st.none(), st.integers(), st.text(max_size=3)), max_size=20), st.integers(1, 6))
    def test_the_same_items_in_the_same_order(self, items: list[object], depth: int) -> None:
        assert list(prefetch(iter(items), depth)) == items

    def test_they_are_made_by_another_thread(self) -> None:
        def items() -> Iterator[int]:
            yield threading.get_ident()

        [maker] = prefetch(items())
        assert maker != threading.get_ident()

    def test_it_ends_once(self) -> None:
        stream = prefetch(iter([1]))
        assert next(stream) == 1
        assert next(stream, None) is None and next(stream, None) is None

    @pytest.mark.parametrize("error", [ValueError("bad"), KeyboardInterrupt(), SystemExit(3), MemoryError()])
    def test_an_error_arrives_after_what_came_before_it(self, error: BaseException) -> None:
        def items() -> Iterator[int]:
            yield from range(3)
            raise error

        stream, seen = prefetch(items()), []
        with pytest.raises(type(error)) as caught:
            for item in stream:
                seen.append(item)
        assert seen == [0, 1, 2] and caught.value is error
        assert not threads() and next(stream, None) is None

    @pytest.mark.parametrize("taken", [1, 2, 9])
    def test_closing_it_stops_the_thread(self, taken: int) -> None:
        stream = prefetch(count())
        assert list(islice(stream, taken)) == list(range(taken))
        assert len(threads()) == 1
        stream.close()  # type: ignore[attr-defined]
        assert not threads()

    def test_letting_it_go_stops_the_thread(self) -> None:
        stream = prefetch(count())
        next(stream)
        del stream
        assert not threads()

    def test_nothing_begins_before_the_first_is_asked_for(self) -> None:
        made: list[int] = []
        stream = prefetch(made.append(number) or number for number in count())  # type: ignore[func-returns-value]
        assert not threads() and not made
        del stream

    @pytest.mark.parametrize("depth", [1, 2, 5])
    def test_no_more_are_made_than_may_wait(self, depth: int) -> None:
        """As many as may wait, and one that waits to wait."""
        made = 0

        def items() -> Iterator[int]:
            nonlocal made
            for number in count():
                made += 1
                yield number

        stream = prefetch(items(), depth)
        for taken in range(1, 8):
            next(stream)
            until(lambda: made >= taken + depth)  # noqa: B023
            time.sleep(0.01)
            assert made == taken + depth
        stream.close()  # type: ignore[attr-defined]

    @either
    def test_steps_are_the_same_with_it(self, data: StoredCorpus) -> None:
        stream = prefetch(draw_steps(data.batches(30, seed=1), first_step=1, batches_per_step=2))
        for ours, theirs in zip(
            islice(stream, 12), draw_steps(data.batches(30, seed=1), first_step=1, batches_per_step=2), strict=False
        ):
            assert told(ours.batches) == told(theirs.batches)
            assert (ours.step, ours.epoch, *ours[3:]) == (theirs.step, theirs.epoch, *theirs[3:])
        stream.close()  # type: ignore[attr-defined]
