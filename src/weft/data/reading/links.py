"""Links between the words of a pair in Pharaoh format (``0-0 1-2``), and lists of features as tags.

Links: source word 0 with target word 0, source word 1 with target word 2; words as `weft.text.word_splitting` cuts
them.

A column of features, as in UniMorph, can be written as tags: ``N;ABL(PL;PSS(1,PL))`` → ``<N><ABL(PL;PSS(1,PL))>``, one
for each feature; a semicolon in parentheses separates nothing. The character tokenizer can read a tag as one token.
"""

from __future__ import annotations

import re

from weft.data.pairs import Pair
from weft.data.reading.blocks import RecordError
from weft.text.word_splitting import words

_LINKS = re.compile(r"(?:[0-9]{1,9}-[0-9]{1,9}(?: [0-9]{1,9}-[0-9]{1,9})*)?")


def linked(source: str, target: str, links: str, column: str) -> Pair:
    """A pair with its links, which must lie inside it; the column is for the message."""
    if not _LINKS.fullmatch(links):
        raise RecordError("links", f"{column}, {shown(links)}, is not a list of links such as '0-0 1-2'")
    ends = [link.split("-") for link in links.split()]
    return checked(Pair(source, target, tuple((int(left), int(right)) for left, right in ends)))


def checked(pair: Pair) -> Pair:
    """The pair, if all its links lie inside it."""
    lengths = len(words(pair.source)), len(words(pair.target))
    for left, right in pair.links or ():
        if not (0 <= left < lengths[0] and 0 <= right < lengths[1]):
            raise RecordError(
                "links",
                f"link {left}-{right} points outside the pair, "
                f"which has {lengths[0]} source and {lengths[1]} target words",
            )
    return pair


def as_tags(text: str, column: str) -> str:
    """A list of features as tags; no feature is empty, has white space or angle brackets, or an open parenthesis."""
    if not text:
        return ""
    features, depth = [""], 0
    for character in text:
        depth += {"(": 1, ")": -1}.get(character, 0)
        if depth < 0:
            break
        if character == ";" and not depth:
            features.append("")
        else:
            features[-1] += character
    if depth or not all(re.fullmatch(r"[^<>\s]+", feature) for feature in features):
        raise RecordError("tags", f"{column}, {shown(text)}, is not a list of features such as 'N;ACC(PL)'")
    return "".join(f"<{feature}>" for feature in features)


def shown(text: str) -> str:
    """A text in a message: short, and in one line."""
    return repr(text if len(text) <= 40 else text[:40] + "…")


def counted(count: int, noun: str) -> str:
    """``1 column``, ``2 columns``."""
    return f"{count} {noun}" if count == 1 else f"{count} {noun}s"
