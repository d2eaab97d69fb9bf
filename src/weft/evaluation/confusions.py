"""Words or characters that a model confuses: the alignments of outputs with their references, counted.

A **word** is any text between white space: a word, a phone, a token of a formula. **Characters** are the units where a
side is tokenized into characters or bytes, and where no text has several words.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from typing import Any, NamedTuple

from weft.evaluation.edit_alignment import align_units, closest_reference


class Units(NamedTuple):
    """The units in which texts are compared: words or characters."""

    name: str
    """``"word"`` or ``"character"``."""
    split: Callable[[str], list[str]]


WORDS, CHARACTERS = Units("word", str.split), Units("character", lambda text: list(text.strip()))


def choose_units(texts: Iterable[str], tokenizer: str) -> Units:
    """Characters for a tokenizer of characters or bytes, and for texts of one word each; else words."""
    if tokenizer in ("character", "byte") or not any(len(text.split()) > 1 for text in texts):
        return CHARACTERS
    return WORDS


class UnitPair(NamedTuple):
    """A unit of an output beside that of the reference; None: there is none."""

    output: str | None
    reference: str | None

    @property
    def right(self) -> bool:
        return self.output == self.reference


def compare_units(output: str, references: Sequence[str], units: Units) -> list[UnitPair]:
    """The units of an output aligned with those of the closest reference."""
    left, rights = units.split(output), [units.split(reference) for reference in references]
    right = rights[closest_reference(left, rights)]
    return [
        UnitPair(None if i is None else left[i], None if j is None else right[j]) for i, j in align_units(left, right)
    ]


class Confusion(NamedTuple):
    """Something that goes wrong repeatedly."""

    output: str | None
    """None: the unit is missing in the output."""
    reference: str | None
    """None: the output has an extra unit."""
    times: int
    occurrences: int
    """Occurrences of the unit in the references; of an extra unit, in the outputs."""

    @property
    def share(self) -> float:
        return self.times / self.occurrences


class Confusions(NamedTuple):
    """The counts over a test set."""

    units: str
    right: int
    """Units of the references that the outputs have."""
    total: int
    """Units of the references."""
    substituted: list[Confusion]
    missing: list[Confusion]
    added: list[Confusion]

    def record(self, limit: int) -> dict[str, Any]:
        """The most frequent confusions of each kind as JSON values."""
        return {
            "units": self.units,
            "right": self.right,
            "total": self.total,
            **{
                name: [confusion._asdict() for confusion in getattr(self, name)[:limit]]
                for name in ("substituted", "missing", "added")
            },
        }


def count_confusions(lines: Iterable[Sequence[UnitPair]], units: Units) -> Confusions:
    """Substitutions, deletions and insertions of units, the most frequent first."""
    pairs: Counter[UnitPair] = Counter()
    outputs: Counter[str | None] = Counter()
    references: Counter[str | None] = Counter()
    for line in lines:
        pairs.update(line)
        outputs.update(pair.output for pair in line)
        references.update(pair.reference for pair in line)
    wrong = [
        Confusion(*pair, count, references[pair.reference] if pair.reference is not None else outputs[pair.output])
        for pair, count in pairs.items()
        if not pair.right
    ]
    wrong.sort(key=lambda confusion: (-confusion.times, confusion.reference or "", confusion.output or ""))
    total = sum(count for pair, count in pairs.items() if pair.reference is not None)
    return Confusions(
        units=units.name,
        right=sum(count for pair, count in pairs.items() if pair.right),
        total=total,
        substituted=[item for item in wrong if item.output is not None and item.reference is not None],
        missing=[item for item in wrong if item.output is None],
        added=[item for item in wrong if item.reference is None],
    )
