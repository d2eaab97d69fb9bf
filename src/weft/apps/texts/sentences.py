"""Sentences: where they end, by the rules of their scripts, and clauses of sentences that are too long.

A model that was trained on single sentences loses some if it is given several together. `split_line` divides a line
into sentences and what stands around them: white space, list markers and headings' marks, which are copied. All parts
together are the line, character by character.

A sentence ends with . ! ? or … (and quotes or brackets that close after it), if white space and then something follows
that may begin another: a capital, a digit, an opening quote, a letter without case; or if the sign stands alone, as in
tokenized text. The full stops of Chinese, Japanese, Hindi, Urdu and Arabic end a sentence without that. Abbreviations
(`ABBREVIATIONS`), initials and numbers do not. A sentence that has more tokens than nearly all validation sources of
the run is divided at a semicolon, a colon or a comma near its middle.

Line breaks end a sentence: of a text that is wrapped at some width, unwrap the paragraphs first.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, NamedTuple

from weft.errors import DataError
from weft.text.vocabulary import MAX_TEXT_CHARACTERS

if TYPE_CHECKING:
    from weft.translation.translator import Translator

ABBREVIATIONS = frozenset(
    [
        *("mr", "mrs", "ms", "dr", "prof", "st", "sr", "jr", "rev", "gen", "col", "capt", "lt", "hon", "vs", "cf"),
        *("al", "eds", "approx", "dept", "ph.d", "e.g", "i.e", "u.s", "u.k", "inc", "ltd", "co", "corp"),
        *("mm", "mme", "mlle", "av", "bd", "bzw", "ca", "d.h", "evtl", "ggf", "inkl", "max", "min", "o.ä", "s.o"),
        *("s.u", "str", "u.a", "usw", "vgl", "z.b", "z.t", "sra", "srta", "ud", "uds", "ej"),
    ]
)
"""Without their last full stop, in lower case."""
BEFORE_NUMBERS = frozenset(
    [
        *("no", "nos", "nr", "núm", "pág", "art", "vol", "fig", "figs", "eq", "sec", "ch", "pp", "tab", "ref", "tel"),
        *("jan", "feb", "mar", "apr", "jun", "jul", "aug", "sep", "sept", "oct", "nov", "dec"),
    ]
)
"""Abbreviations only where a digit follows: "no. 5", but "She said no."."""
MARKER = re.compile(r"\s*+(?:(?:[-*+•‣–—>]|#{1,6}|\(?(?:\d{1,3}[.)]|[a-z]\)))\s++){0,5}")
"""White space, list markers and the marks of headings and quotations at the beginning of a line."""
END = re.compile(
    r"""(?<![.!?…])(?P<western>[.!?…]++)["'”’»)\]]*+(?P<space>\s++)(?=(?P<next>\S))"""
    r"""|(?<![。！？｡।॥؟۔])(?P<other>[。！？｡।॥؟۔]++)["'”’»）」』)\]]*+(?P<other_space>\s*+)(?=\S)"""
)
MAX_ABBREVIATION = 20
"""Characters before a full stop that are looked at."""
OPENING = "\"'“‘«„¿¡([{-–—"
CLAUSE = re.compile(r"[;:,，；：、]\s*(?=\S)")
MIN_CLAUSE = 8
"""Characters of a clause, at least."""


class Part(NamedTuple):
    """A stretch of a line."""

    text: str
    is_sentence: bool
    """Whether it is translated; other parts are copied."""


def split_line(line: str) -> list[Part]:
    """The sentences of a line and what stands around them; their texts together are the line."""
    marker = MARKER.match(line)
    start = 0 if marker is None else marker.end()
    parts = [Part(line[:start], False)] if start else []
    for end in END.finditer(line, start):
        if not _ends_sentence(line, start, end):
            continue
        space = end.start("space") if end["western"] else end.start("other_space")
        parts.append(Part(line[start:space], True))
        if space < end.end():
            parts.append(Part(line[space : end.end()], False))
        start = end.end()
    rest = line[start:]
    kept = rest.rstrip()
    parts += [Part(kept, True)] if kept else []
    return parts + ([Part(rest[len(kept) :], False)] if len(kept) < len(rest) else [])


def _ends_sentence(line: str, start: int, end: re.Match[str]) -> bool:
    """Whether a sign ends the sentence that begins at ``start``; it does not where nothing stands before it."""
    if end.start() <= start:
        return False
    if end["other"]:
        return True
    stands_alone = line[end.start() - 1].isspace()
    following = end["next"]
    may_begin = following in OPENING or following.isdigit() or (following.isalpha() and not following.islower())
    if stands_alone or end["western"] != ".":
        return stands_alone or may_begin
    word = line[max(start, end.start() - MAX_ABBREVIATION) : end.start()].split()[-1].lstrip(OPENING).casefold()
    is_initial = len(word) == 1 and word.isalpha()
    is_abbreviation = word in ABBREVIATIONS or (following.isdigit() and word in BEFORE_NUMBERS)
    return may_begin and not is_abbreviation and not is_initial


def split_long(sentence: str, fits: Callable[[str], bool]) -> list[Part]:
    """A sentence as clauses that fit, as far as there are clauses; ``fits``: whether a text is short enough."""
    if fits(sentence):
        return [Part(sentence, True)]
    breaks = [
        match.end() for match in CLAUSE.finditer(sentence) if MIN_CLAUSE <= match.end() <= len(sentence) - MIN_CLAUSE
    ]
    if not breaks:
        return [Part(sentence, True)]
    middle = min(breaks, key=lambda position: abs(position - len(sentence) / 2))
    first = sentence[:middle].rstrip()
    space = [Part(sentence[len(first) : middle], False)] if len(first) < middle else []
    return [*split_long(first, fits), *space, *split_long(sentence[middle:], fits)]


class Splitter:
    """Lines as sentences: by the rules of `split_line` or by a given function, and no longer than a model knows."""

    def __init__(
        self,
        given: Callable[[str], Sequence[str]] | None = None,
        *,
        longest: int | None = None,
        length: Callable[[str], int] = len,
    ) -> None:
        """``given``: returns the sentences of a line in order, each as it stands there; ``longest``: the largest
        ``length`` of a sentence that is not divided into clauses, which has a character for each unit at least."""
        self.given, self.longest, self.length = given, longest, length
        self.divided = 0
        """The sentences that were divided."""

    @classmethod
    def of_run(cls, run: Translator, given: Callable[[str], Sequence[str]] | None = None) -> Splitter:
        """One that divides sentences with more tokens than nearly all validation sources, if the run is calibrated."""
        longest = None if run.confidence is None else run.confidence.flag_rules.longest

        def length(text: str) -> int:  # of what no tokenizer reads, its characters
            return len(text) if len(text) > MAX_TEXT_CHARACTERS else len(run.source_ids(text))

        return cls(given, longest=longest, length=length)

    def __call__(self, line: str) -> list[Part]:
        """The sentences, or clauses, of a line and what stands around them; their texts together are the line."""
        parts = split_line(line) if self.given is None else located(line, self.given(line))
        return [clause for part in parts for clause in self._clauses(part)]

    def _clauses(self, part: Part) -> list[Part]:
        longest = self.longest
        if longest is None or not part.is_sentence or len(part.text) <= longest:
            return [part]
        clauses = split_long(part.text, lambda text: self.length(text) <= longest)
        self.divided += len(clauses) > 1
        return clauses


def located(line: str, sentences: Sequence[str]) -> list[Part]:
    """The parts of a line whose sentences were found by another splitter."""
    parts: list[Part] = []
    end = 0
    for sentence in sentences:
        start = line.find(sentence, end) if isinstance(sentence, str) else -1
        if start < 0:
            raise DataError(f"splitter: {str(sentence)[:40]!r} does not stand in the rest of its line; return its text")
        parts += [Part(line[end:start], False)] if start > end else []
        parts += [Part(sentence, True)] if sentence.strip() else [Part(sentence, False)] if sentence else []
        end = start + len(sentence)
    return [*parts, Part(line[end:], False)] if end < len(line) else parts
