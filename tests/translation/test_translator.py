"""The translator: outputs in order, scores that agree with each other, and clear refusals; any model, any search."""

import math
from itertools import count, islice, product

import numpy as np
import pytest
import torch

from weft.data.pairs import Pair
from weft.errors import DataError, RecipeError, SearchError
from weft.models.interface import ModelOutput, StepOutput
from weft.runs.length_limits import LengthLimits
from weft.runtime.devices import choose_device
from weft.text import words
from weft.text.tokenizer import Tokenizers, learn
from weft.training.train import train
from weft.translation import pipeline
from weft.translation.engines import torch as engine_module
from weft.translation.load import load
from weft.translation.translator import Translator

LINES = ["a b", "d", "c c a", "b d a c", "a", "e d c b", "b b"]


def refusal(error, action, *arguments, **keywords):
    with pytest.raises(error) as caught:
        action(*arguments, **keywords)
    assert "\n" not in str(caught.value)
    return str(caught.value)


class TestTranslating:
    def test_what_was_learned(self, copier):
        lines = [" ".join(letters) for letters in product("abcde", repeat=2)]
        outputs = copier.translate(lines)
        assert sum(output.text == line for output, line in zip(outputs, lines, strict=True)) > 0.8 * len(lines)

    def test_one_line_or_many(self, copier):
        one = copier.translate("a b")
        [same] = copier.translate(["a b"])
        assert one.text == same.text == "a b" and one.tokens == same.tokens
        assert one.log_probability == pytest.approx(same.log_probability, abs=1e-6)
        assert copier.translate([]) == []
        assert copier.translate(("a", "b"))[1].source == "b"

    @pytest.mark.parametrize("batch_tokens", [1, 7, 4096])
    @pytest.mark.parametrize("kind", ["greedy", "beam"])
    def test_order_and_company_change_nothing(self, copier, kind, batch_tokens):
        alone = [copier.translate(line, kind=kind) for line in LINES]
        together = copier.translate(LINES, kind=kind, batch_tokens=batch_tokens)
        assert [one.source for one in together] == LINES
        for left, right in zip(alone, together, strict=True):
            assert left.text == right.text and left.links == right.links and left.ended == right.ended
            assert left.log_probability == pytest.approx(right.log_probability, abs=1e-4)
            assert np.allclose(left.attention, right.attention, atol=1e-5)

    @pytest.mark.parametrize("blank", ["", "   ", "\t\u2003"])
    def test_an_empty_line(self, copier, blank):
        found = copier.translate(["a", blank, "b"])
        assert [one.source for one in found] == ["a", blank, "b"]
        nothing = found[1]
        assert (nothing.text, nothing.tokens, nothing.score, nothing.links) == ("", [], 0.0, [])
        assert copier.translate([blank, blank])[1].text == "" and copier.translate(blank).text == ""

    def test_all_that_is_known(self, copier):
        one = copier.translate("a b c")
        assert one.source_tokens == ["a", "b", "c", "</s>"] and one.tokens == ["a", "b", "c"]
        assert one.ended == "end" and len(one.token_scores) == 4 and max(one.token_scores) <= 0
        assert one.attention.shape == (3, 4)
        assert one.attention.sum(1) == pytest.approx(1.0, abs=1e-5) and one.attention.min() >= 0
        assert one.alternatives == ()

    @pytest.mark.parametrize("kind", ["greedy", "beam", "sample"])
    def test_scores_add_up(self, copier, kind):
        for one in copier.translate(LINES, kind=kind):
            assert sum(one.token_scores) == pytest.approx(one.log_probability, abs=1e-4)
            assert len(one.token_scores) == len(one.tokens) + (one.ended == "end")

    def test_without_attention_asked_for(self, copier):
        one = copier.translate("a b", return_attention=False)
        assert one.attention is None and one.links == [] and one.text == "a b"

    def test_the_best_of_several(self, copier):
        one = copier.translate("a b c", n_best=4, size=4)
        many = [one, *one.alternatives]
        assert len(many) == 4 and len({alternative.text for alternative in many}) == 4
        scores = [alternative.score for alternative in many if alternative.ended == "end"]
        assert scores == sorted(scores, reverse=True)
        assert all(alternative.source == "a b c" and not alternative.alternatives for alternative in one.alternatives)
        best = copier.translate("a b c", size=4)
        assert best.text == one.text and best.score == pytest.approx(one.score, abs=1e-5)

    def test_more_than_the_beam_holds(self, copier):
        assert len(copier.translate("a b", n_best=7, size=2).alternatives) == 6

    def test_of_an_empty_line_there_is_one(self, copier):
        assert [len(one.alternatives) for one in copier.translate(["", "a"], n_best=2)] == [0, 1]

    def test_only_a_beam_finds_several(self, copier):
        message = refusal(SearchError, copier.translate, "a", n_best=2, kind="greedy")
        assert message == "n_best=2: greedy search finds one output; use search.kind = 'beam' or 'sample'"

    @pytest.mark.parametrize("n_best", [0, -1])
    def test_less_than_one_is_refused(self, copier, n_best):
        assert str(n_best) in refusal(SearchError, copier.translate, "a", n_best=n_best)

    def test_the_length_is_limited(self, copier):
        found = copier.translate(["a b c d", "a"], kind="greedy", max_ratio=0.5, max_extra=0)
        assert [len(one.tokens) for one in found] == [2, 1]
        assert all(one.ended == "length" or len(one.token_scores) <= 2 for one in found)

    def test_samples_are_reproducible(self, copier):
        first, second = (copier.translate(LINES, kind="sample", temperature=3.0) for _ in range(2))
        assert [one.text for one in first] == [one.text for one in second]
        assert [one.text for one in first] != LINES

    def test_searching_leaves_the_random_state_alone(self, copier):
        before = torch.get_rng_state()
        copier.translate(LINES, kind="sample")
        assert torch.equal(before, torch.get_rng_state())


class TestSearchSettings:
    @pytest.mark.parametrize(
        ("search", "message"),
        [
            ({"siz": 3}, "search.siz: unknown setting; did you mean 'size'?"),
            ({"beam": 3}, "search.beam: unknown setting; "),
            ({"kind": "bean"}, "search.kind: 'bean' was given; input should be 'greedy', 'beam', 'sample', 'mbr'"),
            ({"size": 0}, "search.size: 0 was given; input should be greater than or equal to 1"),
            ({"size": "5"}, "search.size: '5' was given; input should be a valid integer"),
            ({"temperature": 0.0}, "search.temperature: 0.0 was given; input should be greater than 0"),
            ({"top_p": 1.5}, "search.top_p: 1.5 was given; input should be less than or equal to 1"),
            ({"max_ratio": math.inf}, "search.max_ratio: inf was given; "),
        ],
    )
    def test_a_mistake_is_one_line(self, copier, search, message):
        assert refusal(RecipeError, copier.translate, "a", **search).startswith(message)

    def test_beams_of_few_tokens_stop_when_the_rest_is_outranked(self, copier, monkeypatch):
        assert copier.search_settings({}).stop == "outranked"
        assert copier.search_settings({"stop": "finished"}).stop == "finished"
        assert copier.search_settings({"required": ["a"]}).stop == "outranked"
        assert copier.search_settings({"size": 1}).size == copier.search_settings({"size": 1}).size == 1
        assert refusal(RecipeError, copier.search_settings, {"size": True}).startswith("search.size: ")
        monkeypatch.setattr("weft.translation.translator.SMALL_VOCABULARY", 4)
        assert copier.search_settings({}).stop == "finished"

    def test_outputs_may_loop_if_training_targets_do(self, copier, monkeypatch):
        """A definite value in every search; what is set wins."""
        assert (
            copier.search_settings({}).no_loops is True
            and copier.search_settings({"no_loops": False}).no_loops is False
        )
        monkeypatch.setattr(copier, "length_limits", LengthLimits(loops=True))
        for changes in ({}, {"required": ["a"]}, {"stop": "steps"}):
            assert copier.search_settings(changes).no_loops is False
        assert copier.search_settings({"no_loops": True}).no_loops is True
        assert copier.search_settings({"no_loops": False}) == copier.search_settings({})

    def test_they_hold_for_one_call(self, copier):
        before = copier.recipe.search
        assert copier.search_settings({"size": 2}).size == 2
        copier.translate("a", size=2)
        assert copier.recipe.search is before and copier.search_settings({}).size == before.size


class TestDifficultInput:
    @pytest.mark.parametrize(
        "line",
        [
            "unknown a words",
            "a\0b",
            "\0",
            "é 🙂 שלום",
            "</s> <s> <unk>",
            "a, b; c!",
            "l'ami",
            "\u2028",
            "a\nb\r\nc",
            "⁇",
        ],
    )
    @pytest.mark.parametrize("kind", ["greedy", "beam"])
    def test_is_translated(self, copier, line, kind):
        one = copier.translate(line, kind=kind, max_extra=3)
        assert one.source == line and "\n" not in one.text
        assert all(0 <= source < len(words.words(line)) for source, _ in one.links)
        assert all(0 <= target < len(words.words(one.text)) for _, target in one.links)

    def test_unknown_words_are_shown_as_unknown(self, copier):
        assert copier.translate("a zebra").source_tokens == ["a", "<unk>", "</s>"]

    @pytest.mark.parametrize("kind", ["greedy", "beam"])
    def test_a_very_long_line(self, copier, kind):
        line = "a b c d e " * 400
        found = copier.translate(["b", line, "a"], kind=kind, size=2, max_ratio=0.02, max_extra=0)
        assert [one.source for one in found] == ["b", line, "a"]
        assert len(found[1].source_tokens) == 2001 and 0 < len(found[1].tokens) <= 40
        assert found[1].attention.shape[1] == 2001 and found[1].attention.sum(1) == pytest.approx(1.0, abs=1e-4)

    @pytest.mark.parametrize("kind", ["character", "byte", "bpe"])
    def test_of_other_units(self, tiny, tmp_path, kind):
        list(train(tiny({"tokenizer.kind": kind, "tokenizer.size": 300, "training.steps": 1}), tmp_path / "run"))
        run = load(tmp_path / "run")
        for line in ("a b", "unknown-word, a", "x\0y", "l'ami 🙂"):
            one = run.translate(line, max_extra=2)
            assert one.attention.shape == (len(one.tokens), len(one.source_tokens))
            assert all(0 <= source < len(words.words(line)) for source, _ in one.links), line
            assert all(0 <= target < len(words.words(one.text)) for _, target in one.links), line

    @pytest.mark.parametrize("kind", ["character", "byte", "bpe", "word"])
    def test_the_words_of_a_map_are_those_of_the_line(self, tiny, tmp_path, kind):
        list(train(tiny({"tokenizer.kind": kind, "tokenizer.size": 300, "training.steps": 1}), tmp_path / "run"))
        run = load(tmp_path / "run")
        for line in ("a b", "xyz a", "unknown-word, a", "l'ami"):
            _, found = run.attend(line, "a b")
            assert len(found.source) == len(words.words(line)) + 1, line


class TestStreams:
    def test_lines_come_as_they_are_read(self, copier, monkeypatch):
        monkeypatch.setattr(pipeline, "WINDOW_LINES", 3)
        taken = []

        def endless():
            for number in count():
                taken.append(number)
                yield LINES[number % len(LINES)]

        stream = copier.translate_lines(endless())
        assert taken == []
        assert next(stream).source == LINES[0] and taken == [0, 1, 2]
        assert [one.source for one in islice(stream, 4)] == LINES[1:5] and len(taken) == 6

    def test_a_window_changes_nothing(self, copier, monkeypatch):
        whole = [one.text for one in copier.translate_lines(iter([*LINES, "", "a"]))]
        monkeypatch.setattr(pipeline, "WINDOW_LINES", 2)
        assert [one.text for one in copier.translate_lines([*LINES, "", "a"])] == whole
        assert whole[-2] == "" and len(whole) == len(LINES) + 2

    def test_nothing_comes_of_nothing(self, copier):
        assert list(copier.translate_lines([])) == []

    def test_settings_reach_the_search(self, copier):
        [one] = copier.translate_lines(["a b"], n_best=3, return_attention=True, size=3)
        assert len(one.alternatives) == 2 and one.attention is not None
        assert "search.siz" in refusal(RecipeError, list, copier.translate_lines(["a"], siz=3))


class TestLanguageModels:
    def test_it_does_not_translate(self, speaker):
        message = "this run is a language model: it has no source to translate; use `sample`"
        assert refusal(SearchError, speaker.translate, "a b") == message
        assert refusal(SearchError, list, speaker.translate_lines(["a b"])) == message

    def test_a_translator_does_not_speak(self, copier):
        assert refusal(RecipeError, copier.sample) == (
            "copier: `sample` needs a language model (model.kind = 'language_model'); "
            "this one has a source: use `translate` with kind='sample'"
        )

    def test_samples(self, speaker):
        first, second = speaker.sample(5, seed=3), speaker.sample(5, seed=3)
        assert first == second and len(first) == 5
        assert first != speaker.sample(5, seed=4)

    def test_samples_go_on_from_a_prompt(self, speaker):
        found = speaker.sample(4, prompt="a b", length=3, seed=1)
        assert all(text.startswith("a b") and len(text.split()) <= 5 for text in found)

    def test_greedy_samples_are_all_alike(self, speaker):
        assert len(set(speaker.sample(3, kind="greedy", length=7))) == 1

    def test_settings_are_checked(self, speaker):
        assert "search.temprature" in refusal(RecipeError, speaker.sample, temprature=2.0)

    def test_scores(self, speaker):
        [with_source, without] = speaker.score([Pair("x y", "a b"), Pair("", "a b")])
        assert with_source.log_probability == pytest.approx(without.log_probability, abs=1e-5)
        assert len(without.token_scores) == 3

    def test_forcing(self, speaker):
        [forced] = speaker.force_decode([Pair("", "a b c")])
        assert forced.text == "a b c" and len(forced.token_scores) == 4
        assert forced.log_probability == pytest.approx(speaker.score([Pair("", "a b c")])[0].log_probability, abs=1e-4)


translating = pytest.mark.parametrize(
    "name", ["transformer", "rotary", "prefix", "gru to transformer", "attention to lstm"]
)


class TestTransformers:
    """What holds for LSTMs above holds for every other family."""

    @translating
    @pytest.mark.parametrize("kind", ["greedy", "beam"])
    def test_order_and_company_change_nothing(self, attentive, name, kind):
        run = attentive(name)
        alone = [run.translate(line, kind=kind) for line in LINES]
        for batch_tokens in (7, 4096):
            together = run.translate(LINES, kind=kind, batch_tokens=batch_tokens)
            for left, right in zip(alone, together, strict=True):
                assert left.text == right.text and left.ended == right.ended
                assert left.log_probability == pytest.approx(right.log_probability, abs=1e-4)
                assert np.allclose(left.attention, right.attention, atol=1e-5)

    @translating
    def test_scores_agree(self, attentive, name):
        run = attentive(name)
        found = run.translate(LINES, size=3)
        for one in found:
            assert sum(one.token_scores) == pytest.approx(one.log_probability, abs=1e-4)
            assert one.attention.shape == (len(one.tokens), len(one.source_tokens))
            assert one.attention.sum(1) == pytest.approx(1.0, abs=1e-4)
        ended = [one for one in found if one.ended == "end"]
        pairs = [Pair(one.source, one.text) for one in ended]
        for one, (total, tokens), forced in zip(ended, run.score(pairs), run.force_decode(pairs), strict=True):
            assert total == pytest.approx(one.log_probability, abs=1e-4)
            assert tokens == pytest.approx(one.token_scores, abs=1e-4)
            assert forced.log_probability == pytest.approx(total, abs=1e-4)
            assert np.allclose(forced.attention, one.attention, atol=1e-4)

    @translating
    def test_the_best_of_several(self, attentive, name):
        one = attentive(name).translate("a b c", n_best=4, size=4)
        assert len({other.text for other in (one, *one.alternatives)}) == 4
        assert attentive(name).translate("").text == ""

    @translating
    def test_where_it_looks(self, attentive, name):
        _, found = attentive(name).attend("a b c", "b a")
        assert found.source == ["a", "b", "c", "</s>"] and found.target == ["b", "a"]
        assert found.weights_TS.shape == (2, 4) and found.weights_TS.sum(1) == pytest.approx(1.0, abs=1e-4)

    @translating
    def test_a_very_long_line(self, attentive, name):
        line = "a b c d e " * 130
        found = attentive(name).translate(["b", line], size=2, max_ratio=0.02, max_extra=0)
        assert len(found[1].source_tokens) == 651 and 0 < len(found[1].tokens) <= 13

    def test_a_language_model_speaks(self, attentive):
        run = attentive("language model")
        assert run.sample(5, seed=3) == run.sample(5, seed=3) != run.sample(5, seed=4)
        assert all(text.startswith("a b") for text in run.sample(4, prompt="a b", length=3, seed=1))
        assert len(set(run.sample(3, kind="greedy", length=7))) == 1
        [score] = run.score([Pair("x y", "a b")])
        [forced] = run.force_decode([Pair("", "a b")])
        assert score.log_probability == pytest.approx(forced.log_probability, abs=1e-4) and len(score.token_scores) == 3
        assert "language model" in refusal(SearchError, run.translate, "a b")

    @pytest.mark.parametrize("kind", ["greedy", "beam"])
    def test_a_search_ends_with_the_positions(self, endless, kind):
        """A source that training would have taken is translated, however long the search may go on."""
        assert len(endless("seq2seq").translate("a b c d e f a", kind=kind).tokens) <= 8


class TestMaximumLength:
    """A language model with learned positions says no more than it has positions for."""

    @pytest.mark.parametrize("kind", ["sample", "greedy"])
    def test_samples_end_with_the_positions(self, endless, kind):
        run = endless("language_model")
        assert [len(text.split()) for text in run.sample(3, length=100, kind=kind)] == [8, 8, 8]
        assert [len(text.split()) for text in run.sample(2, length=5, kind=kind)] == [5, 5]

    @pytest.mark.parametrize(("words", "length", "wanted"), [(3, 2, 5), (3, 100, 8), (7, 1, 8), (8, 1, 8), (8, 100, 8)])
    def test_with_a_prompt(self, endless, words, length, wanted):
        prompt = " ".join("abcabcabc"[:words])
        [text] = endless("language_model").sample(1, prompt=prompt, length=length)
        assert text.startswith(prompt) and len(text.split()) == wanted

    def test_a_prompt_that_is_too_long_is_not_cut(self, endless):
        message = refusal(DataError, endless("language_model").sample, prompt="a b c a b c a b c")
        assert message.startswith("a sequence of 9 tokens: this model has learned 8 positions (max_positions); ")

    def test_other_positions_have_no_end(self, attentive):
        run = attentive("language model")
        assert max(len(text.split()) for text in run.sample(3, prompt="a " * 70, length=2)) >= 70


class TestDevices:
    @pytest.mark.skipif(torch.cuda.is_available(), reason="this machine has CUDA")
    def test_one_that_is_not_here(self, copier):
        assert refusal(RecipeError, load, copier.folder, device="cuda") == (
            "device='cuda': this machine has no CUDA; use cpu or auto"
        )
        assert "'cuda:3'" in refusal(RecipeError, load, copier.folder, device="cuda:3")

    @pytest.mark.parametrize("name", ["gpu", "", "cuda:x", "meta", "mps"])
    def test_one_that_is_none(self, name):
        if name == "mps" and torch.backends.mps.is_available():
            pytest.skip("this machine has MPS")
        assert refusal(RecipeError, choose_device, name).startswith(f"training.device: {name!r} ")

    def test_any(self, copier):
        expected = "cuda" if torch.cuda.is_available() else "cpu"
        assert load(copier.folder, device="auto").device.type == expected
        assert load(str(copier.folder), device="cpu").device == torch.device("cpu")

    def test_a_run_is_loaded_as_it_was(self, copier):
        again = load(copier.folder)
        assert again.folder == copier.folder and again.recipe == copier.recipe and not again.model.training
        assert [one.text for one in again.translate(LINES)] == [one.text for one in copier.translate(LINES)]


class Bigrams(torch.nn.Module):
    """A model of one's own: p(y_t | y_{t−1}) from a table. It satisfies `weft.models.interface.Model`."""

    def __init__(self, size):
        super().__init__()
        self.logits_VV = torch.nn.Parameter(torch.randn(size, size, generator=torch.Generator().manual_seed(1)))

    def encode(self, source):
        return source.lengths.to(source.values.device)

    def start(self, memory):
        return torch.zeros_like(memory)

    def step(self, tokens_R, state, memory):
        return StepOutput(self.logits_VV[tokens_R], state + 1, None)

    def forward(self, source, inputs, *, return_attention=False):
        return ModelOutput(self.logits_VV[inputs.values])


@pytest.fixture(scope="module")
def own():
    tokenizer = learn("word", ["a b c d"])
    return Translator(Bigrams(tokenizer.size), Tokenizers(tokenizer, tokenizer))


class TestAnyModel:
    @pytest.mark.parametrize("kind", ["greedy", "beam", "sample", "mbr", "exact"])
    def test_every_search_takes_it(self, own, kind):
        results = own.translate(["a b", "c"], kind=kind, max_length=3, samples=4)
        assert [result.source for result in results] == ["a b", "c"]
        for result in results:
            assert result.attention is None and not own.model.training
            if result.ended == "end":
                [score] = own.score([Pair(result.source, result.text)])
                assert score.log_probability == pytest.approx(result.log_probability, abs=1e-5)

    def test_the_exact_search_finds_the_best_of_all(self, own):
        [best] = own.translate(["a"], kind="exhaustive", max_length=2)
        assert own.translate(["a"], kind="exact", max_length=2)[0].ids == best.ids

    def test_what_it_does_not_have_is_refused(self, own):
        assert "this model has no attention" in refusal(SearchError, own.attend, "a", "b")
        assert refusal(SearchError, own.heads, "a", "b").endswith("this model has no attention: nothing to show")


class TestLengthLimits:
    """What a run has learned holds where the settings say nothing; `LengthLimits` has the equation."""

    @pytest.fixture
    def endless_run(self, endless, monkeypatch):
        """A model that never ends and has room for 8 tokens."""
        run = endless("seq2seq")
        monkeypatch.setattr(run, "length_limits", LengthLimits(1.5, 2))
        return run

    @pytest.mark.parametrize("kind", ["greedy", "beam", "sample", "mbr", "exact"])
    def test_in_every_search(self, endless_run, kind):
        search = {"kind": kind, "samples": 3, "max_nodes": 50, "max_ratio": None, "max_extra": None}
        for line, limit in (("a b", 5), ("c", 3), ("a b c d e f", 8)):
            found = endless_run.translate(line, **search)
            assert len(found.token_scores) == limit
            assert found.ended_by_length == (kind != "exact"), "an exact search finds only what ends"

    def test_what_is_set_wins(self, endless_run):
        for search, limit in (({"max_extra": 0}, 3), ({"max_ratio": 2.0}, 6), ({"max_length": 4}, 4)):
            found = endless_run.translate("a b", **{"max_ratio": None, "max_extra": None, **search})
            assert (len(found.ids), found.ended) == (limit, "length")

    def test_an_output_that_ended_by_itself(self, copier):
        assert [one.ended_by_length for one in copier.translate(["a b", ""])] == [False, False]

    def test_texts_of_a_language_model(self, attentive, monkeypatch):
        """At least 100 tokens; more where the training texts were longer; what is given wins."""
        run = attentive("language model")
        limits = []
        monkeypatch.setattr(
            type(run.engine), "search", lambda self, request: limits.append(request.max_lengths(run.model)) or [[]]
        )
        for learned in (10, 170):
            monkeypatch.setattr(run, "length_limits", LengthLimits(2.0, learned))
            run.complete("a")
        run.complete("a", max_length=30)
        run.complete("a", length=7)
        run.complete("a", length=7, max_length=30)
        assert limits == [[101], [171], [30], [8], [8]]


class TestSettingsReachTheSearch:
    @pytest.mark.parametrize("kind", ["greedy", "beam", "sample", "mbr"])
    def test_a_minimum_ratio(self, copier, kind):
        """Outputs have at least so many tokens; without the setting these copies are as long as their sources."""
        lines = ["a b", "d c a"]
        assert [len(one.ids) for one in copier.translate(lines, kind="greedy")] == [2, 3]
        for one, least in zip(copier.translate(lines, kind=kind, min_ratio=2.0), [4, 6], strict=True):
            assert len(one.ids) >= least

    def test_draws_depend_on_the_sentence(self, copier, monkeypatch):
        """Its ids, not their number, nor where it stands in the batch."""
        keys = []
        original = engine_module.search

        def search(model, request, settings):
            keys.append(list(request.rng_keys))
            return original(model, request, settings)

        monkeypatch.setattr(engine_module, "search", search)
        copier.translate(["a b", "b a", "a b", "c d"], kind="sample", max_length=2)
        copier.translate(["d e", "b a"], kind="sample", max_length=2)
        [[first, second, third, fourth], [_, alone]] = keys
        assert first == third and alone == second and len({first, second, fourth}) == 3

    @pytest.mark.parametrize("kind", ["greedy", "beam", "sample"])
    def test_a_prefix_as_long_as_the_limit_can_still_end(self, copier, kind):
        found = copier.translate("a b c", prefix="a b c", kind=kind, max_length=3, top_k=1)
        assert (found.text, found.ended) == ("a b c", "end")
