"""The steps of a pipeline: filters that drop pairs, and transforms that rewrite them.

A step is declared once: its class holds its settings (``[[data.pipeline]]`` in a recipe), checks them, and does the
work. To add one, write the class and add its line to `weft.recipe.choices.STEPS`. `Call` wraps a Python function and
is available from Python only. `weft.data.filtering.pipeline.Pipeline` runs steps in order and counts what they drop.

Filters and noise apply to training pairs only; steps that change the form of a text (lowercasing, tags, replacements,
truncation) apply to validation and test pairs too (`Step.training_only`). Words are separated by white space here;
Chinese, Japanese and Thai are better measured in characters (code points).

Word links stay valid: a prefix shifts them; any other change of a text keeps them only if the text has as many words
(`weft.text.words`) as before, and noise on words always removes them.
"""

from __future__ import annotations

import re
from abc import abstractmethod
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any, ClassVar, Literal, TypeGuard

from pydantic import Field, field_validator, model_validator

from weft.data.filtering.sides import Side, prefixed, rewritten, shorten_pair, side_phrase, with_texts
from weft.data.filtering.unicode_scripts import SCRIPTS, letters_in
from weft.data.pairs import Pair, pair_hashes, text_hashes
from weft.errors import DataError, nearest, quote
from weft.recipe.base import Count, CountOrNone, Probability
from weft.recipe.pipeline import StepSettings
from weft.text import expressions

Unit = Literal["words", "characters"]
Kept = list[Pair | None]
SCRIPT_BATCH = 4096
"""Texts whose characters are laid out as one array at a time, to bound memory."""


class Step(StepSettings):
    """One filter or transform; ``str(step)`` describes it in one line."""

    training_only: ClassVar[bool] = True
    """Whether validation and test pairs skip it."""
    is_random: ClassVar[bool] = False
    """Whether it draws random numbers; `apply` then gets a key that is different for every such step."""
    makes_pairs: ClassVar[bool] = False
    """Whether it makes new pairs out of several, whose sources a teacher can translate."""

    def for_evaluation(self) -> Step:
        """The step that validation and test pairs go through, if they do not skip it."""
        return self

    @abstractmethod
    def apply(self, pairs: Sequence[Pair], key: bytes) -> Kept:
        """The transformed pairs, with None for dropped ones. Random draws depend on `key` and the pair alone."""


class Length(Step):
    """Drop pairs with a side that is too short or too long."""

    kind: Literal["length"] = Field("length", description="drop pairs that are too short or too long")
    min: CountOrNone = Field(1, description="shortest side that is kept; 1: no blank sides")
    max: CountOrNone = Field(0, description="longest side that is kept; 0: no limit")
    unit: Unit = Field("words", description="what is counted; words are separated by white space")
    side: Side = Field("both", description="which side must fit")

    @model_validator(mode="after")
    def _check_bounds(self) -> Length:
        if self.max and self.min > self.max:
            raise ValueError(f"data.pipeline: length: min = {self.min} is above max = {self.max}")
        return self

    def __str__(self) -> str:
        bounds = f"{self.min} to {self.max}" if self.max else f"at least {self.min}"
        return f"length: {bounds} {self.unit} on {side_phrase(self.side)}"

    def apply(self, pairs: Sequence[Pair], key: bytes) -> Kept:
        # Most pairs need no counting of words: n words have at least 2n - 1 characters.
        low, high = max(self.min, 1), self.max or 1 << 62
        if self.unit == "words":
            low, high = (1, 2 * high - 1) if self.min <= 1 else (1, 0)
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
        return all(self.min <= length and (length <= self.max or not self.max) for length in lengths)


class Ratio(Step):
    """Drop pairs whose longer side is more than `max` times as long as the shorter, or with exactly one blank side."""

    kind: Literal["ratio"] = Field("ratio", description="drop pairs whose sides differ too much in length")
    max: float = Field(3.0, ge=1, description="longer side over shorter side, at most")
    unit: Unit = Field("words", description="what is counted")

    def __str__(self) -> str:
        return f"ratio: the longer side at most {self.max:g} times the shorter, in {self.unit}"

    def apply(self, pairs: Sequence[Pair], key: bytes) -> Kept:
        limit, kept = self.max, []
        in_words = self.unit == "words"
        for pair in pairs:
            longer, shorter = (len(pair[0].split()), len(pair[1].split())) if in_words else (len(pair[0]), len(pair[1]))
            if longer < shorter:
                longer, shorter = shorter, longer
            kept.append(pair if longer == shorter or (shorter and longer / shorter <= limit) else None)
        return kept


class Duplicates(Step):
    """Drop repeated pairs, sources or targets; the first one is kept.

    One block of a corpus is not enough to know: `apply` drops nothing, the pipeline records `hashes`, and
    `weft.data.filtering.duplicates.decide_duplicates` decides. Two different texts share their 64-bit hash with
    probability 2^-64: among a hundred million pairs, the probability that one is dropped wrongly is 0.0003.
    """

    needs_whole_corpus: ClassVar[bool] = True
    kind: Literal["duplicates"] = Field("duplicates", description="drop repetitions; the first one is kept")
    of: Literal["pair", "source", "target"] = Field("pair", description="what must not occur twice")

    def __str__(self) -> str:
        return f"duplicates: the first of the same {self.of} stays"

    def apply(self, pairs: Sequence[Pair], key: bytes) -> Kept:
        return list(pairs)

    def hashes(self, pairs: Sequence[Pair]) -> list[int]:
        """64-bit hashes of what must not occur twice."""
        if self.of == "pair":
            return pair_hashes(pairs)
        return text_hashes([pair.source if self.of == "source" else pair.target for pair in pairs])


class Identical(Step):
    """Drop pairs whose sides are the same, ignoring white space around them."""

    kind: Literal["identical"] = Field("identical", description="drop pairs whose sides are the same")

    def __str__(self) -> str:
        return "identical: source and target differ"

    def apply(self, pairs: Sequence[Pair], key: bytes) -> Kept:
        return [
            pair if (source := pair[0]) != (target := pair[1]) and source.strip() != target.strip() else None
            for pair in pairs
        ]


class Scripts(Step):
    """Drop pairs with a side too few of whose letters are of the allowed scripts; a side without letters is kept."""

    kind: Literal["scripts"] = Field("scripts", description="drop pairs written in other scripts")
    allowed: list[str] = Field(min_length=1, description="such as ['Latin'] or ['Han', 'Hiragana', 'Katakana']")
    min_share: Probability = Field(0.9, description="share of the letters that must be of these scripts")
    side: Side = Field("both", description="which side must fit")

    @field_validator("allowed")
    @classmethod
    def _check_names(cls, names: list[str]) -> list[str]:
        for name in names:
            if name not in SCRIPTS[1:]:
                raise ValueError(f"data.pipeline: scripts: {name!r} is not a script; {nearest(name, SCRIPTS[1:])}")
        return names

    def __str__(self) -> str:
        return f"scripts: {self.min_share:.0%} of the letters {' or '.join(self.allowed)} on {side_phrase(self.side)}"

    def apply(self, pairs: Sequence[Pair], key: bytes) -> Kept:
        return _keep_if(pairs, self.side, self._fits)

    def _fits(self, texts: list[str]) -> list[bool]:
        fits: list[bool] = []
        for start in range(0, len(texts), SCRIPT_BATCH):
            allowed, letters = letters_in(texts[start : start + SCRIPT_BATCH], self.allowed)
            fits += [not n or k / n >= self.min_share for k, n in zip(allowed.tolist(), letters.tolist(), strict=True)]
        return fits


class Pattern(Step):
    """Drop pairs in which a regular expression does not match (keep = true), or matches (keep = false).

    With side = "both", a pair is kept if both sides match (keep = true), or if neither does (keep = false).
    """

    kind: Literal["pattern"] = Field("pattern", description="drop pairs by a regular expression")
    expression: str = Field(description="searched for anywhere in the text")
    keep: bool = Field(True, description="drop pairs where it does not match; false: where it does")
    side: Side = Field("both", description="which side is searched")

    @field_validator("expression")
    @classmethod
    def _check_expression(cls, expression: str) -> str:
        check_expression(expression)
        return expression

    def __str__(self) -> str:
        return f"pattern: {'with' if self.keep else 'without'} {self.expression!r} on {side_phrase(self.side)}"

    def apply(self, pairs: Sequence[Pair], key: bytes) -> Kept:
        return _keep_if(pairs, self.side, self._fits)

    def _fits(self, texts: list[str]) -> list[bool]:
        with _time_limit(self):
            return [matches is self.keep for matches in expressions.search(self.expression, texts)]


class Lowercase(Step):
    """Lowercase texts by the rules of Unicode, not of a language: Turkish I becomes i."""

    training_only: ClassVar[bool] = False
    kind: Literal["lowercase"] = Field("lowercase", description="lowercase everything")
    side: Side = Field("both", description="which side")

    def __str__(self) -> str:
        return f"lowercase: {side_phrase(self.side)}"

    def apply(self, pairs: Sequence[Pair], key: bytes) -> Kept:
        return rewritten(pairs, self.side, str.lower)


class Prefix(Step):
    """Put a text and a space before a side, such as the target-language tag ``<2de>`` of Johnson et al. 2017."""

    training_only: ClassVar[bool] = False
    kind: Literal["prefix"] = Field("prefix", description="put a tag, such as <2de>, and a space before a side")
    text: str = Field(description="the tag")
    side: Side = Field("source", description="which side")

    @field_validator("text")
    @classmethod
    def _check_text(cls, text: str) -> str:
        if not text.strip():
            raise ValueError("data.pipeline: prefix: the text is blank; give one, such as text = '<2de>'")
        return text

    def __str__(self) -> str:
        return f"prefix: {self.text!r} before {side_phrase(self.side)}"

    def apply(self, pairs: Sequence[Pair], key: bytes) -> Kept:
        return prefixed(pairs, self.side, self.text)


class Replace(Step):
    """Replace every match of a regular expression; the replacement may refer to groups, as in `re.sub`."""

    training_only: ClassVar[bool] = False
    kind: Literal["replace"] = Field("replace", description="replace what a regular expression matches")
    expression: str = Field(description="what is replaced")
    replacement: str = Field("", description=r"what it becomes; \1 is the first group")
    side: Side = Field("both", description="which side")

    @model_validator(mode="after")
    def _check_expression(self) -> Replace:
        check_expression(self.expression, self.replacement)
        return self

    def __str__(self) -> str:
        return f"replace: {self.expression!r} by {self.replacement!r} on {side_phrase(self.side)}"

    def apply(self, pairs: Sequence[Pair], key: bytes) -> Kept:
        texts = [pair[0] for pair in pairs] if self.side != "target" else []
        texts += [pair[1] for pair in pairs] if self.side != "source" else []
        with _time_limit(self):
            replaced = iter(expressions.replace(self.expression, self.replacement, texts))
        if self.side != "both":
            return rewritten(pairs, self.side, lambda _: next(replaced))
        sources = [next(replaced) for _ in pairs]
        return [
            Pair(source, target) if pair.links is None else with_texts(pair, source, target)
            for pair, source, target in zip(pairs, sources, replaced, strict=True)
        ]


class Truncate(Step):
    """Keep the beginning of a text, as is usual for the long sources of summarization."""

    training_only: ClassVar[bool] = False
    kind: Literal["truncate"] = Field("truncate", description="keep only the beginning of a side")
    max: Count = Field(description="what is kept, at most")
    unit: Unit = Field("words", description="what is counted; words are separated by white space")
    side: Side = Field("source", description="which side")

    def __str__(self) -> str:
        return f"truncate: the first {self.max} {self.unit} of {side_phrase(self.side)}"

    def apply(self, pairs: Sequence[Pair], key: bytes) -> Kept:
        return rewritten(pairs, self.side, self._beginning)

    def _beginning(self, text: str) -> str:
        if self.unit == "characters" or len(text) <= 2 * self.max:  # n words have at least 2n - 1 characters
            return text[: self.max] if self.unit == "characters" else text
        rest = text.split(maxsplit=self.max)[self.max :]
        return text.removesuffix(rest[0]).rstrip() if rest else text


class Call(Step):
    """A Python function as a step: it returns a pair, True to keep the pair as it is, or None or False to drop it.

    Recipes cannot name one. With worker processes the function must be importable (no lambda). It should depend on
    nothing but the pair, otherwise preparing a corpus twice gives different results.
    """

    kind: Literal["call"] = "call"
    function: Callable[[Pair], object]
    name: str = ""

    def __str__(self) -> str:
        return f"call: {self.label}"

    @property
    def label(self) -> str:
        """The given name, else the function's."""
        return self.name or str(getattr(self.function, "__name__", type(self.function).__name__))

    def apply(self, pairs: Sequence[Pair], key: bytes) -> Kept:
        function = self.function
        kept: Kept = []
        for pair in pairs:
            try:
                result = function(pair)
            except Exception as error:
                reason = " ".join(f"{type(error).__name__}: {error}".split())
                raise DataError(f"pipeline step {self.label!r}: {reason}; at the pair {shorten_pair(pair)}") from error
            if result is None or result is False:
                kept.append(None)
            elif result is True:
                kept.append(pair)
            elif _is_pair(result):
                kept.append(Pair(*result))
            else:
                type_name = "a Pair of other things than texts" if isinstance(result, Pair) else type(result).__name__
                raise DataError(
                    f"pipeline step {self.label!r}: returned {type_name} for the pair {shorten_pair(pair)}; "
                    "expected a Pair, None to drop it, True or False"
                )
        return kept


def _is_pair(result: Any) -> TypeGuard[tuple[str, str]]:
    """Whether a function has returned a pair, or a plain tuple of two texts."""
    is_of_two = isinstance(result, Pair) or (isinstance(result, tuple) and len(result) == 2)
    return is_of_two and all(isinstance(side, str) for side in result[:2])


class StepError(DataError):
    """A step that cannot be applied to a text; the pipeline adds the pair that it belongs to."""

    def __init__(self, message: str, text: str) -> None:
        super().__init__(message)
        self.text = text
        self.pair: Pair | None = None


@contextmanager
def _time_limit(step: Pattern | Replace) -> Iterator[None]:
    try:
        yield
    except expressions.SlowExpressionError as error:
        where = f"data.pipeline: {step.kind} {quote(step.expression)} {error} on {quote(error.text)}"
        raise StepError(f"{where}; write it without nested repetitions", error.text) from None


def check_expression(expression: str, replacement: str = "") -> None:
    """Refuse what is not a regular expression, or a replacement that does not fit it."""
    try:
        pattern = re.compile(expression)
    except (re.error, OverflowError, RecursionError) as error:
        raise ValueError(f"data.pipeline: {expression!r} is not a regular expression: {error}") from None
    try:
        expressions.check_replacement(pattern, replacement)
    except (re.error, IndexError) as error:
        raise ValueError(f"data.pipeline: {replacement!r} cannot replace {expression!r}: {error}") from None


def _keep_if(pairs: Sequence[Pair], side: Side, fits: Callable[[list[str]], list[bool]]) -> Kept:
    """The pairs of which the given side, or both sides, fit."""
    if side == "both":
        sources, targets = fits([pair[0] for pair in pairs]), fits([pair[1] for pair in pairs])
        return [pair if a and b else None for pair, a, b in zip(pairs, sources, targets, strict=True)]
    texts = [pair.source if side == "source" else pair.target for pair in pairs]
    return [pair if kept else None for pair, kept in zip(pairs, fits(texts), strict=True)]
