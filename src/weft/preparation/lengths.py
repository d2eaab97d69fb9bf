"""The lengths of the training pairs, from which a run learns how long its outputs may become."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from weft.data.batching.batches import BatchSource, StoredCorpus
from weft.data.batching.mixture import Part
from weft.data.batching.streaming import PairLengths, StreamedCorpus
from weft.recipe import Recipe
from weft.runs.length_limits import LengthLimits

SAMPLE_PAIRS = 1_000_000
"""Pairs of each corpus that are measured; of a larger corpus evenly spaced ones."""


def learn_length_limits(data: BatchSource, recipe: Recipe) -> LengthLimits:
    """The limits that the pairs of every corpus need, as they are tokenized; of a stream those of its first window."""
    end_tokens = int(recipe.source_role == "text")
    return LengthLimits.largest(
        LengthLimits.learn(np.maximum(lengths.source - end_tokens, 0), lengths.target)
        for lengths in _measured_lengths(data)
    )


def _measured_lengths(data: BatchSource) -> Iterator[PairLengths]:
    """The lengths of each corpus, or of a sample."""
    if isinstance(data, StreamedCorpus):
        yield data.sampled_lengths
    elif isinstance(data, StoredCorpus):
        for part in data.parts or (Part(0, len(data.pairs)),):
            stop = part.start + part.pairs * part.variants
            rows = np.arange(part.start, stop, -(-(stop - part.start) // SAMPLE_PAIRS) or 1)
            yield PairLengths(data.pairs.source.lengths_of(rows), data.pairs.target.lengths_of(rows))
