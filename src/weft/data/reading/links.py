"""Word links in Pharaoh format (``0-0 1-2``), and lists of features as tags.

``0-0 1-2``: source word 0 with target word 0, source word 1 with target word 2; words are those of
`weft.text.words`.

A column of features can be read as tags: see `weft.text.features`.
"""

from __future__ import annotations

import re

from weft.data.pairs import Pair
from weft.data.reading.text_files import RecordError
from weft.errors import quote
from weft.text.features import features_as_tags
from weft.text.words import words

_LINKS = re.compile(r"(?:[0-9]{1,9}-[0-9]{1,9}(?: [0-9]{1,9}-[0-9]{1,9})*)?")


def is_links(text: str) -> bool:
    """Whether a text is a list of links, which may be empty."""
    return _LINKS.fullmatch(text) is not None


def parse_links(source: str, target: str, links: str, column: str) -> Pair:
    """A pair with its links, which must refer to words of it; the column is for the error message."""
    if not is_links(links):
        raise RecordError("links", f"{column}, {quote(links)}, is not a list of links such as '0-0 1-2'")
    indices = [link.split("-") for link in links.split()]
    pair = Pair(source, target, tuple((int(left), int(right)) for left, right in indices))
    check_links(pair)
    return pair


def check_links(pair: Pair) -> None:
    """Refuse links that refer to words the pair does not have."""
    lengths = len(words(pair.source)), len(words(pair.target))
    for left, right in pair.links or ():
        if not (0 <= left < lengths[0] and 0 <= right < lengths[1]):
            raise RecordError(
                "links",
                f"link {left}-{right} points outside the pair, "
                f"which has {lengths[0]} source and {lengths[1]} target words",
            )


def as_tags(text: str, column: str) -> str:
    """A list of features as tags; the column is for the error message."""
    tags = features_as_tags(text)
    if tags is None:
        raise RecordError("tags", f"{column}, {quote(text)}, is not a list of features such as 'N;ACC(PL)'")
    return tags
