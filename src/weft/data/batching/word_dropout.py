"""Word dropout: source tokens replaced at random by the unknown token (training.word_dropout).

    x'_i = <unk> with probability p, else x_i            independently for every token that is not a special one

Gal & Ghahramani 2016, 4.2, drop word types: all occurrences of a word in a sequence, or none. Here every token is
drawn by itself, as Bowman et al. 2016 do with the inputs of a decoder; most sentences have each word once. In a
character model the tokens are characters. Lengths do not change, and the target stays as it is.

The draws are a function of the seed, the step and the number of the batch alone: a resumed run repeats them, other
workers draw the same, and a pair is changed in another way in every epoch. (Noise in `data.pipeline` is drawn once.)
"""

from __future__ import annotations

from collections.abc import Collection, Iterator

import numpy as np
import torch

from weft.data.batching.batches import StepBatches
from weft.data.store.token_store import Batch
from weft.text.frames import DEFAULT_RULES
from weft.text.specials import BEGIN, END, UNKNOWN
from weft.text.tokenizer import Tokenizers

SPECIAL_IDS = frozenset((UNKNOWN, BEGIN, END))
STREAM = 0x776F7264
"""Tells these random numbers from others of the same seed and step."""


def protected_ids(tokenizers: Tokenizers, symbols: Collection[str] = ()) -> frozenset[int]:
    """The source ids that are never replaced: special tokens, languages, and predefined symbols such as ``<2de>``."""
    source, frame = tokenizers.source, tokenizers.frame
    languages = getattr(source, "rules", DEFAULT_RULES).languages.values()
    tokenizer = getattr(source, "column_tokenizer", source)
    predefined = [id for ids in tokenizer.encode_batch(list(symbols)) for id in ids]
    return SPECIAL_IDS.union(frame.source_before, frame.source_after, languages, predefined)


def with_word_dropout(
    steps: Iterator[StepBatches], probability: float, *, seed: int, protected: Collection[int]
) -> Iterator[StepBatches]:
    """Apply word dropout to the source tokens of steps; ``protected``: source ids that are never replaced."""
    for step in steps:
        batches = [
            drop_words(batch, probability, np.random.default_rng([seed, step.step, number, STREAM]), protected)
            for number, batch in zip(step.numbers, step.batches, strict=True)
        ]
        yield step._replace(batches=batches)


def drop_words(batch: Batch, probability: float, random: np.random.Generator, protected: Collection[int]) -> Batch:
    """A batch with source tokens replaced by the unknown token."""
    ids_N = batch.source.values.numpy()
    is_dropped_N = (random.random(len(ids_N)) < probability) & ~np.isin(ids_N, list(protected))
    dropped_N = torch.from_numpy(np.where(is_dropped_N, UNKNOWN, ids_N))
    return batch._replace(source=batch.source.like(dropped_N))
