"""Differences between the outputs of two runs: the lines that only one has right, and the most different lines."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

from weft.errors import plural
from weft.evaluation.pairs import EvaluationItems
from weft.evaluation.top_k import Matches
from weft.text.string_distance import edit_distance

MAX_SHOWN = 300
"""Characters of a text in a summary."""


class DifferentLine(NamedTuple):
    """An item for which two runs have different outputs."""

    item: int
    """Its number in the test set, from 1."""
    source: str
    references: list[str]
    outputs: tuple[str, str]
    gain: float
    """Gain of the second output: the difference of the two similarities to a reference, from −1 to 1."""


@dataclass(frozen=True)
class OutputDifferences:
    """The outputs of a run beside those of the first run."""

    runs: tuple[str, str]
    same: int
    """Items with the same output."""
    both_right: int
    only_first_right: int
    only_second_right: int
    neither_right: int
    lines: list[DifferentLine]
    """Items with different outputs; those that differ most in their similarity to the reference come first."""

    def summary(self, examples: int) -> list[str]:
        """The counts, and the most different lines side by side."""
        first, second = self.runs
        lines = [
            f"{second} and {first}: {plural(self.same, 'output')} the same, {len(self.lines):,} different",
            f"right: both {self.both_right:,}, only {first} {self.only_first_right:,}, "
            f"only {second} {self.only_second_right:,}, neither {self.neither_right:,}",
        ]
        width = max(len(first), len(second), len("reference")) + 2
        for line in self.lines[:examples]:
            texts = [("reference", reference) for reference in line.references[:1]]
            texts += list(zip(self.runs, line.outputs, strict=True))
            lines += ["", f"{'source':<{width}}{_shown(line.source)}   (item {line.item:,})"]
            lines += [f"{name:<{width}}{_shown(text)}" for name, text in texts]
        return lines

    def record(self, examples: int) -> dict[str, Any]:
        return {
            "runs": self.runs,
            "same": self.same,
            "different": len(self.lines),
            "both_right": self.both_right,
            "only_first_right": self.only_first_right,
            "only_second_right": self.only_second_right,
            "neither_right": self.neither_right,
            "lines": [line._asdict() for line in self.lines[:examples]],
        }


def output_differences(
    runs: tuple[str, str],
    outputs: tuple[Sequence[str], Sequence[str]],
    items: EvaluationItems,
    matches: Matches,
) -> OutputDifferences:
    """Compare the outputs of two runs line by line; ``matches`` says which are right."""
    right: list[tuple[bool, bool]] = []
    lines: list[DifferentLine] = []
    rows = zip(*outputs, items.sources, items.references, strict=True)
    for number, (first, second, source, references) in enumerate(rows, 1):
        right.append((matches(first, references), matches(second, references)))
        if first != second:
            gain = similarity(second, references) - similarity(first, references)
            lines.append(DifferentLine(number, source, references, (first, second), gain))
    return OutputDifferences(
        runs,
        same=len(right) - len(lines),
        both_right=right.count((True, True)),
        only_first_right=right.count((True, False)),
        only_second_right=right.count((False, True)),
        neither_right=right.count((False, False)),
        lines=sorted(lines, key=lambda line: (-abs(line.gain), line.item)),
    )


def similarity(output: str, references: Sequence[str]) -> float:
    """1 − edit distance / length of the longer text, in characters, of the closest reference."""
    return max(1.0 - edit_distance(output, text) / max(len(output), len(text), 1) for text in references)


def _shown(text: str) -> str:
    """A text in one line, without the end of a very long one."""
    line = " ".join(text.split()) or "(empty)"
    return line if len(line) <= MAX_SHOWN else f"{line[:MAX_SHOWN]} …"
