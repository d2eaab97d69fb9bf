"""Unknown tokens of an output are replaced by the source words of largest attention weight."""

import pytest
import torch

from weft.errors import SearchError
from weft.search.interface import Hypothesis
from weft.text import specials
from weft.text.id_rows import Sentence
from weft.translation.engines.interface import SearchedBatch

UNKNOWN = specials.UNKNOWN


def hypothesis(tokens, columns, width):
    """A hypothesis with the largest weight of every token in a given column."""
    weights_TS = torch.full((len(tokens) + 1, width), 0.01)
    for row, column in enumerate([*columns, width - 1]):
        weights_TS[row, column] = 0.9
    return Hypothesis(list(tokens), -1.0, -1.0, [-0.5] * (len(tokens) + 1), "end", weights_TS)


def test_unknown_tokens_become_source_words(copier):
    text = "a Zebra d Yak"
    source = Sentence(text, [*copier.tokenizers.source.encode(text), specials.END])
    [known] = copier.tokenizers.target.encode("c")
    found = hypothesis([UNKNOWN, known, UNKNOWN], [3, 0, 1], len(source.ids))
    result = copier.text.best_of(source, [found, found], replace_unknown=True)
    assert result.text == "Yak c Zebra" and [one.text for one in result.alternatives] == ["Yak c Zebra"]


@pytest.mark.parametrize("return_attention", [True, False])
def test_of_a_whole_translation(copier, monkeypatch, return_attention):
    """The setting reaches the search, which returns attention for it, and the text."""
    plain = copier.translate("a b")
    assert copier.translate("a b", replace_unknown=True).text == plain.text, "nothing is unknown there"
    requests = []

    def batches(self, request):
        requests.append(request)
        outputs = [[hypothesis([UNKNOWN], [1], len(source))] for source in request.sources]
        yield SearchedBatch(range(len(outputs)), outputs)

    monkeypatch.setattr(type(copier.engine), "batches", batches)
    left, replaced = (
        copier.translate("a Zebra d", return_attention=return_attention, replace_unknown=setting).text
        for setting in (False, True)
    )
    assert (left, replaced) == (specials.UNKNOWN_TEXT, "Zebra")
    assert [request.return_attention for request in requests] == [return_attention, True]


def test_without_attention_no_source_word_can_be_found(copier):
    found = Hypothesis([UNKNOWN], -1.0, -1.0, [-0.5, -0.5], "end", None)
    with pytest.raises(SearchError, match="replace_unknown: this model has no attention"):
        copier.text.best_of(Sentence("a", [3, specials.END]), [found], replace_unknown=True)
