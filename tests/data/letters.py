"""Letters counted one by one, for the tests of scripts."""

from collections import Counter

from weft.data.scripts import COMMON, script_of


def scripts_of(text):
    """How many letters of each script a text has; letters of no one script are left out."""
    counts = Counter(script_of(character) for character in text if character.isalpha())
    del counts[COMMON]
    return counts
