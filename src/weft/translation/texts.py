"""Texts rather than sentences: lines are split into sentences, each is translated, and the layout stays as it was.

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
from dataclasses import replace
from typing import TYPE_CHECKING, Any, NamedTuple

from weft.translation.results import Translation, empty_translation

if TYPE_CHECKING:
    from weft.translation.translator import Translator

ABBREVIATIONS = frozenset(
    [
        *(
            "mr",
            "mrs",
            "ms",
            "dr",
            "prof",
            "st",
            "sr",
            "jr",
            "rev",
            "gen",
            "col",
            "capt",
            "lt",
            "hon",
            "vs",
            "cf",
            "al",
        ),
        *("ed", "eds", "vol", "no", "nos", "fig", "figs", "eq", "sec", "ch", "pp", "p", "art", "approx", "dept"),
        *("e.g", "i.e", "u.s", "u.k", "a.m", "p.m", "inc", "ltd", "co", "corp", "jan", "feb", "mar", "apr", "jun"),
        *("jul", "aug", "sep", "sept", "oct", "nov", "dec", "m", "mm", "mme", "mlle", "me", "av", "bd"),
        *("bzw", "ca", "d.h", "evtl", "ggf", "inkl", "max", "min", "nr", "o.ä", "s.o", "s.u", "str", "tel", "u.a"),
        *("usw", "vgl", "z.b", "z.t", "sra", "srta", "ud", "uds", "pág", "núm", "ej"),
    ]
)
"""Without their last full stop, in lower case."""
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
    return may_begin and word not in ABBREVIATIONS and not is_initial


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


def translate_lines(run: Translator, lines: Sequence[str], **search: Any) -> list[Translation]:
    """A translation for every line, whose sentences are translated one by one.

    Its text has the layout of the line; its scores are sums over sentences, its confidence is the lowest of theirs, and
    its flags are those of all of them. It has neither attention nor alternatives.
    """
    layouts = [[part for piece in split_line(line) for part in _fitting(run, piece)] for line in lines]
    sentences = [part.text for layout in layouts for part in layout if part.is_sentence]
    outputs = iter(run.translate(sentences, return_attention=False, **search) if sentences else [])
    return [
        join_line(line, layout, [next(outputs) for part in layout if part.is_sentence])
        for line, layout in zip(lines, layouts, strict=True)
    ]


def _fitting(run: Translator, part: Part) -> list[Part]:
    longest = None if run.confidence is None else run.confidence.flag_rules.longest
    if longest is None or not part.is_sentence or len(part.text) <= longest:  # a token has a character at least
        return [part]
    return split_long(part.text, lambda text: len(run.source_ids(text)) <= longest)


def join_line(line: str, layout: Sequence[Part], outputs: Sequence[Translation]) -> Translation:
    """The translation of a line from those of its sentences."""
    if not outputs:
        return replace(empty_translation(line), text=line)
    remaining = iter(outputs)
    text = "".join(next(remaining).text if part.is_sentence else part.text for part in layout)
    confidences = [output.confidence for output in outputs if output.confidence is not None]
    joined = Translation(
        source=line,
        text=text,
        score=sum(output.score for output in outputs),
        log_probability=sum(output.log_probability for output in outputs),
        tokens=[token for output in outputs for token in output.tokens],
        ids=[token for output in outputs for token in output.ids],
        token_scores=[score for output in outputs for score in output.token_scores],
        source_tokens=[token for output in outputs for token in output.source_tokens],
        attention=None,
        word_attention=None,
        links=[],
        ended=next((output.ended for output in outputs if output.ended != "end"), "end"),
        gap=None,
        confidence=min(confidences, default=None),
    )
    names = {name for output in outputs for name in output.flags}
    vars(joined)["flags"] = tuple(sorted(names))  # those of sentences, not of the line as a whole
    return joined


def translate_text(run: Translator, text: str, **search: Any) -> str:
    """The translation of a text of several sentences, paragraphs or lines, in the same layout.

    weft.translate_text(run, "He left. She slept.\\n\\n- A list")
    """
    lines = text.splitlines(keepends=True)
    bodies = [line.rstrip("\r\n\v\f\x1c\x1d\x1e\x85\u2028\u2029") for line in lines]
    outputs = translate_lines(run, bodies, **search)
    return "".join(output.text + line[len(body) :] for output, line, body in zip(outputs, lines, bodies, strict=True))
