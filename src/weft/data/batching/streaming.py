"""Training on text while it is read: nothing is prepared, nothing is kept.

Blocks of the corpora are taken in turn by their weights, each corpus again from its beginning when it ends. A window
of some blocks is cut into ids, shuffled, sorted into batches like a pool of a store, trained on and forgotten: so the
order is only as random as a window is large, and a corpus that is sorted should be shuffled first, or prepared.

A resumed run reads the text up to its window again, without cutting it: exact, though not instant.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Generator, Iterator, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from itertools import count, islice

import numpy as np

from weft.data.batching.batches import LazyBatch, Position, packed
from weft.data.batching.mixture import Mixture, Part
from weft.data.reading.blocks import Block
from weft.data.store.block_tokenizer import FlatSequences, TokenizedBlock
from weft.data.store.token_store import CorpusSize, PairStore, TokenStore, offsets_of
from weft.errors import DataError

WINDOW = 16
"""Blocks of a window."""


@dataclass(frozen=True)
class StreamedPart:
    """A corpus among those that are read."""

    blocks: Callable[[], Iterator[Block]]
    size: int = 1
    """What shares go by where no weights are given: bytes of text."""
    weight: float | None = None
    first_step: int = 1
    last_step: int | None = None
    name: str = "a corpus"


CorpusBlock = tuple[int, int, Block]
"""The number of a corpus, how often it was read before, and a block of it."""
Encode = Callable[[Iterator[CorpusBlock]], Iterator[TokenizedBlock]]
"""Blocks to pieces, in the same order."""


@dataclass(frozen=True)
class StreamedCorpus:
    """Corpora to train on as they are read."""

    parts: tuple[StreamedPart, ...]
    encode: Encode
    max_length: int
    temperature: float = 1.0
    drop_reasons: Counter[int] = field(default_factory=Counter)
    """What became of the rows read so far: see `weft.data.store.block_tokenizer`."""

    @cached_property
    def corpus_size(self) -> CorpusSize:
        """The shares of the sides as in the first window with pairs, and the longest rows there may be."""
        windows = self._windows(self._mixture(1), 0, 0)
        known = next(window for window in windows if len(window)).corpus_size
        windows.close()
        self.drop_reasons.clear()  # these rows are yet to be read
        longest = self.max_length + 1
        return CorpusSize(
            known.pairs, known.source_tokens, known.target_tokens, longest if known.source_tokens else 1, longest
        )

    def batches(self, budget: int, *, seed: int, start: Position = Position()) -> StreamedBatchStream:
        mixture = self._mixture(seed)
        return StreamedBatchStream(
            self, lambda stage, window: self._windows(mixture, stage, window), budget, mixture, start
        )

    def _mixture(self, seed: int) -> Mixture:
        """Weights and stages are those of a mixture; how many pairs a part has is not known: its size stands for it."""
        parts = [Part(0, one.size, 1, one.weight, one.first_step, one.last_step) for one in self.parts]
        return Mixture(parts, temperature=self.temperature, seed=seed)

    def _windows(self, mixture: Mixture, stage: int, first: int) -> Generator[PairStore, None, None]:
        """The windows of a stage from one on, without end."""
        numbers = [number for number, _ in mixture.read_in(stage)]
        weights = mixture.weights(stage)

        def reached(window: int) -> list[int]:
            """How many blocks of each part were read before a window."""
            return [-(-window * WINDOW * weight // sum(weights)) for weight in weights]

        def items() -> Iterator[CorpusBlock]:
            streams = [
                islice(_again_and_again(self.parts[number]), skipped, None)
                for number, skipped in zip(numbers, reached(first), strict=True)
            ]
            window = first
            while True:
                for place, number in enumerate(numbers):
                    for _ in range(reached(window + 1)[place] - reached(window)[place]):
                        yield number, *next(streams[place])
                window += 1

        pieces = self.encode(items())
        window, empty = first, 0
        while True:
            some = list(islice(pieces, sum(reached(window + 1)) - sum(reached(window))))
            store = _store(some)
            for piece in some:
                self.drop_reasons.update(piece.drop_reasons.tolist())
            empty = 0 if len(store) else empty + 1
            if empty > 100:
                raise DataError(f"data.train: no pair is left to train on in {empty * WINDOW} blocks of text")
            yield store
            window += 1


def _again_and_again(part: StreamedPart) -> Iterator[tuple[int, Block]]:
    """All blocks with the number of the turn, turn after turn."""
    for turn in count():
        found = False
        for block in part.blocks():
            found = True
            yield turn, block
        if not found:
            raise DataError(f"data.train: {part.name} has no rows")


def _store(pieces: Sequence[TokenizedBlock]) -> PairStore:
    for piece in pieces:
        if piece.error is not None:
            raise DataError(piece.error)
    return PairStore(_side([piece.source for piece in pieces]), _side([piece.target for piece in pieces]))


def _side(many: Sequence[FlatSequences]) -> TokenStore:
    many = many or [
        FlatSequences(np.zeros(0, dtype=np.int32), np.zeros(0, dtype=np.int64))
    ]  # many small parts may skip a window
    lengths = np.concatenate([ids.lengths for ids in many])
    return TokenStore(np.concatenate([ids.values for ids in many]), offsets_of(lengths))


class StreamedBatchStream:
    """Batches of windows."""

    def __init__(
        self,
        data: StreamedCorpus,
        windows: Callable[[int, int], Iterator[PairStore]],
        budget: int,
        mixture: Mixture,
        start: Position,
    ) -> None:
        self.data = data
        self.windows = windows
        self.budget = budget
        self.mixture = mixture
        self.position = start
        self.reading: Iterator[PairStore] | None = None
        self.window: PairStore | None = None
        self.rows: list[np.ndarray] = []

    def take(self, step: int, count: int) -> list[LazyBatch]:
        stage = self.mixture.stage_of(step)
        if stage != self.position.stage:
            self.position = Position(stage)
            self.reading = self.window = None
        return [self._next() for _ in range(count)]

    def _next(self) -> LazyBatch:
        stage, epoch, pool, batch = self.position
        if self.reading is None:
            self.reading = self.windows(stage, pool)
        while self.window is None or batch >= len(self.rows):
            if self.window is not None:
                pool, batch = pool + 1, 0
            self.window = next(self.reading)
            key = (self.mixture.seed, stage, epoch, pool, 0)
            self.rows = packed(
                np.arange(len(self.window)), self.window, self.budget, key=key, corpus_size=self.data.corpus_size
            )
        rows, window = self.rows[batch], self.window
        self.position = Position(stage, epoch, pool, batch + 1)
        sides = (window.source, window.target)
        source_tokens, target_tokens = (int(side.lengths_of(rows).sum()) for side in sides)
        return LazyBatch(source_tokens, target_tokens, lambda: window.batch(rows))
