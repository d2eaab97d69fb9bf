"""Lists of features, as in UniMorph, as tags: ``N;ABL(PL;PSS(1,PL))`` → ``<N><ABL(PL;PSS(1,PL))>``.

There is a tag for each feature; a semicolon in parentheses does not separate. The character tokenizer can read a tag as
one token.
"""

from __future__ import annotations

import re


def features_as_tags(text: str) -> str | None:
    """The tags of a list of features; None if the text is not such a list.

    Features are not empty and have no white space, angle bracket or open parenthesis. Tags stay as they are.
    """
    if re.fullmatch(r"(<[^<>\s]+>)*", text):
        return text
    features, depth = [""], 0
    for character in text:
        depth += {"(": 1, ")": -1}.get(character, 0)
        if depth < 0:
            return None
        if character == ";" and not depth:
            features.append("")
        else:
            features[-1] += character
    if depth or not all(re.fullmatch(r"[^<>\s]+", feature) for feature in features):
        return None
    return "".join(f"<{feature}>" for feature in features)
