"""What is done to a text before it is cut into characters or words: symbols, normalization, protected matches.

The settings of a tokenizer of units, and what they make of a text: stretches, each either one token (an atom) or text
to be cut. Where nothing is set there is one stretch, the text.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, NamedTuple

from weft.errors import VocabularyError
from weft.text import normalization as normalizing
from weft.text.symbols import Protected, check_patterns, check_symbols, symbol_pattern


class Stretch(NamedTuple):
    """A part of a text: one token, or to be cut."""

    text: str
    atom: bool


@dataclass(frozen=True)
class Preparation:
    """The settings. `wholes` are protected matches that are one token each."""

    normalize: str = "none"
    lowercase: bool = False
    symbols: tuple[str, ...] = ()
    protect: tuple[str, ...] = ()
    wholes: tuple[str, ...] = ()

    @classmethod
    def learn(
        cls,
        texts: Sequence[str],
        *,
        normalize: str,
        lowercase: bool,
        symbols: Iterable[str],
        protect: Iterable[str],
        size: int | None,
        minimum_count: int,
        without: str = "",
    ) -> Preparation:
        """Check the settings, and find the protected matches seen often enough: at most a quarter of the ids."""
        normalizing.steps(normalize, lowercase)
        first = cls(normalize, lowercase, check_symbols(symbols, without=without), check_patterns(protect))
        if not first.protect:
            return first
        if minimum_count < 1:
            raise VocabularyError(f"vocabulary: minimum count {minimum_count}, expected 1 or more")
        most = len(texts) + sum(map(len, texts)) if size is None else max(size, 0) // 4
        between = (stretch.text for text in texts for stretch in first._between_symbols(text) if not stretch.atom)
        stripped = first._protected.frequent(between, most=most, minimum_count=minimum_count)
        found = dict.fromkeys(match.strip() for match in stripped)
        wholes = tuple(match for match in found if match and match not in first.symbols)
        return cls(first.normalize, first.lowercase, first.symbols, first.protect, wholes)

    @property
    def is_plain(self) -> bool:
        return self == Preparation()

    @property
    def cuts(self) -> bool:
        """Whether there is more than one stretch to a text."""
        return bool(self.symbols or self.protect)

    def stretches(self, text: str) -> list[Stretch]:
        """The stretches of a text, none of them empty; end to end they are the normalized text."""
        if not self.protect:
            return list(self._between_symbols(text))
        found: list[Stretch] = []
        for stretch in self._between_symbols(text):
            if stretch.atom:
                found.append(stretch)
                continue
            done = 0
            for start, end in self._protected.find(stretch.text):
                match = stretch.text[start:end]
                start += len(match) - len(match.lstrip())
                end = start + len(match.strip())
                if start < end:
                    found += [Stretch(stretch.text[done:start], False)] if done < start else []
                    found.append(Stretch(stretch.text[start:end], stretch.text[start:end] in self._whole))
                    done = end
            found += [Stretch(stretch.text[done:], False)] if done < len(stretch.text) else []
        return found

    def _between_symbols(self, text: str) -> Iterator[Stretch]:
        parts = [text] if self._pattern is None else self._pattern.split(text)
        for place, part in enumerate(parts):
            if place % 2:
                yield Stretch(part, True)
            elif part:
                yield Stretch(part if self._normal is None else self._normal(part), False)

    @cached_property
    def _pattern(self) -> Any:
        return symbol_pattern(self.symbols)

    @cached_property
    def _normal(self) -> Any:
        return normalizing.function(self.normalize, self.lowercase)

    @cached_property
    def _protected(self) -> Protected:
        return Protected(self.protect)

    @cached_property
    def _whole(self) -> frozenset[str]:
        return frozenset(self.wholes)

    def content(self) -> dict[str, object]:
        """What the file says of it: what is not as usual."""
        given = {"normalize": self.normalize, "lowercase": self.lowercase, "given": list(self.symbols)}
        usual: dict[str, object] = {"normalize": "none", "lowercase": False, "given": [], "protect": [], "wholes": []}
        found = {**given, "protect": list(self.protect), "wholes": list(self.wholes)}
        return {name: value for name, value in found.items() if value != usual[name]}

    @classmethod
    def from_json(cls, found: dict[str, Any], *, name: str) -> Preparation:
        lists = {}
        for key in ("given", "protect", "wholes"):
            value = found.get(key, [])
            if not isinstance(value, list) or not all(isinstance(one, str) for one in value):
                raise VocabularyError(f"{name}: damaged: {key} is not a list of texts")
            lists[key] = tuple(value)
        lowercase, normalize = found.get("lowercase", False), found.get("normalize", "none")
        if not isinstance(lowercase, bool):
            raise VocabularyError(f"{name}: damaged: lowercase is {lowercase!r}, expected true or false")
        try:
            normalizing.steps(normalize, lowercase)
            symbols, protect = check_symbols(lists["given"]), check_patterns(lists["protect"])
        except VocabularyError as error:
            raise VocabularyError(f"{name}: damaged: {error}") from None
        return cls(normalize, lowercase, symbols, protect, lists["wholes"])

    def description(self) -> list[str]:
        """What a person may want to know, a line each."""
        found = [f"normalization: {normalizing.described(self.normalize, self.lowercase)}"]
        found += [f"symbols: {' '.join(self.symbols)}"] if self.symbols else []
        return found + [f"protected: {pattern}" for pattern in self.protect]
