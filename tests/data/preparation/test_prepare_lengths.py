"""The lengths and loops that are learned: of the tokens that a model is trained on, however they are prepared."""

from importlib import import_module

import numpy as np
import pytest

from fixtures.small_corpora import recipe_of, write_tsv
from oracles.lengths import length_limits
from oracles.loops import loop_share
from weft.data.preparation import prepare
from weft.data.store.token_store import TokenStore
from weft.runs.length_limits import SMALLEST
from weft.training.train import train

lengths = import_module("weft.data.preparation.prepare")  # of its name, the package has the function
PAIRS = [(" ".join("abc"[: 1 + n % 3]), " ".join("x" * (20 + 5 * (n % 3) + n % 2))) for n in range(12)]
SHORT = [("a b c", "x y"), ("b c", "x")]
EXPECTED = (*length_limits([(len(source.split()), len(target.split()) + 1) for source, target in PAIRS]), True)


@pytest.fixture
def folder(tmp_path):
    write_tsv(tmp_path / "long.tsv", PAIRS)
    write_tsv(tmp_path / "short.tsv", SHORT * 60)
    return tmp_path


@pytest.mark.parametrize("data", [{}, {"workers": 2}, {"streaming": True}, {"prepared": "store"}])
def test_all_ways_to_prepare_learn_the_same(folder, data):
    recipe = recipe_of("long.tsv", folder, **data)
    found = prepare(recipe).length_limits
    assert found == pytest.approx(EXPECTED) and found.max_ratio > 19
    assert prepare(recipe).length_limits == found, "a prepared folder is opened"


def test_a_small_corpus_beside_a_large_one_counts(folder):
    assert prepare(recipe_of("short.tsv", folder)).length_limits == SMALLEST
    assert prepare(recipe_of(["short.tsv", "long.tsv"], folder)).length_limits == pytest.approx(EXPECTED)


def test_tokens_count_rather_than_words(folder):
    """Characters, and BPE-dropout in several variants."""
    characters = (*length_limits([(len(source), len(target) + 1) for source, target in PAIRS]), True)
    found = prepare(recipe_of("long.tsv", folder, tokenizer={"kind": "character"})).length_limits
    assert found == pytest.approx(characters, abs=5e-5)
    merges = {"kind": "bpe", "size": 30}
    plain = prepare(recipe_of("long.tsv", folder, tokenizer=merges)).length_limits
    pieces = prepare(recipe_of("long.tsv", folder, tokenizer={**merges, "dropout": 0.9, "variants": 3})).length_limits
    assert pieces.max_extra > plain.max_extra


@pytest.mark.parametrize("prompts", [False, True])
def test_a_language_model(folder, prompts):
    recipe = recipe_of("long.tsv", folder, prompts=prompts, model={"kind": "language_model"})
    if prompts:
        assert prepare(recipe).length_limits == pytest.approx(EXPECTED)
        return
    expected = length_limits([(0, len(target.split()) + 1) for _, target in PAIRS])
    assert prepare(recipe).length_limits == (*expected, True) == (2.0, 48, True)


def test_of_a_large_corpus_a_sample_is_measured(folder, monkeypatch):
    monkeypatch.setattr(lengths, "SAMPLE_PAIRS", 4)
    sampled = length_limits([(len(source.split()), len(target.split()) + 1) for source, target in PAIRS[::3]])
    assert prepare(recipe_of("long.tsv", folder)).length_limits == pytest.approx((*sampled, True), abs=5e-5)


class TestLoops:
    @pytest.mark.parametrize("data", [{}, {"streaming": True}, {"prepared": "store"}])
    @pytest.mark.parametrize("loops", [1, 2])
    def test_more_than_one_target_in_a_thousand(self, tmp_path, data, loops):
        pairs = [("a b", "x y z")] * 1000
        for row in (7, 674)[:loops]:
            pairs[row] = ("a b", " ".join("xyz" * 4))
        write_tsv(tmp_path / "pairs.tsv", pairs)
        recipe = recipe_of("pairs.tsv", tmp_path, **data)
        assert prepare(recipe).length_limits.loops == (loops == 2)

    @pytest.mark.parametrize("vocabulary", [1, 2, 5])
    def test_the_share(self, vocabulary, monkeypatch):
        random = np.random.default_rng(vocabulary)
        phrases = [random.integers(0, vocabulary, random.integers(1, 18)).tolist() for _ in range(97)]
        rows = [(phrase * random.integers(1, 8))[: random.integers(0, 53)] for phrase in phrases]
        monkeypatch.setattr(lengths, "LOOP_BATCH_PAIRS", 7)
        every = np.arange(len(rows))
        assert lengths.loop_share(TokenStore.of(rows), every) == loop_share(rows) > 0
        assert lengths.loop_share(TokenStore.of(rows), every[13:19]) == loop_share(rows[13:19])
        monkeypatch.setattr(lengths, "LOOP_SAMPLE_PAIRS", 33)
        assert lengths.loop_share(TokenStore.of(rows), every) == loop_share([rows[97 * i // 33] for i in range(33)])

    def test_of_nothing(self):
        assert lengths.loop_share(TokenStore.of([]), np.arange(0)) == 0.0


def test_a_run_keeps_them_and_one_that_starts_from_it_learns_its_own(folder):
    from weft.runs.load import load_run

    list(train(recipe_of("long.tsv", folder), folder / "run"))
    assert load_run(folder / "run").length_limits == pytest.approx(EXPECTED)
    tuned = recipe_of("short.tsv", folder, training={"start": str(folder / "run")})
    list(train(tuned, folder / "tuned"))
    assert load_run(folder / "tuned").length_limits == SMALLEST
