"""Training on text while it is read: nothing is prepared, nothing is stored.

Blocks of the corpora are read in turn by their weights, each corpus again from its beginning when it ends. A window of
some blocks is tokenized, shuffled, packed into batches like a pool of a token store, trained on and discarded. So the
order is only as random as a window is large: a sorted corpus should be shuffled first, or prepared.

A resumed run reads the text up to its window again, without tokenizing it: exact, though not instant.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Generator, Iterator, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from itertools import count, islice
from typing import NamedTuple

import numpy as np

from weft.data.batching.batches import LazyBatch, Mixture, Part, Position, pack_batches, side_budgets
from weft.data.reading.text_files import Block
from weft.data.store.block_tokenizer import FlatSequences, TokenizedBlock
from weft.data.store.token_store import CorpusSize, PairStore, TokenStore, offsets_of
from weft.errors import DataError

WINDOW_BLOCKS = 16
MAX_EMPTY_WINDOWS = 100
"""Windows in a row without a pair to train on, after which a run gives up."""


class StreamedPart(NamedTuple):
    """One corpus of a streamed mixture."""

    name: str
    blocks: Callable[[], Iterator[Block]]
    part: Part
    """Its weight and steps. How many pairs it has is not known: bytes of text take their place."""


CorpusBlock = tuple[int, int, Block]
"""The number of a corpus, how often it was read before, and a block of it."""
TokenizeBlocks = Callable[[Iterator[CorpusBlock]], Iterator[TokenizedBlock]]
"""Tokenizes blocks, in order."""


@dataclass(frozen=True)
class StreamedCorpus:
    """Corpora to train on as they are read."""

    parts: tuple[StreamedPart, ...]
    tokenize: TokenizeBlocks
    max_length: int
    temperature: float = 1.0
    drop_reasons: Counter[int] = field(default_factory=Counter)
    """Drop reasons of the rows read so far: see `weft.data.store.block_tokenizer`."""

    @cached_property
    def first_window(self) -> PairStore:
        """The first window that has pairs."""
        windows = self.windows(self._mixture(1), 0, 0)
        window = next(window for window in windows if len(window))
        windows.close()
        self.drop_reasons.clear()  # these rows will be read again
        return window

    @cached_property
    def corpus_size(self) -> CorpusSize:
        """The proportion of the sides as in the first window with pairs, and the greatest lengths allowed."""
        size = self.first_window.corpus_size
        max_length = self.max_length + 1
        max_source_length = max_length if size.source_tokens else 1
        return size._replace(max_source_length=max_source_length, max_target_length=max_length)

    def batches(self, budget: int, *, seed: int, start: Position = Position()) -> StreamedBatchStream:
        return StreamedBatchStream(self, self._mixture(seed), side_budgets(self.corpus_size, budget), start)

    def _mixture(self, seed: int) -> Mixture:
        return Mixture([streamed.part for streamed in self.parts], temperature=self.temperature, seed=seed)

    def windows(self, mixture: Mixture, stage: int, first: int) -> Generator[PairStore, None, None]:
        """The windows of a stage from number `first` on, without end."""
        numbers = [number for number, _ in mixture.active_parts(stage)]
        weights = mixture.weights(stage)

        def blocks_before(window: int) -> list[int]:
            """Number of blocks of each part that were read before a window."""
            return [-(-window * WINDOW_BLOCKS * weight // sum(weights)) for weight in weights]

        def corpus_blocks() -> Iterator[CorpusBlock]:
            streams = [
                islice(_repeat(self.parts[number]), skipped, None)
                for number, skipped in zip(numbers, blocks_before(first), strict=True)
            ]
            for window in count(first):
                bounds = zip(blocks_before(window), blocks_before(window + 1), strict=True)
                for number, stream, (start, end) in zip(numbers, streams, bounds, strict=True):
                    for _ in range(end - start):
                        yield number, *next(stream)

        tokenized = self.tokenize(corpus_blocks())
        empty_windows = 0
        for window in count(first):
            blocks = list(islice(tokenized, sum(blocks_before(window + 1)) - sum(blocks_before(window))))
            store = _store(blocks)
            for block in blocks:
                self.drop_reasons.update(block.drop_reasons.tolist())
            empty_windows = 0 if len(store) else empty_windows + 1
            if empty_windows > MAX_EMPTY_WINDOWS:
                blocks_read = empty_windows * WINDOW_BLOCKS
                raise DataError(f"data.train: no pair is left to train on in {blocks_read} blocks of text")
            yield store


def _repeat(streamed: StreamedPart) -> Iterator[tuple[int, Block]]:
    """All blocks with the number of the repetition, without end."""
    for repetition in count():
        is_empty = True
        for block in streamed.blocks():
            is_empty = False
            yield repetition, block
        if is_empty:
            raise DataError(f"data.train: {streamed.name} has no rows")


def _store(blocks: Sequence[TokenizedBlock]) -> PairStore:
    for block in blocks:
        if block.fatal is not None:
            raise DataError(block.fatal)
    return PairStore(_side([block.source for block in blocks]), _side([block.target for block in blocks]))


def _side(sequences: Sequence[FlatSequences]) -> TokenStore:
    sequences = sequences or [FlatSequences.empty()]  # with many small parts, a window may have no blocks
    lengths = np.concatenate([part.lengths for part in sequences])
    return TokenStore(np.concatenate([part.values for part in sequences]), offsets_of(lengths))


class StreamedBatchStream:
    """Batches of windows."""

    def __init__(self, corpus: StreamedCorpus, mixture: Mixture, budgets: tuple[int, int], start: Position) -> None:
        self.corpus = corpus
        self.mixture = mixture
        self.budgets = budgets
        self.position = start
        self.windows: Iterator[PairStore] | None = None
        self.window: PairStore | None = None
        self.batches: list[np.ndarray] = []
        """The rows of every batch of the window."""

    def take(self, step: int, count: int) -> list[LazyBatch]:
        stage = self.mixture.stage_of(step)
        if stage != self.position.stage:
            self.position = Position(stage)
            self.windows = self.window = None
        return [self._next() for _ in range(count)]

    def _next(self) -> LazyBatch:
        stage, epoch, pool, batch = self.position
        if self.windows is None:
            self.windows = self.corpus.windows(self.mixture, stage, pool)
        while self.window is None or batch >= len(self.batches):
            if self.window is not None:
                pool, batch = pool + 1, 0
            self.window = next(self.windows)
            key = (self.mixture.seed, stage, epoch, pool, 0)
            self.batches = pack_batches(np.arange(len(self.window)), self.window, self.budgets, key=key)
        rows, window = self.batches[batch], self.window
        self.position = Position(stage, epoch, pool, batch + 1)
        sides = (window.source, window.target)
        source_tokens, target_tokens = (int(side.lengths_of(rows).sum()) for side in sides)
        return LazyBatch(source_tokens, target_tokens, lambda: window.batch(rows))
