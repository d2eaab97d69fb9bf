"""What may be done to the pairs of a corpus before anything learns from them: filters and transforms.

A step is a frozen dataclass; `STEPS` names those that a recipe may list, `Call` is your own Python function. A step
works on a list of pairs at a time and answers with a list as long: a pair as it now is, or None for one it drops.
`Pipeline` (pipeline.py) puts steps in a row and counts.

Filters and noise are for training only; what changes the language of a text (lower-casing, tags, replacements) holds
for validation and test too (`training_only`). A word is here what stands between white space: Chinese, Japanese and
Thai are better measured in characters (code points).

Links between words stay true: a prefix moves them along; any other change of a text keeps them only if it has as many
words (`weft.text.word_splitting`) as before, and noise on words never does.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import ClassVar, Literal, Protocol, runtime_checkable

from weft.data.filtering.noise import Noise
from weft.data.filtering.sides import Side, check_choice, choices, on_sides, prefixed, rewritten, short
from weft.data.filtering.unicode_scripts import SCRIPTS, letters_in
from weft.data.hashing import pair_hashes, text_hashes
from weft.data.pairs import Pair
from weft.errors import DataError, nearest

Unit = Literal["words", "characters"]
Kept = list[Pair | None]
AT_ONCE = 4096
"""Pairs looked at together where characters are laid out as arrays, to bound memory."""


@runtime_checkable
class Step(Protocol):
    """One filter or transform; ``str(step)`` describes it in a line."""

    kind: ClassVar[str]

    @property
    def training_only(self) -> bool:
        """Whether it is left out for validation and test."""

    def apply(self, pairs: Sequence[Pair], key: bytes) -> Kept:
        """Each pair as it now is, None for one that is dropped. `key` is what draws, if any, depend on beside it."""


@dataclass(frozen=True)
class Length:
    """Drop pairs with a side that is too short or too long. ``least = 1`` drops blank sides; ``most = 0``: no limit."""

    kind: ClassVar[str] = "length"
    training_only: ClassVar[bool] = True
    least: int = 1
    most: int = 0
    unit: Unit = "words"
    side: Side = "both"

    def __post_init__(self) -> None:
        check_choice(self.kind, "unit", self.unit, choices(Unit))
        check_choice(self.kind, "side", self.side, choices(Side))

    def __str__(self) -> str:
        bounds = f"{self.least} to {self.most}" if self.most else f"at least {self.least}"
        return f"length: {bounds} {self.unit} on {on_sides(self.side)}"

    def apply(self, pairs: Sequence[Pair], key: bytes) -> Kept:
        # Sides of so many characters surely fit, so that most need no counting: n words have 2n - 1 characters or more.
        low, high = max(self.least, 1), self.most or 1 << 62
        if self.unit == "words":
            low, high = (1, 2 * high - 1) if self.least <= 1 else (1, 0)
        return [
            pair
            if (
                low <= len(source := pair[0]) <= high
                and low <= len(target := pair[1]) <= high
                and not source.isspace()
                and not target.isspace()
            )
            or self._fits(pair)
            else None
            for pair in pairs
        ]

    def _fits(self, pair: Pair) -> bool:
        texts = [pair.source] * (self.side != "target") + [pair.target] * (self.side != "source")
        lengths = [len(text.split()) if self.unit == "words" else len(text) for text in texts]
        return all(self.least <= length and (length <= self.most or not self.most) for length in lengths)


@dataclass(frozen=True)
class Ratio:
    """Drop pairs whose longer side is more than `most` times as long as the shorter; one blank side is always that."""

    kind: ClassVar[str] = "ratio"
    training_only: ClassVar[bool] = True
    most: float = 3.0
    unit: Unit = "words"

    def __post_init__(self) -> None:
        check_choice(self.kind, "unit", self.unit, choices(Unit))

    def __str__(self) -> str:
        return f"ratio: the longer side at most {self.most:g} times the shorter, in {self.unit}"

    def apply(self, pairs: Sequence[Pair], key: bytes) -> Kept:
        most, kept = self.most, []
        in_words = self.unit == "words"
        for pair in pairs:
            longer, shorter = (len(pair[0].split()), len(pair[1].split())) if in_words else (len(pair[0]), len(pair[1]))
            if longer < shorter:
                longer, shorter = shorter, longer
            kept.append(pair if longer == shorter or (shorter and longer / shorter <= most) else None)
        return kept


@dataclass(frozen=True)
class Duplicates:
    """Drop pairs that were there before, by the whole pair, the source or the target; the first one stays.

    This cannot be told from one block of a corpus: `apply` drops nothing, the pipeline records `hashes`, and
    `decide_duplicates` (duplicates.py) decides. Two different texts share their 64 bits with a
    chance of one in 2^64: among a hundred million pairs, that one is dropped wrongly has a chance of 0.0003.
    """

    kind: ClassVar[str] = "duplicates"
    training_only: ClassVar[bool] = True
    of: Literal["pair", "source", "target"] = "pair"

    def __post_init__(self) -> None:
        check_choice(self.kind, "of", self.of, ("pair", "source", "target"))

    def __str__(self) -> str:
        return f"duplicates: the first of the same {self.of} stays"

    def apply(self, pairs: Sequence[Pair], key: bytes) -> Kept:
        return list(pairs)

    def hashes(self, pairs: Sequence[Pair]) -> list[int]:
        """64 bits of what must not come twice."""
        if self.of == "pair":
            return pair_hashes(pairs)
        return text_hashes([pair.source if self.of == "source" else pair.target for pair in pairs])


@dataclass(frozen=True)
class Identical:
    """Drop pairs whose sides are the same, white space around them aside."""

    kind: ClassVar[str] = "identical"
    training_only: ClassVar[bool] = True

    def __str__(self) -> str:
        return "identical: source and target differ"

    def apply(self, pairs: Sequence[Pair], key: bytes) -> Kept:
        return [
            pair if (source := pair[0]) != (target := pair[1]) and source.strip() != target.strip() else None
            for pair in pairs
        ]


@dataclass(frozen=True)
class Scripts:
    """Drop pairs with a side of whose letters less than a share is of the allowed scripts; no letters, no objection."""

    kind: ClassVar[str] = "scripts"
    training_only: ClassVar[bool] = True
    allowed: tuple[str, ...]
    least: float = 0.9
    side: Side = "both"

    def __post_init__(self) -> None:
        object.__setattr__(self, "allowed", tuple(self.allowed))
        check_choice(self.kind, "side", self.side, choices(Side))
        if not self.allowed:
            raise DataError("scripts: none is allowed; name some, such as allowed = ['Latin']")
        for name in self.allowed:
            if name not in SCRIPTS[1:]:
                raise DataError(f"scripts: {name!r} is no script; {nearest(name, SCRIPTS[1:])}")

    def __str__(self) -> str:
        return f"scripts: {self.least:.0%} of the letters {' or '.join(self.allowed)} on {on_sides(self.side)}"

    def apply(self, pairs: Sequence[Pair], key: bytes) -> Kept:
        return _keep_if(pairs, self.side, self._fitting)

    def _fitting(self, texts: list[str]) -> list[bool]:
        fitting: list[bool] = []
        for start in range(0, len(texts), AT_ONCE):
            allowed, letters = letters_in(texts[start : start + AT_ONCE], self.allowed)
            fitting += [not n or k / n >= self.least for k, n in zip(allowed.tolist(), letters.tolist(), strict=True)]
        return fitting


@dataclass(frozen=True)
class Pattern:
    """Drop pairs in which a regular expression is not found (keep = true), or is found (keep = false).

    With side = "both", to be kept both sides must match (keep = true), or neither may (keep = false).
    """

    kind: ClassVar[str] = "pattern"
    training_only: ClassVar[bool] = True
    expression: str
    keep: bool = True
    side: Side = "both"

    def __post_init__(self) -> None:
        check_choice(self.kind, "side", self.side, choices(Side))
        compiled(self.kind, self.expression)

    def __str__(self) -> str:
        return f"pattern: {'with' if self.keep else 'without'} {self.expression!r} on {on_sides(self.side)}"

    def apply(self, pairs: Sequence[Pair], key: bytes) -> Kept:
        return _keep_if(pairs, self.side, self._fitting)

    def _fitting(self, texts: list[str]) -> list[bool]:
        search, keep = re.compile(self.expression).search, self.keep
        return [(search(text) is not None) is keep for text in texts]


@dataclass(frozen=True)
class Lowercase:
    """Write everything in small letters (Unicode's rules, no language's: Turkish I becomes i)."""

    kind: ClassVar[str] = "lowercase"
    training_only: ClassVar[bool] = False
    side: Side = "both"

    def __post_init__(self) -> None:
        check_choice(self.kind, "side", self.side, choices(Side))

    def __str__(self) -> str:
        return f"lowercase: {on_sides(self.side)}"

    def apply(self, pairs: Sequence[Pair], key: bytes) -> Kept:
        return rewritten(pairs, self.side, str.lower)


@dataclass(frozen=True)
class Prefix:
    """Put a text and a space before a side, such as the tag ``<2de>`` that asks for German (Johnson et al. 2017)."""

    kind: ClassVar[str] = "prefix"
    training_only: ClassVar[bool] = False
    text: str
    side: Side = "source"

    def __post_init__(self) -> None:
        check_choice(self.kind, "side", self.side, choices(Side))
        if not self.text.strip():
            raise DataError("prefix: the text is blank; give one, such as text = '<2de>'")

    def __str__(self) -> str:
        return f"prefix: {self.text!r} before {on_sides(self.side)}"

    def apply(self, pairs: Sequence[Pair], key: bytes) -> Kept:
        return prefixed(pairs, self.side, self.text)


@dataclass(frozen=True)
class Replace:
    """Replace what a regular expression finds; `by` may name its groups, by a backslash and their number."""

    kind: ClassVar[str] = "replace"
    training_only: ClassVar[bool] = False
    expression: str
    by: str = ""
    side: Side = "both"

    def __post_init__(self) -> None:
        check_choice(self.kind, "side", self.side, choices(Side))
        compiled(self.kind, self.expression, self.by)

    def __str__(self) -> str:
        return f"replace: {self.expression!r} by {self.by!r} on {on_sides(self.side)}"

    def apply(self, pairs: Sequence[Pair], key: bytes) -> Kept:
        sub, by = re.compile(self.expression).sub, self.by
        return rewritten(pairs, self.side, lambda text: sub(by, text))


@dataclass(frozen=True)
class Call:
    """Your own step: a function that answers with a pair, with None or False to drop the one it was given, or True.

    Only the Python API takes one, never a recipe. Where work is spread over processes the function must be importable
    (no lambda). It should depend on nothing but the pair, else a corpus is not the same twice.
    """

    kind: ClassVar[str] = "call"
    function: Callable[[Pair], object]
    name: str = ""
    training_only: bool = True

    def __str__(self) -> str:
        return f"call: {self.label}"

    @property
    def label(self) -> str:
        """The name given, else the function's own."""
        return self.name or str(getattr(self.function, "__name__", type(self.function).__name__))

    def apply(self, pairs: Sequence[Pair], key: bytes) -> Kept:
        function = self.function
        kept: Kept = []
        for pair in pairs:
            try:
                answer = function(pair)
            except Exception as error:
                said = " ".join(f"{type(error).__name__}: {error}".split())
                raise DataError(f"pipeline step {self.label!r}: {said}; at the pair {short(pair)}") from error
            if answer is None or answer is False:
                kept.append(None)
            elif answer is True:
                kept.append(pair)
            elif isinstance(answer, Pair) and isinstance(answer.source, str) and isinstance(answer.target, str):
                kept.append(answer)
            else:
                given = "a Pair of other things than texts" if isinstance(answer, Pair) else type(answer).__name__
                raise DataError(
                    f"pipeline step {self.label!r}: gave {given} for the pair {short(pair)}; "
                    "expected a Pair, None to drop it, True or False"
                )
        return kept


STEPS: dict[str, type] = {
    step.kind: step
    for step in (Length, Ratio, Duplicates, Identical, Scripts, Pattern, Lowercase, Prefix, Replace, Noise)
}
"""The steps that a recipe may name, by kind."""


def compiled(kind: str, expression: str, by: str = "") -> re.Pattern[str]:
    """A regular expression, checked together with what may replace it."""
    try:
        pattern = re.compile(expression)
    except (re.error, OverflowError, RecursionError) as error:
        raise DataError(f"{kind}: {expression!r} is no regular expression: {error}") from None
    try:
        pattern.sub(by, "")  # reads the replacement first, whether or not anything is found
    except (re.error, IndexError) as error:
        raise DataError(f"{kind}: {by!r} cannot replace {expression!r}: {error}") from None
    return pattern


def _keep_if(pairs: Sequence[Pair], side: Side, fitting: Callable[[list[str]], list[bool]]) -> Kept:
    """The pairs of which one side, or both, fit."""
    if side == "both":
        sources, targets = fitting([pair[0] for pair in pairs]), fitting([pair[1] for pair in pairs])
        return [pair if a and b else None for pair, a, b in zip(pairs, sources, targets, strict=True)]
    texts = [pair.source if side == "source" else pair.target for pair in pairs]
    return [pair if fits else None for pair, fits in zip(pairs, fitting(texts), strict=True)]
