"""Unknown tokens of an output become the source words that were looked at most."""

import pytest
import torch

from weft.errors import SearchError
from weft.search import Hypothesis
from weft.text import specials

UNKNOWN = specials.UNKNOWN


def said(tokens, columns, width):
    """A hypothesis that looked at one column for every token."""
    weights_TS = torch.full((len(tokens) + 1, width), 0.01)
    for row, column in enumerate([*columns, width - 1]):
        weights_TS[row, column] = 0.9
    return Hypothesis(list(tokens), -1.0, -1.0, [-0.5] * (len(tokens) + 1), "end", weights_TS)


def test_they_become_source_words(copier):
    source = "a Zebra d Yak"
    ids = [*copier.tokenizers.source.encode(source), specials.END]
    [known] = copier.tokenizers.target.encode("c")
    found = said([UNKNOWN, known, UNKNOWN], [3, 0, 1], len(ids))
    assert copier._named(source, ids, found) == "Yak c Zebra"


def test_of_a_whole_translation(copier):
    plain = copier.translate("a b")
    assert copier.translate("a b", replace_unknown=True).text == plain.text, "nothing is unknown there"
    [one] = copier.translate(["Zebra"], replace_unknown=True)
    assert specials.UNKNOWN_TEXT not in one.text or UNKNOWN not in one.ids


def test_without_attention_there_is_nothing_to_look_at(copier):
    found = Hypothesis([UNKNOWN], -1.0, -1.0, [-0.5, -0.5], "end", None)
    with pytest.raises(SearchError, match="replace_unknown: this model has no attention"):
        copier._named("a", [3, specials.END], found)
