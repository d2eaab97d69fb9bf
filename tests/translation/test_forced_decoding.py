"""Given targets: their scores and attention agree with what a search finds."""

import numpy as np
import pytest

from weft.data.pairs import Pair
from weft.data.store.token_store import PairStore
from weft.errors import SearchError, WeftWarning
from weft.tasks import generate
from weft.text import words
from weft.training.train import train
from weft.translation.load import load

LINES = ["a b", "d", "c c a", "b d a c", "a", "e d c b", "b b"]


def refusal(error, action, *arguments, **keywords):
    with pytest.raises(error) as caught:
        action(*arguments, **keywords)
    assert "\n" not in str(caught.value)
    return str(caught.value)


class TestGivenTargets:
    PAIRS = (Pair("a b", "a b"), Pair("c", "d e a"), Pair("a b c d", "a"), Pair("zebra", "unknown a"))

    def test_a_score_is_the_sum_of_its_tokens(self, copier):
        for pair, (total, scores) in zip(self.PAIRS, copier.score(self.PAIRS), strict=True):
            assert len(scores) == len(pair.target.split()) + 1
            assert total == pytest.approx(sum(scores), abs=1e-5) and max(scores) <= 0

    @pytest.mark.parametrize("kind", ["greedy", "beam"])
    def test_a_score_is_what_the_search_found(self, copier, kind):
        found = [one for one in copier.translate(LINES, kind=kind) if one.ended == "end"]
        assert len(found) >= 5
        scores = copier.score([Pair(one.source, one.text) for one in found])
        for one, (total, tokens) in zip(found, scores, strict=True):
            assert total == pytest.approx(one.log_probability, abs=1e-4)
            assert tokens == pytest.approx(one.token_scores, abs=1e-4)

    def test_the_rank_is_by_length(self, copier):
        one = copier.translate("a b c", length_penalty=0.6)
        assert one.score == pytest.approx(one.log_probability / 4**0.6, abs=1e-6)

    def test_company_changes_no_score(self, copier):
        alone = [copier.score([pair])[0].log_probability for pair in self.PAIRS]
        together = [one.log_probability for one in copier.score(self.PAIRS)]
        assert alone == pytest.approx(together, abs=1e-5)
        assert copier.score([]) == []

    def test_forced_targets_have_scores_and_attention(self, copier):
        forced = copier.force_decode(self.PAIRS)
        for pair, one, (total, scores) in zip(self.PAIRS, forced, copier.score(self.PAIRS), strict=True):
            assert one.source == pair.source and one.log_probability == pytest.approx(total, abs=1e-4)
            assert one.token_scores == pytest.approx(scores, abs=1e-4)
            assert one.attention.shape == (len(pair.target.split()), len(pair.source.split()) + 1)
            assert one.attention.sum(1) == pytest.approx(1.0, abs=1e-5)
            source, target = len(words.words(pair.source)), len(words.words(pair.target))
            assert all(0 <= left < source and 0 <= right < target for left, right in one.links)

    def test_memory_that_runs_out(self, copier, monkeypatch):
        """Scores and attention are the same in parts; a warning for each."""
        forced, scores = copier.force_decode(self.PAIRS), copier.score(self.PAIRS)
        batch_of = PairStore.batch

        def limited(self, rows):
            if len(rows) > 1:
                raise MemoryError
            return batch_of(self, rows)

        monkeypatch.setattr(PairStore, "batch", limited)
        with pytest.warns(WeftWarning, match="^forced decoding: not enough memory for a whole batch"):
            again = copier.force_decode(self.PAIRS)
        with pytest.warns(WeftWarning, match="^scoring: not enough memory for a whole batch"):
            assert [one.log_probability for one in copier.score(self.PAIRS)] == pytest.approx(
                [one.log_probability for one in scores], abs=1e-5
            )
        assert all(
            np.allclose(one.attention, other.attention, atol=1e-5) for one, other in zip(forced, again, strict=True)
        )

    def test_forcing_its_own_output_changes_nothing(self, copier):
        one = copier.translate("a b c")
        [again] = copier.force_decode([Pair("a b c", one.text)])
        assert np.allclose(one.attention, again.attention, atol=1e-5) and one.links == again.links

    @pytest.mark.parametrize("pair", [Pair("", ""), Pair("a", ""), Pair("", "a")])
    def test_empty_sides(self, copier, pair):
        [score] = copier.score([pair])
        [forced] = copier.force_decode([pair])
        assert len(score.token_scores) == len(pair.target.split()) + 1
        assert forced.text == pair.target and forced.log_probability == pytest.approx(score.log_probability, abs=1e-4)

    def test_many_links_are_in_range(self, copier):
        pairs = list(generate("copy", "test", 30, options={"length": 4, "symbols": 5}))
        for pair, one in zip(pairs, copier.force_decode(pairs), strict=True):
            for left, right in one.links:
                assert 0 <= left < len(pair.source.split()) and 0 <= right < len(pair.target.split())

    def test_where_it_looks(self, copier):
        own, map_of_own = copier.attend("a b c")
        given, map_of_given = copier.attend("a b c", "b a")
        assert own.text == "a b c" and map_of_own.target == ["a", "b", "c"] and given.text == "b a"
        assert map_of_own.source == map_of_given.source == ["a", "b", "c", "</s>"]
        assert map_of_given.weights_TS.shape == (2, 4)
        assert map_of_given.weights_TS.sum(1) == pytest.approx(1.0, abs=1e-5)

    def test_a_model_that_does_not_look(self, tiny, tmp_path):
        list(train(tiny({"name": "blind", "model.attention.score": "none", "training.steps": 1}), tmp_path / "run"))
        run = load(tmp_path / "run")
        assert run.translate("a b").attention is None and run.force_decode([Pair("a", "b")])[0].attention is None
        message = refusal(SearchError, run.attend, "a b")
        assert message == "blind: this model has no attention (model.attention.score = 'none'): nothing to show"
