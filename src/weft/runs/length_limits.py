"""Limits on the length and the loops of outputs: learned from the training pairs, kept in a run folder.

For training pairs with S source tokens and T target tokens, the end token counted in T alone:

    a = Σ T / Σ S                     target tokens per source token; 0 if there are no sources
    b = Q(T − a S)                    what 99.9 % of the pairs do not exceed: the ⌈0.999 n⌉-th smallest of n
    max_ratio = max(2, 1.5 a)         max_extra = max(10, ⌈1.5 b⌉)

An output for a source of s tokens has at most ⌊max_ratio · s⌋ + max_extra tokens, its end token included. So 99.9 % of
the training targets fit even if they were half as long again, and a few misaligned pairs do not matter. There is no
other limit that grows more slowly than the source: a model may be given longer sources than it was trained on.

Where sources are arrays, their bytes say nothing about the length of a text: they count as empty, and an output has at
most max_extra tokens.

Outputs may loop (`weft.search.repetition`) if more than 1 in 1,000 of the training targets do: the action sequences of
SCAN repeat a phrase eight times, while a web corpus may have a few degenerate lines.

With several corpora, and for the members of an ensemble, the largest ratio and the largest extra count, and a single
one that loops. The file is lengths.json; a run folder without it has the smallest limits, 2 s + 10, and no loops. Torch
is not imported here.
"""

from __future__ import annotations

import json
import math
from collections.abc import Iterable
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from weft.errors import CheckpointError
from weft.files import read_json, save_text

FILE_NAME = "lengths.json"
QUANTILE = 0.999
MARGIN = 1.5
MIN_RATIO, MIN_EXTRA = 2.0, 10
LARGEST = 1_000_000
"""The largest ratio and extra that a file may hold."""
MAX_LOOP_SHARE = 0.001
"""The fraction of training targets with a loop that are taken for errors."""


class LengthLimits(NamedTuple):
    """The defaults of `search.max_ratio`, `search.max_extra` and `search.no_loops` for the model of a run."""

    max_ratio: float = MIN_RATIO
    max_extra: int = MIN_EXTRA
    loops: bool = False
    """Whether training targets contain loops, so that outputs may."""

    @classmethod
    def learn(cls, source_lengths: np.ndarray, target_lengths: np.ndarray, *, loop_share: float = 0.0) -> LengthLimits:
        """From the lengths of pairs: of sources without, of targets with the end token.

        ``loop_share``: the fraction of the targets that contain a loop.
        """
        if not len(target_lengths):
            return cls()
        sources = int(source_lengths.sum())
        ratio = int(target_lengths.sum()) / sources if sources else 0.0
        rest = target_lengths - ratio * source_lengths
        rank = math.ceil(QUANTILE * len(rest)) - 1
        extra = float(np.partition(rest, rank)[rank])
        return cls(
            max(MIN_RATIO, round(MARGIN * ratio, 4)),
            max(MIN_EXTRA, math.ceil(MARGIN * extra)),
            loop_share > MAX_LOOP_SHARE,
        )

    @classmethod
    def largest(cls, limits: Iterable[LengthLimits]) -> LengthLimits:
        """The largest ratio and the largest extra of several; loops if any has them."""
        ratios, extras, loops = zip(*(list(limits) or [cls()]), strict=True)
        return cls(max(ratios), max(extras), any(loops))

    def limit(self, source_length: int, *, max_ratio: float | None = None, max_extra: int | None = None) -> int:
        """The most tokens of an output, its end token included, for a source of this many tokens without its own.

        ``max_ratio``, ``max_extra``: values to use instead of the learned ones.
        """
        ratio = self.max_ratio if max_ratio is None else max_ratio
        return int(ratio * source_length) + (self.max_extra if max_extra is None else max_extra)

    def write(self, folder: Path) -> None:
        save_text(folder / FILE_NAME, json.dumps(self._asdict()) + "\n")

    @classmethod
    def read(cls, folder: Path) -> LengthLimits:
        """The limits of a run folder; those of the runs of older versions are the smallest, without loops."""
        path = folder / FILE_NAME
        try:
            content = read_json(path)
        except FileNotFoundError:
            return cls()
        except OSError as error:
            raise CheckpointError(f"{path}: cannot be read ({error.strerror})") from None
        content = content if isinstance(content, dict) else {}
        numbers: list[Any] = [content.get("max_ratio"), content.get("max_extra")]
        loops = content.get("loops", False)
        valid_numbers = all(isinstance(number, int | float) and 0 <= number <= LARGEST for number in numbers)
        if not (valid_numbers and isinstance(loops, bool)):
            raise CheckpointError(
                f"{path}: damaged; expected max_ratio and max_extra, numbers from 0 to {LARGEST:,}, and loops, true or "
                "false; restore it, or remove it and set search.max_length and search.no_loops"
            )
        return cls(float(numbers[0]), int(numbers[1]), loops)


SMALLEST = LengthLimits()
"""2 s + 10: of models that have learned none."""
