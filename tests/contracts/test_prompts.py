"""Instructions for a language model: it learns to answer, says the answer alone, and is measured by it."""

import json
import math

import pytest

from weft.data.pairs import Pair
from weft.errors import RecipeError, SearchError
from weft.evaluation.evaluate import evaluate
from weft.recipe import make_recipe
from weft.training.events import Finished, Step, Validation
from weft.training.train import train
from weft.translation.load import load

LETTERS = "abcdefgh"
ROWS = [
    {"instruction": kind, "input": letter, "output": " ".join([letter] * times)}
    for kind, times in (("once", 1), ("twice", 2), ("thrice", 3))
    for letter in LETTERS
]
PAIRS = [Pair(f"{row['instruction']} {row['input']} :", row["output"]) for row in ROWS]
RECURRENT = {
    "kind": "language_model",
    "embedding": 16,
    "dropout": 0.0,
    "decoder": {"hidden": 24},
    "attention": {"score": "none"},
}
STACK = {"kind": "transformer", "layers": 1, "hidden": 16, "heads": 2, "feed_forward": 24}
TRANSFORMER = {"kind": "language_model", "embedding": 16, "dropout": 0.0, "decoder": STACK}
SEQ2SEQ = {"kind": "seq2seq", "embedding": 16, "dropout": 0.0, "encoder": {"hidden": 16}, "decoder": {"hidden": 16}}


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    path = tmp_path_factory.mktemp("instructions")
    (path / "rows.jsonl").write_text("".join(json.dumps(row) + "\n" for row in ROWS), "utf-8")
    return path


def recipe_of(folder, model, *, training=None, tokenizer=None, **data):
    corpus = {"instructions": "rows.jsonl", "template": "{instruction} {input} :"}
    return make_recipe(
        {
            "data": {"train": corpus, "valid": corpus, "folder": str(folder), "prompts": True, **data},
            "tokenizer": {"kind": "word", **(tokenizer or {})},
            "model": model,
            "training": {
                "steps": 100,
                "batch_tokens": 200,
                "learning_rate": 0.03,
                "warmup": 10,
                "label_smoothing": 0.0,
                "validate_every": 0,
                "save_every": 0,
                "log_every": 1,
                "device": "cpu",
                **(training or {}),
            },
            "search": {"kind": "greedy"},
        }
    )


@pytest.fixture(scope="module")
def events(folder):
    training = {"validate_every": 50, "metric": "exact_match", "valid_sentences": 24}
    return list(train(recipe_of(folder, RECURRENT, training=training), folder / "run"))


@pytest.fixture(scope="module")
def run(events, folder):
    return load(folder / "run")


@pytest.fixture(scope="module")
def transformer(folder):
    list(train(recipe_of(folder, TRANSFORMER, training={"steps": 40, "learning_rate": 0.01}), folder / "transformer"))
    return load(folder / "transformer")


@pytest.fixture(params=["run", "transformer"])
def either(request):
    return request.getfixturevalue(request.param)


class TestTraining:
    def test_learns_to_answer(self, events, run):
        assert isinstance(events[-1], Finished) and events[0].pairs == len(ROWS)
        last = [event for event in events if isinstance(event, Validation)][-1]
        assert last.metrics["exact_match"] > 80 and last.loss < 0.2  # 100 and 0.01 with other seeds
        answers = run.translate([pair.source for pair in PAIRS])
        assert sum(answer.text == pair.target for answer, pair in zip(answers, PAIRS, strict=True)) > 0.8 * len(PAIRS)

    def test_counts_answers_only(self, events, run):
        """The loss of a step is that of a token of the answer, end mark included."""
        steps = [event for event in events if isinstance(event, Step)]
        encode = run.tokenizers.target.encode
        answers = sum(len(encode(pair.target)) + 1 for pair in PAIRS)
        prompts = sum(len(encode(pair.source)) for pair in PAIRS)
        assert steps[0].target_tokens == answers and steps[0].source_tokens == prompts
        assert steps[0].loss == pytest.approx(math.log(run.tokenizers.target.size), abs=0.3)

    def test_of_an_encoder_and_decoder_on_the_same_rows(self, folder):
        path = folder / "seq2seq"
        list(train(recipe_of(folder, SEQ2SEQ, training={"steps": 60}), path))
        found = evaluate(load(path), PAIRS, ["exact_match"])
        assert found.scores[0].value > 30 and found.perplexity.value < 3

    def test_on_pairs_of_a_file(self, folder, tmp_path):
        (tmp_path / "pairs.tsv").write_text("once a :\ta\n", "utf-8")
        recipe = recipe_of(tmp_path, RECURRENT, train="pairs.tsv", valid=None, training={"steps": 1})
        assert next(train(recipe, tmp_path / "run")).pairs == 1

    def test_on_a_stream(self, folder, tmp_path):
        recipe = recipe_of(folder, RECURRENT, streaming=True, training={"steps": 2})
        assert isinstance(list(train(recipe, tmp_path / "run"))[-1], Finished)

    def test_two_vocabularies_are_refused(self, folder, tmp_path):
        recipe = recipe_of(folder, RECURRENT, tokenizer={"joint": False})
        with pytest.raises(RecipeError, match=r"^tokenizer\.joint: a language model has one tokenizer for both"):
            next(train(recipe, tmp_path / "run"))


class TestAnswers:
    def test_are_the_answer_alone(self, either):
        found = either.translate("twice b :")
        assert found.source == "twice b :" and "twice" not in found.text and ":" not in found.tokens
        assert found.source_tokens == ["twice", "b", ":"]
        assert found.tokens == either.tokenizers.target.tokens(found.ids)
        assert len(found.token_scores) == len(found.ids) + (found.ended == "end")

    @pytest.mark.parametrize("search", [{"kind": "greedy"}, {"kind": "beam", "size": 3}, {"kind": "sample"}])
    def test_do_not_depend_on_the_company(self, either, search):
        sources = ["thrice a :", "b :", "", "twice c : c", "once d :", "thrice thrice e e e f :", " "]
        together = either.translate(sources, **search)
        for source, found in zip(sources, together, strict=True):
            alone = either.translate(source, **search)
            assert (found.source, found.text, found.ids) == (source, alone.text, alone.ids)
            assert found.log_probability == pytest.approx(alone.log_probability, abs=1e-4)
        small = either.translate(sources, **search, batch_tokens=3)
        assert [found.text for found in small] == [found.text for found in together]

    def test_to_nothing_are_nothing(self, either):
        assert [found.text for found in either.translate(["", " "])] == ["", ""]
        assert either.translate([]) == []

    def test_have_the_probability_that_scoring_gives(self, either):
        for found in either.translate([pair.source for pair in PAIRS]):
            [scored] = either.score([Pair(found.source, found.text)])
            if found.ended == "end":
                assert found.log_probability == pytest.approx(scored.log_probability, abs=1e-3)
                assert found.token_scores == pytest.approx(scored.token_scores, abs=1e-3)

    def test_several_are_different_and_each_scored(self, either):
        best = either.translate("twice b :", kind="beam", size=4, n_best=3)
        many = [best, *best.alternatives]
        assert len({tuple(found.ids) for found in many}) == len(many) == 3
        assert [found.score for found in many] == sorted((found.score for found in many), reverse=True)
        for found in many:
            [scored] = either.score([Pair("twice b :", found.text)])
            if found.ended == "end":
                assert found.log_probability == pytest.approx(scored.log_probability, abs=1e-3)

    @pytest.mark.parametrize("most", [1, 2])
    def test_are_no_longer_than_asked(self, run, most):
        found = run.translate("thrice b :", max_length=most)
        assert found.tokens == ["b"] * most and found.ended == "length"

    def test_are_limited_by_the_prompt_as_translations_are_by_the_source(self, run):
        """int(ratio · prompt) + extra tokens."""
        found = run.translate("thrice b :", max_ratio=0.4, max_extra=1)
        assert found.tokens == ["b", "b"]

    def test_are_as_long_as_asked(self, run):
        assert len(run.translate("once b :", min_length=3).ids) >= 3

    def test_are_ranked_by_what_is_said_alone(self, run):
        best = run.translate("twice b :", kind="beam", size=4, n_best=3, length_penalty=1.0)
        for found in (best, *best.alternatives):
            assert found.score == pytest.approx(found.log_probability / len(found.token_scores), abs=1e-4)

    def test_begin_as_they_must(self, run):
        found = run.translate("twice b :", prefix="c")
        assert found.tokens[0] == "c" and found.text.startswith("c")

    def test_can_be_traced(self, run):
        assert run.translate("twice b :", kind="beam", return_trace=True).trace is not None

    def test_are_sampled_too(self, run):
        [text] = run.sample(1, prompt="twice b :", length=6, kind="greedy")
        assert text == "twice b : b b"

    def test_are_not_to_be_had_without_prompts(self, speaker):
        with pytest.raises(SearchError, match=r"^this run is a language model: it has no source to translate; "):
            speaker.translate("a b")


class TestEvaluation:
    def test_measures_answers(self, run):
        report = evaluate(run, PAIRS, ["exact_match", "chrf"])
        assert [one.name for one in report.scores] == ["exact match", "chrF"]
        assert [one.value for one in report.scores] == [100.0, 100.0]
        assert report.outputs == [pair.target for pair in PAIRS] and report.alignment is None

    def test_perplexity_is_of_the_answers(self, run):
        """Against each answer's tokens, one pair at a time."""
        total = tokens = 0.0
        for pair in PAIRS:
            [scored] = run.score([pair])
            assert len(scored.token_scores) == len(run.tokenizers.target.encode(pair.target)) + 1
            total += sum(scored.token_scores)
            tokens += len(scored.token_scores)
        assert evaluate(run, PAIRS, []).perplexity.value == pytest.approx(math.exp(-total / tokens), rel=1e-4)

    def test_a_wrong_answer_is_unlikely(self, run):
        right, wrong = run.score([Pair("twice b :", "b b"), Pair("twice b :", "c c")])
        assert right.log_probability > wrong.log_probability + 1
        assert run.force_decode([Pair("twice b :", "b b")])[0].log_probability == pytest.approx(
            right.log_probability, abs=1e-4
        )
