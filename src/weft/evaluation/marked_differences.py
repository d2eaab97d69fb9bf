"""Marked differences between an output and its reference, each in one line: ``the [cat] sat``, ``the [dog] sat``.

Units are tokens between spaces or, of texts of one token, characters. Long texts are shortened to the surroundings of
their first difference, and characters that a terminal might act on are shown as escapes.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import NamedTuple

from weft.evaluation.max_match import Edit, edits_between

MAX_UNITS = 400
"""Tokens or characters of each text that are compared."""
MAX_SHOWN = 160
"""Characters that are shown."""
BEFORE_DIFFERENCE = 40
"""Characters before the first difference that are kept of a long text."""
JOINERS = "\u200c\u200d"
"""Zero-width joiners: invisible, and needed in Persian, Indic scripts and emoji."""

Mark = Callable[[str], str]


class MarkedSegment(NamedTuple):
    """A part of a text that is the same in the other one, or not."""

    text: str
    differs: bool


def in_brackets(text: str) -> str:
    return f"[{text}]"


def marked(output: str, reference: str, mark: Mark = in_brackets) -> tuple[str, str]:
    """Both texts, each in one line, with their differences marked."""
    first, second = differences(output, reference)
    return _rendered(first, mark), _rendered(second, mark)


def differences(output: str, reference: str) -> tuple[list[MarkedSegment], list[MarkedSegment]]:
    """Both texts as segments, by an alignment with the fewest edits."""
    is_tokens = len(output.split()) > 1 or len(reference.split()) > 1
    left, right = (text.split() if is_tokens else list(text.strip()) for text in (output, reference))
    left, right = left[:MAX_UNITS], right[:MAX_UNITS]
    space = " " if is_tokens else ""
    segments: tuple[list[MarkedSegment], list[MarkedSegment]] = ([], [])

    def add(side: int, units: Sequence[str], *, differs: bool) -> None:
        if units:
            segments[side].append(MarkedSegment((space if segments[side] else "") + space.join(units), differs))

    start = 0
    for edit in [*edits_between(left, right), Edit(len(left), len(left), ((),))]:
        for side in (0, 1):
            add(side, left[start : edit.start], differs=False)
        add(0, left[edit.start : edit.end], differs=True)
        add(1, edit.corrections[0], differs=True)
        start = edit.end
    return segments


def escaped(text: str) -> str:
    """A text in one line, without characters that a terminal might act on."""
    return "".join(
        character if character.isprintable() or character in JOINERS else repr(character)[1:-1] for character in text
    )


def shortened(text: str) -> str:
    """The beginning of a text, in one line."""
    line = escaped(" ".join(text.split()))
    return (line if len(line) <= MAX_SHOWN else f"{line[:MAX_SHOWN]} …") or "(empty)"


def _rendered(segments: list[MarkedSegment], mark: Mark) -> str:
    lines = [MarkedSegment(escaped(segment.text), segment.differs) for segment in segments]
    beginning = 0
    if sum(len(segment.text) for segment in lines) > MAX_SHOWN and lines and not lines[0].differs:
        beginning = max(len(lines[0].text) - BEFORE_DIFFERENCE, 0)
        lines[0] = MarkedSegment(lines[0].text[beginning:], False)
    parts, left = ["… "] if beginning else [], MAX_SHOWN
    for text, differs in lines:
        shown = text[:left]
        core = shown.lstrip(" ")
        parts += [shown[: len(shown) - len(core)], mark(core) if differs and core else core]
        left -= len(shown)
        if len(shown) < len(text):
            parts.append(" …")
            break
    return "".join(parts) or "(empty)"
