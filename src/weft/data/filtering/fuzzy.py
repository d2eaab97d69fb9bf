"""The most similar pair of a translation memory as a further source column: a model learns to reuse translations.

    he hit me with a cake     →  he hit me with a cake TAB il m'a frappé avec une tarte

The further column is the target of the pair whose source is the most similar (`weft.data.reading.translation_memory`),
and is empty where none is similar enough (neural fuzzy repair: Bulté & Tezcan 2019; as a source of its own: Xu et al.
2020). A pair with the same source is never used: such a source is not translated but looked up, and a training pair
must not see its own target. Some matches are left out in training, so that the model translates without them too.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache
from random import Random
from typing import ClassVar, Literal

from pydantic import Field

from weft.data.filtering.steps import Kept, Step
from weft.data.pairs import Pair, pair_hashes
from weft.data.reading.translation_memory import MIN_SIMILARITY, TranslationMemory
from weft.files import file_version
from weft.recipe.base import Probability

REMEMBERED = 100_000
"""Sources whose columns a process remembers; looking one up takes about a millisecond."""


class AddMatch(Step):
    """Add the target of the most similar pair of a translation memory to the columns of the source."""

    is_random: ClassVar[bool] = True
    training_only: ClassVar[bool] = False
    kind: Literal["fuzzy"] = Field("fuzzy", description="the target of the most similar pair as a source column")
    file: str = Field(description="the translation memory")
    min_similarity: float = Field(
        MIN_SIMILARITY, ge=MIN_SIMILARITY, le=1, description="the least similarity of a match"
    )
    empty: Probability = Field(0.1, description="probability that the column is empty although there is a match")

    def __str__(self) -> str:
        return f"fuzzy: the target of the most similar pair of {self.file}"

    def for_evaluation(self) -> AddMatch:
        return self.model_copy(update={"empty": 0.0})

    def apply(self, pairs: Sequence[Pair], key: bytes) -> Kept:
        memory, random = read_memory(self.file), Random()
        changed: Kept = []
        for pair, seed in zip(pairs, pair_hashes(pairs, key), strict=True):
            random.seed(seed)
            left_out = random.random() < self.empty
            match = "" if left_out else similar_target(memory, pair.source, self.min_similarity)
            changed.append(Pair(f"{pair.source}\t{match}", pair.target))
        return changed


@lru_cache(maxsize=REMEMBERED)
def similar_target(memory: TranslationMemory, source: str, min_similarity: float) -> str:
    """The column of a source: several drawings, fingerprints, validation and calibration read the same sources."""
    return memory.similar_target(source, min_similarity)


def read_memory(path: str) -> TranslationMemory:
    """The memory of a file, read once by each process as long as the file does not change."""
    return _read(path, file_version(path))


@lru_cache(maxsize=2)
def _read(path: str, version: tuple[int, ...]) -> TranslationMemory:
    return TranslationMemory.read(path)
