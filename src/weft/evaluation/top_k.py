"""Top-k accuracy: for how many lines a reference is among the k best outputs of an n-best list."""

from __future__ import annotations

from collections.abc import Callable, Sequence

MAX_K = 1_000
Matches = Callable[[str, Sequence[str]], bool]
"""Whether an output is correct, given the references of its line."""


def is_identical(output: str, references: Sequence[str]) -> bool:
    return output in references


def has_same_tokens(output: str, references: Sequence[str]) -> bool:
    """Whether an output is the same as a reference up to the amount of white space."""
    return output.split() in [reference.split() for reference in references]


def top_k_accuracy(
    n_best: Sequence[Sequence[str]], references: Sequence[Sequence[str]], matches: Matches, k: int
) -> float:
    """Top-k accuracy in percent; ``n_best[line]`` are the outputs for a line, best first."""
    lines = zip(n_best, references, strict=True)
    return 100.0 * sum(any(matches(output, line) for output in outputs[:k]) for outputs, line in lines) / len(n_best)
