"""Limits learned from the training pairs: the length of outputs, and whether they may loop."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from weft.data.batching.batches import BatchSource, StoredCorpus
from weft.data.batching.mixture import Part
from weft.data.batching.streaming import StreamedCorpus
from weft.data.store.token_store import PairStore, TokenStore
from weft.recipe import Recipe
from weft.runs.length_limits import LengthLimits
from weft.search.repetition import LoopLimits, has_loop

SAMPLE_PAIRS = 1_000_000
"""Pairs of each corpus whose lengths are measured; of a larger corpus evenly spaced ones."""
LOOP_SAMPLE_PAIRS = 20_000
"""Targets of each corpus that are searched for loops; of a larger corpus evenly spaced ones."""
LOOP_BATCH_PAIRS = 2_000
"""Targets that are searched for loops at a time."""


def learn_length_limits(data: BatchSource, recipe: Recipe) -> LengthLimits:
    """The limits that the pairs of every corpus need, as they are tokenized; of a stream those of its first window."""
    end_tokens = int(recipe.source_role == "text")
    return LengthLimits.largest(
        LengthLimits.learn(
            np.maximum(pairs.source.lengths_of(rows) - end_tokens, 0),
            pairs.target.lengths_of(rows),
            loop_share=loop_share(pairs.target, rows),
        )
        for pairs, rows in _samples(data)
    )


def _samples(data: BatchSource) -> Iterator[tuple[PairStore, np.ndarray]]:
    """The rows of each corpus, or a sample of them."""
    if isinstance(data, StreamedCorpus):
        yield data.first_window, np.arange(len(data.first_window))
    elif isinstance(data, StoredCorpus):
        for part in data.parts or (Part(0, len(data.pairs)),):
            stop = part.start + part.pairs * part.variants
            yield data.pairs, np.arange(part.start, stop, -(-(stop - part.start) // SAMPLE_PAIRS) or 1)


def loop_share(targets: TokenStore, rows: np.ndarray) -> float:
    """The fraction of the targets, or of a sample of them, that contain a loop (`weft.search.repetition`)."""
    count = min(len(rows), LOOP_SAMPLE_PAIRS)
    rows = rows[np.arange(count) * len(rows) // max(count, 1)]
    long_rows = rows[targets.lengths_of(rows) >= LoopLimits().tokens]
    looping = 0
    for start in range(0, len(long_rows), LOOP_BATCH_PAIRS):
        batch = long_rows[start : start + LOOP_BATCH_PAIRS]
        looping += int(has_loop(targets.values_of(batch), targets.lengths_of(batch)).sum())
    return looping / max(count, 1)
