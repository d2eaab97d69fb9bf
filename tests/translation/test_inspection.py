"""The attention of every head of every layer."""

import numpy as np
import pytest

from weft.data.pairs import Pair
from weft.errors import SearchError
from weft.training.train import train
from weft.translation.load import load


def refusal(error, action, *arguments, **keywords):
    with pytest.raises(error) as caught:
        action(*arguments, **keywords)
    assert "\n" not in str(caught.value)
    return str(caught.value)


class TestHeads:
    """Where every head of every layer looks."""

    COLUMNS = ("a", "b", "c", "</s>")
    ROWS = ("b", "a", "</s>")
    PAST = ("<s>", "b", "a")

    def found(self, run, *asked, **search):
        """All maps, by kind, layer and head; each with labels that fit and rows that sum to 1."""
        maps = run.heads(*asked, **search)
        for one in maps:
            assert one.weights_TS.shape == (len(one.target), len(one.source))
            assert one.weights_TS.sum(1) == pytest.approx(1.0, abs=1e-5) and one.weights_TS.min() >= 0
        found = {(one.kind, one.layer, one.head): one for one in maps}
        assert len(found) == len(maps)
        return found

    def every(self, *kinds):
        return {(kind, layer, head) for kind in kinds for layer in (1, 2) for head in (1, 2)}

    @pytest.mark.parametrize("name", ["transformer", "rotary"])
    def test_of_a_transformer(self, attentive, name):
        found = self.found(attentive(name), "a b c", "b a")
        assert found.keys() == self.every("encoder", "decoder", "cross")
        labels = {
            "encoder": (self.COLUMNS, self.COLUMNS),
            "decoder": (self.PAST, self.ROWS),
            "cross": (self.COLUMNS, self.ROWS),
        }
        for (kind, _, _), one in found.items():
            assert (tuple(one.source), tuple(one.target)) == labels[kind]
            assert kind != "decoder" or not np.triu(one.weights_TS, 1).any(), "nobody looks ahead"
        weights = [one.weights_TS for one in found.values() if one.kind != "decoder"]
        assert not any(np.allclose(weights[0], other) for other in weights[1:] if other.shape == weights[0].shape)

    def test_their_mean_is_the_attention(self, attentive):
        """Of the layer below the top one."""
        run = attentive("transformer")
        found = self.found(run, "a b c", "b a")
        mean = np.mean([found["cross", 1, head].weights_TS for head in (1, 2)], axis=0)
        assert np.allclose(run.force_decode([Pair("a b c", "b a")])[0].attention, mean[:-1], atol=1e-5)

    def test_of_one_stack(self, attentive):
        found = self.found(attentive("prefix"), "a b c", "b a")
        assert found.keys() == self.every("encoder", "decoder")
        for (kind, _, _), one in found.items():
            rows, columns = (self.COLUMNS, self.COLUMNS) if kind == "encoder" else (self.ROWS, self.COLUMNS + self.PAST)
            assert (tuple(one.source), tuple(one.target)) == (columns, rows)
            assert kind == "encoder" or not np.triu(one.weights_TS[:, 4:], 1).any()

    def test_of_a_language_model(self, attentive):
        run = attentive("language model")
        found = self.found(run, "b a")
        assert found.keys() == self.every("decoder")
        for one in found.values():
            assert (tuple(one.source), tuple(one.target)) == (self.PAST, self.ROWS)
            assert not np.triu(one.weights_TS, 1).any()
        given = self.found(run, "c c c c", "b a")
        assert all(np.array_equal(found[key].weights_TS, given[key].weights_TS) for key in found), "no source is read"

    def test_of_a_recurrent_decoder(self, copier):
        found = self.found(copier, "a b c", "b a")
        assert found.keys() == {("cross", 1, 1)}
        one = found["cross", 1, 1]
        assert (tuple(one.source), tuple(one.target)) == (self.COLUMNS, self.ROWS)
        assert np.allclose(copier.force_decode([Pair("a b c", "b a")])[0].attention, one.weights_TS[:-1], atol=1e-5)

    @pytest.mark.parametrize("changes", [{"decoder.input_feeding": True}, {"attention.placement": "before"}], ids=str)
    def test_of_an_attention_inside_the_recurrence(self, tiny, tmp_path, changes):
        changed = {f"model.{name}": value for name, value in changes.items()}
        list(train(tiny({**changed, "training.steps": 1}), tmp_path / "run"))
        run = load(tmp_path / "run")
        [one] = self.found(run, "a b c", "b a").values()
        assert np.allclose(run.force_decode([Pair("a b c", "b a")])[0].attention, one.weights_TS[:-1], atol=1e-5)

    def test_of_a_recurrent_language_model(self, speaker):
        """It looks back over the states before: of the first word there are none."""
        found = self.found(speaker, "b a")
        assert found.keys() == {("decoder", 1, 1)}
        one = found["decoder", 1, 1]
        assert (tuple(one.source), tuple(one.target)) == (("∅", "<s>", "b"), self.ROWS)
        assert not np.triu(one.weights_TS, 1).any() and one.weights_TS[0, 0] == pytest.approx(1.0)
        assert np.allclose(speaker.force_decode([Pair("", "b a")])[0].attention, one.weights_TS[:-1], atol=1e-5)

    @pytest.mark.parametrize(
        ("name", "kinds"),
        [
            ("gru to transformer", {("decoder", 2, 2), ("cross", 2, 2)}),
            ("attention to lstm", {("encoder", 2, 2), ("cross", 1, 1)}),
        ],
    )
    def test_of_two_families(self, attentive, name, kinds):
        found = self.found(attentive(name), "a b c", "b a")
        assert {max(key for key in found if key[0] == kind) for kind, _, _ in found} == kinds

    @pytest.mark.parametrize("name", ["transformer", "prefix"])
    def test_of_its_own_translation(self, attentive, name):
        run = attentive(name)
        said = run.translate("a b c", size=2)
        for (kind, _, _), one in self.found(run, "a b c", size=2).items():
            if kind != "encoder":
                assert one.target == [*said.tokens, *(["</s>"] if said.ended == "end" else [])]

    def test_of_one_that_was_cut_off(self, copier):
        found = self.found(copier, "a b c d", kind="greedy", max_ratio=0.5, max_extra=0)
        assert len(found["cross", 1, 1].target) == 2 and "</s>" not in found["cross", 1, 1].target

    def test_at_the_last_learned_position(self, endless):
        run = endless("seq2seq")
        found = self.found(run, "a b c d e f a")
        assert len(found["cross", 1, 1].target) == 8

    @pytest.mark.parametrize("name", ["transformer", "prefix"])
    def test_of_nothing(self, attentive, name):
        for kind, layer, head in self.every("decoder"):
            assert self.found(attentive(name), "a", "")[kind, layer, head].target == ["</s>"]
            assert self.found(attentive(name), "", "b a")[kind, layer, head].target == list(self.ROWS)

    @pytest.mark.parametrize("kind", ["seq2seq", "language_model"])
    def test_a_model_that_does_not_look(self, tiny, tmp_path, kind):
        changes = {"name": "blind", "model.kind": kind, "model.attention.score": "none", "training.steps": 1}
        list(train(tiny(changes), tmp_path / "run"))
        message = "blind: this model has no attention: nothing to show"
        assert refusal(SearchError, load(tmp_path / "run").heads, "a b", "a") == message


@pytest.mark.gpu
@pytest.mark.parametrize("hidden", [16, 12, 24], ids=["heads of 8", "heads of 6", "heads of 12"])
def test_on_a_gpu(tiny, tmp_path, hidden):
    """Models are loaded in half precision there, and not every width of a head has a kernel."""
    stack = {"kind": "transformer", "layers": 2, "hidden": hidden, "heads": 2, "feed_forward": 20}
    changes = {f"model.{side}.{name}": value for side in ("encoder", "decoder") for name, value in stack.items()}
    list(train(tiny({**changes, "training.device": "cuda"}), tmp_path / "run"))
    run, plain = load(tmp_path / "run", device="cuda"), load(tmp_path / "run", device="cpu")
    for ours, theirs in zip(run.heads("a b c", "b a"), plain.heads("a b c", "b a"), strict=True):
        assert np.allclose(ours.weights_TS, theirs.weights_TS, atol=0.02)
    assert np.allclose(run.attend("a b c", "b a")[1].weights_TS, plain.attend("a b c", "b a")[1].weights_TS, atol=0.02)
    assert run.translate("a b c").attention is not None
    scores = [each.score([("a b c", "b a")])[0].log_probability for each in (run, plain)]
    assert scores[0] == pytest.approx(scores[1], rel=0.02)
