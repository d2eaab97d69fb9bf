"""Terms of a glossary, written into training sources: a model learns to use a term, inflected as the sentence needs it.

    he hit me with a pie      →  he hit me with a pie ⟦tarte⟧

The target term follows the source term, in brackets that no other text has (Dinu et al. 2019; Song et al. 2019). A
training source has the terms whose target contains one of their variants. Half of the time it shows the variant that
occurs there, so that the model learns to copy, and half of the time the first, as a dictionary has it, so that it
learns to inflect (Bergmanis & Pinnis 2021). Some terms are left out, so that the model translates without them too.

The same marks are put into sources when a glossary is given to a run that was trained like this
(`weft.translation.glossary`), and `without_terms` takes them out again.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache
from random import Random
from typing import ClassVar, Literal

from pydantic import Field

from weft.data.filtering.sides import with_texts
from weft.data.filtering.steps import Kept, Step
from weft.data.pairs import Pair, pair_hashes
from weft.data.reading.glossary import Glossary, annotated, is_missing
from weft.files import file_version
from weft.recipe.base import Probability

FIRST_VARIANT = 0.5
"""The probability that the first variant is shown, not the one that occurs in the target."""


class AnnotateTerms(Step):
    """Write the target terms of a glossary after their source terms, where the target has them."""

    is_random: ClassVar[bool] = True
    kind: Literal["terms"] = Field("terms", description="write the target terms of a glossary into training sources")
    file: str = Field(description="the glossary")
    share: Probability = Field(0.5, description="probability that a term is written into a source")

    def __str__(self) -> str:
        return f"terms: those of {self.file}, {self.share:.3g} of them written into their sources"

    def apply(self, pairs: Sequence[Pair], key: bytes) -> Kept:
        glossary, random = read_glossary(self.file), Random()
        changed: Kept = []
        for pair, seed in zip(pairs, pair_hashes(pairs, key), strict=True):
            random.seed(seed)
            terms: list[tuple[int, str]] = []
            for end, variants in glossary.located_terms(pair.source):
                present = [variant for variant in variants if not is_missing([(variant,)], pair.target)]
                if present and random.random() < self.share:
                    terms.append((end, variants[0] if random.random() < FIRST_VARIANT else present[0]))
            changed.append(with_texts(pair, annotated(pair.source, terms), pair.target) if terms else pair)
        return changed


def read_glossary(path: str) -> Glossary:
    """The glossary of a file, read once by each process as long as the file does not change."""
    return _read(path, file_version(path))


@lru_cache(maxsize=2)
def _read(path: str, version: tuple[int, ...]) -> Glossary:
    return Glossary.read(path)
