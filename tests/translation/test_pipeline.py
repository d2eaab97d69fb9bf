"""From texts to translations: requests one after the other, and what is computed when it is read."""

import pickle
from dataclasses import replace

import pytest

from weft.errors import InputTooLongError


def test_what_nobody_reads_is_not_computed(copier):
    plain, detailed = (copier.translate(["a b"], return_attention=given)[0] for given in (False, True))
    assert set(vars(plain)) < set(vars(detailed)) | {"_others", "_row"}
    assert "tokens" not in vars(plain) and "score" not in vars(plain)
    copy = pickle.loads(pickle.dumps(plain))
    for one in (plain, copy):
        assert (one.text, one.ids, one.tokens, one.ended) == (
            detailed.text,
            detailed.ids,
            detailed.tokens,
            detailed.ended,
        )
        assert one.source_tokens == detailed.source_tokens and one.links == [] and one.attention is None
        assert one.token_scores == pytest.approx(detailed.token_scores, abs=1e-5)
        assert one.log_probability == pytest.approx(sum(one.token_scores), abs=1e-5)
        assert one.gap == pytest.approx(detailed.gap, abs=1e-5) and detailed.gap is not None
        assert (one.alternatives, one.trace, one.word_attention) == ((), None, None)
        assert repr(one) == repr(plain) and one == plain
    with pytest.raises(AttributeError, match="no attribute 'colour'"):
        _ = plain.colour


def test_an_observer_sees_the_numbers_of_the_sources(copier):
    seen = set()

    class Observer:
        def on_step(self, sentences, record):
            seen.update(sentences)

        def is_abandoned(self, sentence):
            return False

    request = replace(copier.request(["", "a b", "  ", "c"]), observer=Observer())
    assert [one.text for one in copier.search(request)] == ["", "a b", "", "c"]
    assert seen == {1, 3}


def test_requests_one_after_the_other(copier):
    requests = [copier.request([line]) for line in ("a", "a " * 11_000, "b c")]
    assert not copier.pipeline.overlaps()
    first, second, third = copier.pipeline.search_each(requests)
    assert [one.source for one in (*first, *third)] == ["a", "b c"]
    assert isinstance(second, InputTooLongError)
    assert [one.text for one in third] == [one.text for one in copier.translate(["b c"])]
