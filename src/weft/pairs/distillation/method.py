"""Methods of distillation: the training signal that a student gets from its teacher.

    sequence        the teacher's best output for every source, or the n best                Kim & Rush 2016, 3.2
    interpolation   of the n best outputs, the one most similar to the reference (chrF)      Kim & Rush 2016, 3.3
    word            the teacher's distribution over the next token, on the references        Kim & Rush 2016, 3.1

The references may be a part of the training pairs in the first two, and ``teacher_weight`` adds the word-level loss to
any of them (`weft.training.distillation`).
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple

from weft.errors import RecipeError, nearest, option

METHODS = ("sequence", "interpolation", "word")
N_BEST = 5
"""Outputs that interpolation chooses from, unless it is told otherwise."""
TEACHER_WEIGHT = 0.5
"""λ of word-level distillation, unless it is told otherwise."""


class Method(NamedTuple):
    """A method of distillation, with every default filled in."""

    name: str
    references: float
    """The share of reference pairs in the training data."""
    n_best: int
    """Outputs of the teacher per source."""
    teacher_weight: float
    """λ of the word-level loss; 0: no such loss."""
    search: dict[str, Any]
    """Changes of the teacher's search settings."""

    @classmethod
    def make(
        cls,
        name: str,
        *,
        references: float | None,
        n_best: int | None,
        teacher_weight: float | None,
        search: Mapping[str, Any],
    ) -> Method:
        """The method of this name; options that are None have the default of the method."""
        if name not in METHODS:
            raise RecipeError(f"{option('method', name)}: unknown method; {nearest(name, METHODS)}")
        is_word = name == "word"
        references = float(is_word) if references is None else references
        n_best = (N_BEST if name == "interpolation" else 1) if n_best is None else n_best
        teacher_weight = (TEACHER_WEIGHT if is_word else 0.0) if teacher_weight is None else teacher_weight
        for given, value in (("references", references), ("teacher_weight", teacher_weight)):
            if not 0 <= value <= 1:
                raise RecipeError(f"{option(given, f'{value:g}')}: expected a number from 0 to 1")
        if n_best < 1:
            raise RecipeError(f"{option('n_best', n_best)}: expected a whole number from 1 on")
        if name == "interpolation" and n_best == 1:
            raise RecipeError(f"{option('n_best', 1)}: interpolation chooses among several outputs; give 2 or more")
        if is_word and not teacher_weight:
            raise RecipeError(f"{option('teacher_weight', '0')}: word-level distillation needs a weight above 0")
        return cls(name, references, n_best, teacher_weight, dict(search))

    @property
    def uses_outputs(self) -> bool:
        """Whether the sources of the pairs are translated by the teacher."""
        return self.references < 1

    def describe(self) -> str:
        """A short description."""
        parts = []
        if self.uses_outputs:
            kind = "sequence-level" if self.name != "interpolation" else "sequence-level interpolation"
            parts.append(f"{kind}, {'the best' if self.n_best == 1 else f'{self.n_best}-best'} output")
        if self.teacher_weight:
            parts.append(f"word-level, weight {self.teacher_weight:g}")
        parts.append(f"references {self.references:.0%}")
        return "; ".join(parts)
