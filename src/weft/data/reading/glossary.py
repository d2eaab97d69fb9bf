"""Glossaries, read and looked up: the terms that a source contains.

A glossary is a file with a term on each line: source term, tab, target term, and optionally tab, note.

    dog	Hund|Hunde          one of the variants has to occur in the output
    ice cream|gelato	Eis     either of the source terms
    GitHub                   no target: it is kept as it is
    /[A-Z]{2}\\d+/            a regular expression, whose matches are kept
    /(\\d+) km/	\\1 Kilometer  … or translated, with its groups

A source term without capitals is found in any case, one with capitals only as it is written. Terms match whole words,
or characters of scripts without spaces. Of overlapping terms the first counts, of those that begin together the
longest. Several lines with the same source term are variants of each other. Targets are not looked up again, so a term
whose target is another term's source is no cycle.

Source terms are the keys of a table, by their words: a source takes time by its words and not by the size of the
glossary. Regular expressions are matched with a limit on their time (`weft.text.expressions`).
`weft.translation.glossary` has the search use the terms; `weft.data.filtering.terms` trains models on them.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import NamedTuple

from weft.errors import DataError, plural, quote, warn
from weft.text import expressions

MAX_EXPRESSIONS = 100
MAX_TERM_WORDS = 50
NO_SPACES = "\u0e00-\u0eff\u1000-\u109f\u1780-\u17ff\u3040-\u30ff\u3400-\u9fff\uf900-\ufaff"
"""Characters of scripts that put no spaces between words."""
UNIT = re.compile(rf"[{NO_SPACES}]|[^\W{NO_SPACES}]+|[^\w\s]")
SEPARATOR = re.compile(r"(?<!\\)\|")
"""Between variants; ``\\|`` is a bar."""
OPEN, CLOSE = "⟦⟧"
"""Around a target term in a source."""
HEADERS = {"source", "source term", "term"}
Variants = tuple[str, ...]


class LocatedTerm(NamedTuple):
    """A term that occurs in a source."""

    end: int
    """Characters of the source up to its last one."""
    variants: Variants


class _Entry(NamedTuple):
    """The targets of a source term."""

    exact: str | None
    """How the source term is written; None: in any case."""
    targets: Variants
    """Empty: it is kept as it is."""
    line: int


class _Expression(NamedTuple):
    """A regular expression and the template of its target; None: matches are kept."""

    pattern: str
    template: str | None


class Glossary:
    """Source terms with their targets: `Glossary.read` or `Glossary.of`."""

    def __init__(self, rows: Iterable[tuple[int, str, str]], name: str = "glossary") -> None:
        """``rows``: line number, source term and target term, with variants between bars."""
        self.name = name
        self._entries: dict[str, list[_Entry]] = {}
        self._longest: dict[str, int] = {}
        """The number of words of the longest term that begins with a word."""
        self._expressions: list[_Expression] = []
        self._contradictions: list[tuple[str, int, int]] = []
        digest = hashlib.sha256()
        for line, source, target in rows:
            digest.update(f"{source}\t{target}\n".encode("utf-8", "surrogatepass"))
            self._add(f"{name}:{line}", line, source.strip(), target.strip())
        self.digest = digest.hexdigest()
        if not self._entries and not self._expressions:
            raise DataError(f"{name}: no terms; expected lines of a source term, a tab and a target term")

    @classmethod
    def read(cls, path: Path | str) -> Glossary:
        """The glossary of a UTF-8 file."""
        from weft.data.reading.lines import read_lines  # loading a run needs no readers
        from weft.data.reading.text_files import display_name

        return cls(_rows(read_lines(path)), display_name(path))._with_warning()

    @classmethod
    def parse(cls, text: str) -> Glossary:
        """The glossary of the lines of a text, which may be a stranger's: without regular expressions or warnings."""
        glossary = cls(_rows(text.splitlines()))
        if glossary._expressions:
            raise DataError(f"glossary: /{glossary._expressions[0].pattern}/: regular expressions are for files alone")
        return glossary

    @classmethod
    def of(cls, value: Glossary | Mapping[str, str] | Path | str) -> Glossary:
        """A glossary, the file of one, or source terms with their target terms."""
        if isinstance(value, Glossary):
            return value
        if not isinstance(value, Mapping):
            return cls.read(value)
        for source, target in value.items():
            if not isinstance(source, str) or not isinstance(target, str):
                raise DataError(f"glossary: {source!r}: {target!r}; expected source terms with target terms (str)")
        rows = ((number, source, target) for number, (source, target) in enumerate(value.items(), start=1))
        return cls(rows)._with_warning()

    def _with_warning(self) -> Glossary:
        """The glossary, after a warning of source terms whose targets differ."""
        if self._contradictions:
            term, first, second = self._contradictions[0]
            several = plural(len(self._contradictions), "source term")
            warn(
                f"{self.name}: {several} with different targets, such as {quote(term)} on lines {first} and {second}: "
                "any of them is accepted"
            )
        return self

    def __len__(self) -> int:
        return len(self._entries) + len(self._expressions)

    def _add(self, where: str, line: int, source: str, target: str) -> None:
        if len(source) > 2 and source.startswith("/") and source.endswith("/"):
            return self._add_expression(where, source[1:-1], target or None)
        targets = _variants(target, where, "target") if target else ()
        for variant in _variants(source, where, "source"):
            units = _units(variant)
            if not units or len(units) > MAX_TERM_WORDS:
                raise DataError(f"{where}: {quote(variant)}: expected a source term of 1 to {MAX_TERM_WORDS} words")
            key = " ".join(units).casefold()
            entry = _Entry(None if variant == variant.lower() else " ".join(units), targets, line)
            entries = self._entries.setdefault(key, [])
            first = next((other for other in entries if other.exact == entry.exact), None)
            if first is not None and first.targets != targets:
                self._contradictions.append((variant, first.line, line))
            entries.append(entry)
            begin = units[0].casefold()
            self._longest[begin] = max(self._longest.get(begin, 0), len(units))

    def _add_expression(self, where: str, pattern: str, template: str | None) -> None:
        try:
            expressions.check_replacement(re.compile(pattern), template or "")
        except (re.error, IndexError, RecursionError, OverflowError) as error:
            raise DataError(f"{where}: /{pattern}/: not a regular expression: {error}") from None
        if len(self._expressions) == MAX_EXPRESSIONS:
            raise DataError(f"{where}: more than {MAX_EXPRESSIONS} regular expressions; join some of them with |")
        self._expressions.append(_Expression(pattern, template))

    def terms_of(self, sources: Sequence[str]) -> list[list[Variants]]:
        """The target variants of the terms in each source, in their order, each once."""
        terms = [[term.variants for term in self.located_terms(source)] for source in sources]
        return [list(dict.fromkeys(a + b)) for a, b in zip(terms, self.expression_terms(sources), strict=True)]

    def expression_terms(self, sources: Sequence[str]) -> list[list[Variants]]:
        """The target of each match of a regular expression in each source."""
        terms: list[list[Variants]] = [[] for _ in sources]
        for pattern, template in self._expressions:
            try:
                matches = expressions.expand(pattern, template, list(sources))
            except expressions.SlowExpressionError as error:
                shown = quote(error.text[:60])
                raise DataError(f"{self.name}: /{pattern}/: {error} on {shown}; write it without nested *, +") from None
            for row, targets in zip(terms, matches, strict=True):
                row += [(target,) for target in targets if target.strip()]
        return terms

    def located_terms(self, source: str) -> list[LocatedTerm]:
        """The terms of the table in a source, from left to right; regular expressions are not among them."""
        units = list(UNIT.finditer(source))
        folded = [unit[0].casefold() for unit in units]
        terms: list[LocatedTerm] = []
        start = 0
        while start < len(units):
            entries, following = self._longest_term(units, folded, start)
            if entries:
                end = units[following - 1].end()
                kept = source[units[start].start() : end]
                targets = dict.fromkeys(target for entry in entries for target in entry.targets or (kept,))
                terms.append(LocatedTerm(end, tuple(targets)))
            start = max(following, start + 1)
        return terms

    def _longest_term(
        self, units: Sequence[re.Match[str]], folded: Sequence[str], start: int
    ) -> tuple[list[_Entry], int]:
        """The entries of the longest term that begins at a word of a source, and the word after it; none if there is
        no such term."""
        best: list[_Entry] = []
        following, key = start, ""
        for end in range(start + 1, min(start + self._longest.get(folded[start], 0), len(units)) + 1):
            key = f"{key} {folded[end - 1]}" if key else folded[start]
            if key in self._entries:
                surface = " ".join(unit[0] for unit in units[start:end])
                if entries := [entry for entry in self._entries[key] if entry.exact in (None, surface)]:
                    best, following = entries, end
        return best, following


def _rows(lines: Iterable[str]) -> Iterable[tuple[int, str, str]]:
    """Line number, source term and target term of the lines of a glossary."""
    for number, line in enumerate(lines, start=1):
        source, _, others = line.partition("\t")
        is_header = number == 1 and source.strip().casefold() in HEADERS and bool(others)
        if line.strip() and not is_header:
            yield number, source, others.partition("\t")[0]


def _variants(text: str, where: str, side: str) -> tuple[str, ...]:
    variants = tuple(variant.strip().replace("\\|", "|") for variant in SEPARATOR.split(text))
    if not all(variants):
        raise DataError(f"{where}: {quote(text)}: an empty {side} term; expected terms, with | between variants")
    return variants


def _units(text: str) -> list[str]:
    return UNIT.findall(text)


def is_missing(terms: Sequence[Variants], text: str) -> bool:
    """Whether a text lacks all variants of one of the terms."""
    padded = f" {' '.join(_units(text)).casefold()} "
    return any(
        not any(f" {' '.join(_units(variant)).casefold()} " in padded for variant in variants) for variants in terms
    )


def annotated(source: str, terms: Iterable[tuple[int, str]]) -> str:
    """A source with target terms written after its own, each given with the characters up to there: pie ⟦tarte⟧."""
    parts: list[str] = []
    start = 0
    for end, target in terms:
        parts.append(f"{_without_marks(source[start:end])} {OPEN} {_without_marks(target)} {CLOSE}")
        start = end
    return "".join([*parts, _without_marks(source[start:])])


def _without_marks(text: str) -> str:
    return text.replace(OPEN, "[").replace(CLOSE, "]")
