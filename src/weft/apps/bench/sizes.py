"""The sizes that costs depend on."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from weft.errors import RecipeError, nearest, option
from weft.recipe import Recipe


class Sizes(NamedTuple):
    """The sizes of a workload. All rows of a batch have the same length."""

    source_length: int
    """Tokens, with the end token."""
    target_length: int
    """Tokens, with the end token; in a search, the number of steps."""
    batch: int
    """Sentences."""
    beam: int
    vocabulary: int
    """Vocabulary size of each side."""


class SizeAxis(NamedTuple):
    """A size that is varied: from the first value on, each twice the one before."""

    name: str
    label: str
    unit: str
    first: int
    last: int

    def values(self, smallest: int = 1) -> list[int]:
        doubled = [self.first]
        while doubled[-1] < self.last:
            doubled.append(2 * doubled[-1])
        return [value for value in doubled if value >= smallest]


AXES = {
    "source_length": SizeAxis("source_length", "source length", "tokens", 4, 8192),
    "target_length": SizeAxis("target_length", "target length", "tokens", 4, 8192),
    "batch": SizeAxis("batch", "batch size", "sentences", 1, 16384),
    "beam": SizeAxis("beam", "beam size", "hypotheses", 1, 256),
    "vocabulary": SizeAxis("vocabulary", "vocabulary size", "tokens", 500, 256_000),
}
CPU_LENGTH, CPU_BATCH = 16, 8
GPU_LENGTH, GPU_BATCH = 32, 64
"""Base sizes, small enough to measure several times as much too."""
CHARACTERS = 128
BYTES = 259
"""Vocabulary size of recipes whose tokenizer has no setting for it."""


def base_sizes(recipe: Recipe, *, on_gpu: bool, at: Sequence[str] = ()) -> Sizes:
    """The sizes at which the others stay while one varies; ``at``: changes of them, such as ``batch=64``."""
    kinds = {"character": CHARACTERS, "byte": BYTES}
    vocabulary = kinds.get(recipe.tokenizer.target_unit, recipe.tokenizer.size)
    length, batch = (GPU_LENGTH, GPU_BATCH) if on_gpu else (CPU_LENGTH, CPU_BATCH)
    sizes = Sizes(length, length, batch, recipe.search.size, vocabulary)
    for change in at:
        name, _, value = change.partition("=")
        check_axis(name, "at", change)
        if not value.isascii() or not value.isdigit() or int(value) < AXES[name].first:
            raise RecipeError(f"{option('at', change)}: expected {name}=N with a number from {AXES[name].first} on")
        sizes = sizes._replace(**{name: int(value)})
    return sizes


def check_axis(name: str, given_as: str, value: str) -> str:
    """The name of an axis, if it is one."""
    if name not in AXES:
        raise RecipeError(f"{option(given_as, value)}: unknown size {name!r}; {nearest(name, AXES)}")
    return name
