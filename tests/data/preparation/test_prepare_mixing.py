"""Several corpora mixed, streams, and the user's functions."""

import pytest

from fixtures.small_corpora import PAIRS, recipe_of, refusal, rows_of, texts, weights_of, write_tsv
from weft.data.pairs import Pair
from weft.data.preparation import prepare, read_corpus
from weft.runs.layout import RunFolder
from weft.training.events import Finished
from weft.training.train import train


class TestMixing:
    @pytest.fixture
    def folder(self, tmp_path):
        write_tsv(tmp_path / "a.tsv", [(f"a {number}", "x") for number in range(40)])
        write_tsv(tmp_path / "b.tsv", [(f"b {number}", "y") for number in range(10)])
        return tmp_path

    def drawn(self, recipe, steps):
        """Which corpus the pairs of each step are of: how many of a, how many of b."""
        done = prepare(recipe)
        decode = done.tokenizers.target.decode
        stream = done.data.batches(recipe.training.batch_tokens, seed=recipe.seed)
        found = []
        for step in range(1, steps + 1):
            [planned] = stream.take(step, 1)
            said = [decode(row.tolist()) for row in planned.make().target.split()]
            found.append((said.count("x"), said.count("y")))
        return found

    @pytest.mark.parametrize(
        ("first", "second", "temperature", "share"),
        [
            ({}, {}, 1.0, 0.8),
            ({"weight": 1.0}, {"weight": 1.0}, 1.0, 0.5),
            ({"weight": 1.0}, {"weight": 3.0}, 1.0, 0.25),
            ({}, {}, 2.0, 2 / 3),
        ],
    )
    def test_shares(self, folder, first, second, temperature, share):
        corpora = [{"name": "a.tsv", **first}, {"name": "b.tsv", **second}]
        found = self.drawn(recipe_of(corpora, folder, temperature=temperature), 100)
        ones, others = (sum(side) for side in zip(*found, strict=True))
        assert ones / (ones + others) == pytest.approx(share, abs=0.03)

    def test_what_is_trained_on_changes_at_the_step(self, folder):
        corpora = [{"name": "a.tsv", "last_step": 6}, {"name": "b.tsv", "first_step": 4}]
        found = self.drawn(recipe_of(corpora, folder), 9)
        assert all(ones and not others for ones, others in found[:3])
        assert sum(ones for ones, _ in found[3:6]) and sum(others for _, others in found[3:6])
        assert all(others and not ones for ones, others in found[6:])

    @pytest.mark.parametrize("streaming", [False, True])
    def test_a_gap_is_one_line_before_anything_is_read(self, folder, streaming):
        corpora = [{"name": "a.tsv", "last_step": 2}, {"name": "b.tsv", "first_step": 4}]
        message = refusal(next, train(recipe_of(corpora, folder, streaming=streaming), folder / "run"))
        assert message == "data.train: at step 3 no corpus is left to train on; see first_step and last_step"
        assert not (folder / "run").exists()
        recipe = recipe_of(corpora, folder, streaming=streaming, training={"steps": 2})
        assert isinstance(list(train(recipe, folder / "run"))[-1], Finished)

    def test_a_tag_is_before_the_source_and_one_token(self, folder):
        corpora = [{"name": "a.tsv", "tag": "<2x>"}, {"name": "b.tsv", "tag": "<2y>"}]
        recipe = recipe_of(corpora, folder, tokenizer={"symbols": ["<2x>", "<2y>"]}, pipeline=[{"kind": "lowercase"}])
        done = prepare(recipe)
        source = done.tokenizers.source
        rows = rows_of(done.data.pairs.source)
        assert [source.tokens(row)[0] for row in rows] == ["<2x>"] * 40 + ["<2y>"] * 10
        assert len({row[0] for row in rows}) == 2 and {len(row) for row in rows} == {4}
        without = prepare(recipe_of(corpora, folder))
        assert {len(row) for row in rows_of(without.data.pairs.source)} == {6}
        assert next(read_corpus(recipe_of("a.tsv", folder, valid=corpora), "valid")).source == "<2x> a 0"

    def test_resumed_at_any_step_as_if_never_stopped(self, folder):
        corpora = [
            {"name": "a.tsv", "last_step": 4, "weight": 2.0},
            {"name": "b.tsv"},
            {"name": "b.tsv", "first_step": 3},
        ]
        recipe = recipe_of(corpora, folder, prepared="out", training={"steps": 6, "save_every": 1})
        list(train(recipe, folder / "straight"))
        wanted = weights_of(folder / "straight")
        for stop in range(6):
            path = folder / f"stopped{stop}"
            events = train(recipe, path)
            for event in events:
                if event.step == stop:
                    break
            events.close()
            list(train(recipe, path, resume=True))
            assert weights_of(path) == wanted, f"stopped at step {stop}"
            assert RunFolder(path).read_checkpoint().state["stage"] == 2


def shout(pair):
    return Pair(pair.source.upper(), pair.target) if pair.source != "c" else None


class TestFunctionsOfOnesOwn:
    @pytest.fixture
    def folder(self, tmp_path):
        write_tsv(tmp_path / "pairs.tsv", PAIRS)
        return tmp_path

    def test_change_and_drop_after_the_pipeline(self, folder):
        recipe = recipe_of({"name": "pairs.tsv", "tag": "go"}, folder, pipeline=[{"kind": "lowercase"}], workers=2)
        done = prepare(recipe, transforms=[shout])
        assert texts(done) == [("go A B", "x"), ("go D E", "w")]
        assert dict(done.counts[0].dropped) == {1: 1}

    def test_in_training(self, folder):
        events = list(train(recipe_of("pairs.tsv", folder), folder / "run", transforms=[shout, lambda pair: True]))
        assert events[0].pairs == 2 and events[0].dropped == {"a function": 1}
        tokenizer = prepare(recipe_of("pairs.tsv", folder), transforms=[shout]).tokenizers.source
        assert 0 in tokenizer.encode("a") and 0 not in tokenizer.encode("A")

    def test_in_training_on_a_stream(self, folder):
        recipe = recipe_of("pairs.tsv", folder, streaming=True)
        assert isinstance(list(train(recipe, folder / "run", transforms=[shout]))[-1], Finished)

    @pytest.mark.parametrize(
        ("function", "message"),
        [
            (lambda pair: 3, "pipeline step '<lambda>': returned int for the pair "),
            (lambda pair: ("a", "b", "c"), "pipeline step '<lambda>': returned tuple for the pair "),
            (lambda pair: Pair("a", None), "pipeline step '<lambda>': returned a Pair of other things than texts for "),
            (lambda pair: pair.sauce, "pipeline step '<lambda>': AttributeError: "),
        ],
    )
    def test_a_wrong_one_is_one_line(self, folder, function, message):
        assert refusal(next, train(recipe_of("pairs.tsv", folder), folder / "run", transforms=[function])).startswith(
            message
        )
        assert not (folder / "run").exists()

    def test_are_not_for_a_prepared_folder(self, folder):
        message = "data.prepared: a folder cannot record Python functions; prepare without a folder"
        assert refusal(prepare, recipe_of("pairs.tsv", folder, prepared="out"), transforms=[shout]) == message
