"""The queue: fair between clients and jobs, in batches of one key and of a budget."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine, Sequence
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from weft.apps.serve.errors import ServiceError
from weft.apps.serve.queueing import REMAINDER, Batch, FairQueue, Item, Job, Rates, Speed


def run(test: Callable[[], Coroutine[Any, Any, None]]) -> None:
    asyncio.run(test())


def job(rows: Sequence[str], client: str = "x", key: str | None = "k") -> Job:
    return Job("translate", {}, rows=list(rows), batch_key=key, client=client)


def take(queue: FairQueue, budget: float = 1e9) -> Batch | None:
    return queue.take(lambda key, text: 1.0, budget)


def texts(batch: Batch | None) -> str:
    assert batch is not None
    return "".join(item.job.rows[item.row] for item in batch.items)


def test_clients_take_turns() -> None:
    async def test() -> None:
        queue = FairQueue()
        for one in (job("aaaaaa", "long"), job("b", "short"), job("cc", "other")):
            queue.add(one)
        assert texts(take(queue, 4)) == "abca"
        assert texts(take(queue, 3)) == "ca"
        queue.add(job("d", "new"))
        assert texts(take(queue, 2)) in ("ad", "da")
        assert texts(take(queue)) == "aa"
        assert take(queue) is None and len(queue) == 0

    run(test)


def test_a_batch_with_rows_of_others_is_half_as_large() -> None:
    """Who has waited for a batch of a flood does not wait for a full one again; without others it is full."""

    async def test() -> None:
        queue = FairQueue()
        queue.add(job("a" * 100, "flood"))
        assert texts(take(queue, 20)) == "a" * 20
        queue.add(job("b", "other"))
        assert texts(take(queue, 20)) == "ab" + "a" * 8
        queue.add(job("b" * 9, "other"))
        assert sorted(texts(take(queue, 20))) == sorted("ab" * 9)
        queue.add(job("b" * 50, "other"))
        assert len(texts(take(queue, 20))) == 20, "both would fill it"
        queue = FairQueue()
        for name in "abcdefgh":
            queue.add(job(name * 4, name))
        assert len(texts(take(queue, 20))) == 20, "nobody would fill it alone"

    run(test)


def test_the_jobs_of_a_client_take_turns() -> None:
    async def test() -> None:
        queue = FairQueue()
        queue.add(job("aaaa"))
        queue.add(job("b"))
        assert texts(take(queue, 3)) == "aba"

    run(test)


def test_a_batch_has_one_key() -> None:
    async def test() -> None:
        queue = FairQueue()
        for rows, client, key in (("aa", "x", "1"), ("b", "y", "2"), ("c", "z", "1"), ("d", "w", None)):
            queue.add(job(rows, client, key))
        batches = [take(queue) for _ in range(3)]
        assert [texts(batch) for batch in batches] == ["aca", "b", ""]
        assert batches[2] is not None and batches[2].alone is not None and batches[2].alone.rows == ["d"]

    run(test)


def test_a_text_above_the_budget_is_searched_alone() -> None:
    async def test() -> None:
        queue = FairQueue()
        queue.add(job("ab"))
        assert texts(take(queue, 0.5)) == "a"
        assert texts(take(queue, 0.5)) == "b"

    run(test)


def test_who_leaves_is_not_searched() -> None:
    async def test() -> None:
        queue = FairQueue()
        first = job("a")
        queue.add(first)
        queue.add(job("b", "y"))
        queue.remove(first)
        queue.add(job("c"))
        assert texts(take(queue)) == "bc"

    run(test)


def test_a_small_remainder_is_taken_along() -> None:
    """A batch of 5 instead of 4 and then 1; not 6, and of its own kind of search only."""

    async def test() -> None:
        queue = FairQueue()
        queue.add(job("abcde"))
        queue.add(job("x", "y", "other"))
        queue.add(job("zzz", "y", "another"))
        batch = take(queue, 4.1)
        assert texts(batch) == "abcde" and batch is not None and batch.cost == 5.0
        queue = FairQueue()
        queue.add(job("abcdef"))
        batch = take(queue, 4.1)
        assert texts(batch) == "abcd" and batch is not None and batch.cost == 4.0

    run(test)


def test_jobs_that_are_sent_again_come_first_and_alone() -> None:
    async def test() -> None:
        queue = FairQueue()
        queue.add(job("a"))
        again = job("bb", "y")
        again.attempts = 1
        queue.return_first([again])
        batch = take(queue)
        assert texts(batch) == "bb" and batch is not None and batch.alone is None
        assert texts(take(queue)) == "a"

    run(test)


@given(
    st.lists(
        st.tuples(st.text("abc", min_size=1, max_size=9), st.sampled_from("xyz"), st.sampled_from("12")), max_size=12
    ),
    st.integers(1, 9),
)
def test_every_row_is_taken_once(jobs: list[tuple[str, str, str]], budget: int) -> None:
    async def test() -> None:
        queue = FairQueue()
        added = [job(*one) for one in jobs]
        for one in added:
            queue.add(one)
        taken = []
        while (batch := take(queue, budget)) is not None:
            assert 1 <= len(batch.items) <= REMAINDER * budget
            assert len({item.job.batch_key for item in batch.items}) == 1
            taken += batch.items
        assert sorted((added.index(item.job), item.row) for item in taken) == [
            (number, row) for number, one in enumerate(added) for row in range(len(one.rows))
        ]

    run(test)


def test_results_and_failures() -> None:
    async def test() -> None:
        one = job("ab")
        one.put(1, b"B")
        assert not one.done.done()
        one.put(0, b"A")
        assert one.done.done() and one.done.result() == [b"A", b"B"]
        other = job("a")
        other.fail(ServiceError(422, "no"))
        other.put(0, b"A")
        assert other.abandoned and other.done.done() and isinstance(other.done.exception(), ServiceError)

    run(test)


def text(tokens: int) -> str:
    """A text of so many tokens, if a character is a token."""
    return "a" * (tokens - 1)


def known_rates(speed: Speed | None = None) -> Rates:
    """A character is a token."""
    rates = Rates(batch_tokens=4096, batch_seconds=1.0)
    rates.tokens_per_character = 1.0
    if speed is not None:
        rates.speeds["k"] = speed
    return rates


def test_rates_keep_batches_short() -> None:
    rates = known_rates()

    def rows(tokens: int, key: str = "k") -> float:
        """Rows of a full batch."""
        return 1.0 / rates.cost(key, text(tokens))

    assert rows(8) == pytest.approx(64), "512 tokens"
    rates.measured("k", [8.0] * 64, 2.0)
    assert rows(8) == pytest.approx(32)
    rates.measured("k", [8.0], 0.5)  # a small batch says nothing
    assert rows(8) == pytest.approx(32)
    rates.measured("k", [8.0] * 32, 2.0)
    assert 16 < rows(8) < 32
    for _ in range(2):
        rates.measured("k", [8.0] * 32, 0.001)
    assert rows(8) == pytest.approx(512), "4,096 tokens"
    rates.measured("small", [10.0], 0.1)
    assert rows(8, "small") == pytest.approx(64)
    for number in range(200):
        rates.measured(str(number), [1.0], 1.0)
    assert len(rates.speeds) == 64


def test_short_texts_after_long_ones_and_long_ones_after_short_ones() -> None:
    """Long ones are many tokens a second, short ones many rows; no batch is much too large meanwhile."""

    def seconds(rows: list[float]) -> float:
        """Of a search whose steps take longer than its encoder."""
        return sum(0.01 + row * 0.0001 for row in rows)

    rates = known_rates()
    rates.batch_tokens = 100_000
    for tokens in (400.0, 8.0, 400.0, 8.0):
        for _ in range(30):
            count = max(int(1.0 / rates.cost("k", text(int(tokens)))), 1)
            assert seconds([tokens] * count) < 1.5
            rates.measured("k", [tokens] * count, seconds([tokens] * count))
        assert seconds([tokens] * count) > 0.7, "nearly a full batch, after thirty"
    mixed = [400.0] * 10 + [8.0] * 40
    assert 0.8 < sum(map(rates.speeds["k"].seconds, mixed)) / seconds(mixed) < 1.2


def test_how_long_jobs_take() -> None:
    async def test() -> None:
        rates = known_rates()
        one, stream = job(["a" * 10, "b" * 20]), job("a", key=None)
        assert rates.seconds(one) == rates.batch_time(one) == rates.seconds(stream) == 0.0, "nothing is known yet"
        assert rates.expected(Batch([Item(one, 0)], None, 1.0)) == 0.0
        rates.measured("k", [10.0] * 60, 2.0)
        assert rates.seconds(one) == pytest.approx(32 / 300)
        assert rates.batch_time(one) == 1.0
        assert rates.expected(Batch([Item(one, 0), Item(one, 1)], None, 1.0)) == pytest.approx(32 / 300)
        one.taken = 1
        assert rates.seconds(one) == pytest.approx(16 / 300), "the half that waits"
        assert rates.seconds(job("a")) == pytest.approx(1 / 30), "no less than a short row"
        rates.measured_alone("translate", 2.0)
        rates.measured_alone("translate", 3.0)
        assert rates.seconds(stream) == pytest.approx(2.3)
        assert rates.expected(Batch([], stream, 1.0)) == pytest.approx(2.3)

    run(test)


@pytest.mark.parametrize(
    ("rows", "seconds", "rate"),
    [
        (7, 0.1, 100 + 0.3 * 600),  # full: 0.7 of 100 tokens
        (6, 0.9, 100.0),  # neither full nor faster than known
        (6, 0.1, 600.0),  # not full, but faster
        (1, 1.0, 100 + 0.3 * -90),  # as long as a full one
        (10, 0.0, 100 + 0.3 * (1e6 - 100)),  # in no time that could be measured
    ],
)
def test_what_a_batch_says_about_the_speed(rows: int, seconds: float, rate: float) -> None:
    rates = known_rates(Speed(100.0, 10.0))
    rates.measured("k", [10.0] * rows, seconds)
    assert rates.speeds["k"] == pytest.approx((rate, rate / 10))
    rates = known_rates(Speed(100.0, 99.0))
    rates.measured("k", [10.0] * rows, seconds)
    assert rates.speeds["k"] == pytest.approx((rate, 99.0)), "of long rows"


def test_the_waiting_cost_is_counted_up_to_a_limit() -> None:
    async def test() -> None:
        queue = FairQueue()
        again = job("zz", "w")
        again.attempts = 1
        for one in (job("abc"), job("de", "y", "other"), again):
            queue.add(one)

        def cost(limit: float, key: str | None = None) -> float:
            return queue.waiting_cost(lambda key, text: 2.0, limit, key)

        assert (cost(99), cost(14), cost(13)) == (14.0, 14.0, 13.0)
        assert (cost(99, "k"), cost(99, "other"), cost(5, "k"), cost(99, "none")) == (6.0, 4.0, 5.0, 0.0)
        queue.add(job("x", "v", None))
        assert cost(99) == 99.0, "how much that is nobody knows"
        assert cost(99, "k") == 6.0

    run(test)


def test_jobs_that_are_sent_again_keep_their_order_and_wake_the_queue() -> None:
    async def test() -> None:
        queue = FairQueue()
        queue.add(job("a", "x"))
        queue.arrival.clear()
        queue.return_first([job("b", "y"), job("c", "x")])
        assert queue.arrival.is_set() and len(queue) == 3
        assert texts(take(queue)) == "cba"
        assert queue.take(lambda key, text: 1.0) is None

    run(test)
