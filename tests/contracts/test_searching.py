"""Properties of every search with every model: decoding as a whole, through `Translator`.

The models are those of test_models.py, untrained and in double precision, over letters. `CASES` are all of them;
`FEW` one of each family, for the properties of every strategy.
"""

from __future__ import annotations

import math
from dataclasses import replace
from functools import cache
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from contracts.test_models import CASES, SOURCE_SIZE, TARGET_SIZE, forward, model_of, sources_of
from fixtures.tokenizers import learn
from weft.errors import SearchError
from weft.models.ensemble import Ensemble
from weft.models.interface import Model
from weft.ragged import Ragged
from weft.recipe import make_recipe
from weft.search.beam import BeamOptions, beam_search
from weft.search.exact import ExactOptions, exhaustive_search
from weft.search.interface import SearchRequest
from weft.search.ranking import MIN_COVERAGE, Ranking
from weft.search.sampling import greedy_search
from weft.text import specials
from weft.text.tokenizer import Tokenizers
from weft.translation.results import Translation
from weft.translation.translator import Translator

LETTERS = "a b c d e f g h i j"
LINES = ["c a", "b b d", "a", "e d c b"]
STEPWISE: dict[str, dict[str, Any]] = {
    "greedy": {"kind": "greedy"},
    "beam": {"kind": "beam", "size": 3},
    "beam, provable": {"kind": "beam", "size": 2, "stop": "provable", "normalization": "gnmt"},
    "diverse beam": {"kind": "beam", "size": 4, "groups": 2, "diversity": 0.8},
    "sample": {"kind": "sample", "top_k": 7},
    "mbr": {"kind": "mbr", "samples": 6, "utility": "edit"},
}
"""Searches that go forward step by step, and so take prefixes and constraints."""
STRATEGIES: dict[str, dict[str, Any]] = {
    **STEPWISE,
    "exact": {"kind": "exact", "max_length": 2},
    "exhaustive": {"kind": "exhaustive", "max_length": 2},
}
FEW = [
    "lstm-plain-1-none",
    "gru-residual-3-after+feeding",
    "rnn-plain-1-before+summary",
    "attention-with-gru",
    "lstm-with-transformer",
    "transformer-tied-all",
    "prefix-learned",
    "transformer-entmax15",
    "hard-first",
    "copy-hard-monotonic",
    "back-to-front",
]
SPARSE = ["entmax15-outputs", "transformer-entmax15-outputs"]
"""Models that give most tokens no probability, so that constraints leave nothing sooner."""
LANGUAGE_MODELS = [case for case in CASES if case.startswith("lm")]
TRANSLATORS = [case for case in CASES if not case.startswith(("lm", "arrays"))]
"""Models whose sources are texts; searches over arrays: tests/training/test_train_arrays.py."""


def letters(size: int) -> Any:
    return learn("word", [LETTERS[: 2 * (size - len(specials.SPECIALS)) - 1]])


def translator(model: Model, model_settings: dict[str, Any]) -> Translator:
    """A façade around an untrained model."""
    target = letters(TARGET_SIZE)
    source = target if model_settings.get("tie") == "all" else letters(SOURCE_SIZE)
    recipe = make_recipe({"model": model_settings, "search": {"max_ratio": 1.0, "max_extra": 4}})
    return Translator(model, Tokenizers(source, target), recipe)


@cache
def run_of(case: str) -> Translator:
    model = model_of(case)
    return translator(model, CASES[case])


@cache
def together(first: str, second: str) -> Translator:
    return translator(Ensemble([model_of(first), model_of(second)]), CASES[first])


@torch.no_grad()
def forced(run: Translator, outputs: list[Translation]) -> list[list[float]]:
    """log p of outputs, by the model's `forward`: teacher forcing."""
    tokens = [[*one.ids, *([specials.END] if one.ended == "end" else [])] for one in outputs]
    has_source = run.recipe.model.has_source
    sources = [[*run.tokenizers.source.encode(one.source), specials.END] if has_source else [] for one in outputs]
    inputs = Ragged.of([[specials.BEGIN, *row[:-1]] for row in tokens])
    scores_NV = run.model(Ragged.of(sources), inputs).logits_NV.log_softmax(-1)
    rows = zip(inputs.like(scores_NV).split(), tokens, strict=True)
    return [scores_TV[torch.arange(len(row)), torch.tensor(row)].tolist() for scores_TV, row in rows]


def everything(found: list[Translation]) -> list[Translation]:
    return [one for best in found for one in (best, *best.alternatives)]


def check_scores(run: Translator, outputs: list[Translation], ranking: Ranking | None, theta: float = 1.0) -> None:
    """The scores of hypotheses are those of the model; under a repetition penalty θ, log p of every token that
    occurred before is multiplied by it in what is ranked."""
    for one, expected in zip(outputs, forced(run, outputs), strict=True):
        assert one.token_scores == pytest.approx(expected, abs=1e-5)
        assert one.log_probability == pytest.approx(sum(one.token_scores), abs=1e-5)
        assert len(one.token_scores) == len(one.ids) + (one.ended == "end") and specials.END not in one.ids
        if ranking is not None:
            repeated = [token in one.ids[:place] for place, token in enumerate([*one.ids, specials.END])]
            terms = zip(one.token_scores, repeated, strict=False)
            compared = sum(score * theta if occurred else score for score, occurred in terms)
            assert one.score == pytest.approx(ranking.score(compared, len(one.token_scores)), abs=1e-5)


def check_same(one: Translation, other: Translation) -> None:
    assert (one.source, one.ids, one.text, one.ended) == (other.source, other.ids, other.text, other.ended)
    assert one.score == pytest.approx(other.score, abs=1e-5)
    assert one.token_scores == pytest.approx(other.token_scores, abs=1e-5)
    assert (one.attention is None) == (other.attention is None)
    if one.attention is not None and other.attention is not None:
        assert np.allclose(one.attention, other.attention, atol=1e-6) and one.links == other.links
    assert len(one.alternatives) == len(other.alternatives)
    for mine, theirs in zip(one.alternatives, other.alternatives, strict=True):
        check_same(mine, theirs)


# Every model


@pytest.mark.parametrize("case", TRANSLATORS)
def test_a_wide_beam_finds_the_best_of_all(case: str) -> None:
    """A beam as wide as the space misses nothing, and its scores are those of `forward`."""
    run = run_of(case)
    wide: dict[str, Any] = {
        "kind": "beam",
        "size": TARGET_SIZE**2,
        "stop": "steps",
        "max_length": 2,
        "return_attention": False,
    }
    found = run.translate(LINES[1], n_best=2, **wide)
    best = run.translate(LINES[1], kind="exhaustive", max_length=2, n_best=2, return_attention=False)
    # Where nothing ends within the limit, an exhaustive search returns the best prefix alone
    outputs = everything([found]) if found.ended == "end" else [found]
    for one, other in zip(outputs, everything([best]), strict=True):
        assert one.ids == other.ids and one.ended == other.ended
        assert one.score == pytest.approx(other.score, abs=1e-5)
    check_scores(run, [found], Ranking())


@pytest.mark.parametrize("case", LANGUAGE_MODELS)
def test_language_models_go_on_from_a_prompt(case: str) -> None:
    run = run_of(case)
    for search in ({"kind": "greedy"}, {"kind": "sample"}, {"kind": "beam", "size": 3}):
        for prompt in ("", "a b"):
            [one] = run.complete(prompt, length=4, **search)
            assert one.ids[: len(prompt.split())] == run.tokenizers.target.encode(prompt)
            assert len(one.token_scores) <= 4 + len(prompt.split())
            check_scores(run, [one], Ranking())
    drawn = run.complete("a", length=4, count=3)
    check_same(drawn[0], run.complete("a", length=4)[0])


# Every strategy


@pytest.mark.parametrize("name", STRATEGIES)
@pytest.mark.parametrize("case", [*FEW, *SPARSE])
def test_every_strategy_with_every_family(case: str, name: str) -> None:
    """Alone, in company, in small batches, in another order: the same, attention and n-best lists included."""
    run, search = run_of(case), STRATEGIES[name]
    search = search | ({} if name == "greedy" else {"n_best": 2})
    among = run.translate(LINES, **search)
    assert [one.source for one in among] == LINES
    moved = run.translate(LINES[::-1], batch_tokens=6, **search)[::-1]
    for one, other in zip(among, moved, strict=True):
        check_same(one, other)
    check_same(among[1], run.translate(LINES[1], **search))
    ranking = None if name == "mbr" else Ranking("gnmt" if name == "beam, provable" else "power")
    check_scores(run, everything(among), ranking)
    for one in everything(among):
        if one.attention is not None:
            assert one.attention.shape == (len(one.ids), len(one.source_tokens))
            assert np.allclose(one.attention.sum(1), 1.0, atol=1e-5)


ENSEMBLES = [
    ("lstm-plain-1-after", "transformer-post"),
    ("gru-plain-1-none", "prefix-rotary"),
    ("entmax15-outputs", "transformer-entmax15-outputs"),
]


@pytest.mark.parametrize("name", STRATEGIES)
@pytest.mark.parametrize("pair", ENSEMBLES)
def test_an_ensemble_of_two_architectures(pair: tuple[str, str], name: str) -> None:
    run, search = together(*pair), STRATEGIES[name]
    among = run.translate(LINES, **search)
    check_same(among[1], run.translate(LINES[1], **search))
    check_scores(run, among, None)
    for one, *apart in zip(among, *(forced(run_of(case), among) for case in pair), strict=True):
        mixed = np.log(np.exp(np.array(apart)).mean(0))
        assert one.token_scores == pytest.approx(mixed.tolist(), abs=1e-5)


@pytest.mark.parametrize("pair", ENSEMBLES)
def test_a_wide_beam_over_an_ensemble(pair: tuple[str, str]) -> None:
    run = together(*pair)
    for line in LINES[:2]:
        found = run.translate(line, kind="beam", size=TARGET_SIZE**2, stop="steps", max_length=2)
        best = run.translate(line, kind="exhaustive", max_length=2)
        proven = run.translate(line, kind="exact", max_length=2)
        assert found.ids == best.ids == proven.ids and best.proven and proven.proven


# Constraints hold


def contains(ids: list[int], phrase: list[int]) -> bool:
    return any(ids[place : place + len(phrase)] == phrase for place in range(len(ids)))


@pytest.mark.parametrize("name", ["greedy", "beam", "diverse beam", "mbr"])
@pytest.mark.parametrize("case", FEW)
def test_prefix_banned_and_lengths_hold(case: str, name: str) -> None:
    run, search = run_of(case), STEPWISE[name]
    n_best = 1 if name == "greedy" else 3
    encode = run.tokenizers.target.encode
    free = everything(run.translate(LINES, n_best=n_best, **search))
    word = max((piece for one in free for piece in one.text.split()), key=[*"abcdefgh", "⁇"].index, default="a")
    banned = [word.replace("⁇", "a"), "b c", "d d"]
    constraints: dict[str, Any] = {"banned": banned, "min_length": 3, "max_length": 5}
    prefixes = ["", "e", "e f", "h g"]
    if word in "efgh":
        prefixes = ["", "b", "b a", "a b"]
    found = run.translate(LINES, n_best=n_best, prefix=prefixes, **search, **constraints)
    for best, prefix in zip(found, prefixes, strict=True):
        for one in everything([best]):
            assert one.ids[: len(encode(prefix))] == encode(prefix)
            assert not any(contains(one.ids, encode(phrase)) for phrase in banned)
            assert 3 <= len(one.ids) <= 5
    check_scores(run, everything(found), None)


@pytest.mark.parametrize("case", FEW)
def test_outputs_contain_the_required_phrases(case: str) -> None:
    run = run_of(case)
    required = ["d e", "a"]
    found = everything(run.translate(LINES, kind="beam", size=4, n_best=2, required=required, max_length=8))
    check_scores(run, found, Ranking())
    found += run.translate(LINES, kind="greedy", required=required, max_length=8)
    for one in found:
        if one.ended == "end":
            assert all(contains(one.ids, run.tokenizers.target.encode(phrase)) for phrase in required)


@pytest.mark.parametrize("case", FEW)
def test_no_loop_and_no_repeat(case: str) -> None:
    """Untrained models loop often; under the constraints, in no strategy."""
    run = run_of(case)
    for name in ("greedy", "diverse beam", "sample"):
        both = {"min_length": 18, "max_length": 20, **STEPWISE[name]}
        for one in run.translate(LINES[:2], no_repeat_ngram=3, **both):
            grams = [tuple(one.ids[place : place + 3]) for place in range(len(one.ids) - 2)]
            assert len(set(grams)) == len(grams)
        for one in run.translate(LINES[:2], **both):
            for period in range(1, 5):
                stretches = (one.ids[place : place + 16] for place in range(len(one.ids) - 15))
                assert all(stretch[period:] != stretch[:-period] for stretch in stretches)


@pytest.mark.parametrize("case", FEW)
def test_a_prefix_is_in_the_vocabulary(case: str) -> None:
    """Of a model that copies, or in the source."""
    run = run_of(case)
    message = "search.prefix: 'a ö' has symbols that are not in this model's vocabulary; leave them out"
    for prefix in ("a ö", ["", "a ö"]):
        with pytest.raises(SearchError) as caught:
            run.translate(LINES[:2], prefix=prefix)
        assert str(caught.value) == message
    if CASES[case].get("copy"):
        [one] = run.translate(["b ö"], prefix="a ö", kind="greedy")
        assert one.text.startswith("a ö")


def test_settings_of_language_models() -> None:
    """A prefix has known symbols, and there is no source to cover."""
    run = run_of("lm-additive")
    for kind in ("greedy", "beam", "sample"):
        with pytest.raises(SearchError, match="prefix: 'a ö' has symbols that are not in this model's vocab"):
            run.complete(kind=kind, prefix="a ö")
        with pytest.raises(SearchError, match="coverage_penalty: this model has no source to cover; set it to"):
            run.complete("a", kind=kind, coverage_penalty=0.1)


@pytest.mark.parametrize("name", ["greedy", "beam", "sample"])
def test_a_prefix_overrules_the_constraints(name: str) -> None:
    """A prompt may loop, and a prefix may contain a banned word."""
    prompt = " ".join("a" * 20)
    [one] = run_of("lm-transformer-rms").complete(prompt, length=4, **STEPWISE[name])
    assert one.text.startswith(prompt)
    output = run_of("transformer-post").translate("a b", prefix="c d", banned=["d"], **STEPWISE[name])
    assert output.text.startswith("c d")


CONSTRAINTS: dict[str, dict[str, Any]] = {
    "none": {},
    "repetition_penalty": {"repetition_penalty": 1.7},
    "no_repeat_ngram": {"no_repeat_ngram": 1},
    "banned": {"banned": ["a", "b c", "d"]},
    "lengths": {"min_length": 3, "max_length": 5},
    "no_loops": {"min_length": 18, "max_length": 20},
    "prefix": {"prefix": "d d a", "repetition_penalty": 1.3},
    "coverage_penalty": {"coverage_penalty": 0.4, "repetition_penalty": 1.3, "max_length": 6},
    "coverage_penalty, cut off": {"coverage_penalty": 0.4, "min_length": 3, "max_length": 3},
}


@pytest.mark.parametrize("name", CONSTRAINTS)
@pytest.mark.parametrize("case", [*FEW, *SPARSE])
def test_greedy_search_is_a_beam_of_one(case: str, name: str) -> None:
    """The same outputs with the same scores, and so is sampling from the best token alone."""
    run, options = run_of(case), {"normalization": "gnmt", "length_penalty": 0.8, **CONSTRAINTS[name]}
    beam = {"kind": "beam", "size": 1, "stop": "finished"}
    if "coverage_penalty" in options and run.translate(LINES[0], **beam).attention is None:
        with pytest.raises(SearchError, match="coverage_penalty: this model has no attention"):
            run.translate(LINES, **beam, **options)
        return
    paths = [{"kind": "greedy"}]
    if "repetition_penalty" in options or name == "none":
        paths.append({"kind": "sample", "top_k": 1})
    expected = run.translate(LINES, **beam, **options)
    for path in paths:
        for one, other in zip(run.translate(LINES, **path, **options), expected, strict=True):
            check_same(one, other)
            assert one.log_probability == pytest.approx(other.log_probability, abs=1e-5)
        check_same(one, run.translate(LINES[-1], **path, **options))


@pytest.mark.parametrize("case", TRANSLATORS)
@torch.no_grad()
def test_the_coverage_of_every_source_token_counts(case: str) -> None:
    """Also of those that sparse, local and hard attention give a weight of 0; not of padding."""
    model, sources = model_of(case), sources_of(case, [1, 2])
    ranking = Ranking("power", 0.7, 0.3)
    lengths = sources.lengths.tolist()
    request = SearchRequest(
        memory=model.encode(sources),
        max_lengths=[4, 3],
        source_lengths=lengths,
        begin=specials.BEGIN,
        end=specials.END,
        return_attention=True,
    )
    several = replace(request, n_best=3)
    if forward(case, (0,))[0][1] is None:
        with pytest.raises(SearchError, match="coverage_penalty: this model has no attention"):
            beam_search(model, several, BeamOptions(ranking=ranking))
        return
    searches = [
        greedy_search(model, request, ranking),
        beam_search(model, several, BeamOptions(size=3, ranking=ranking)),
        beam_search(model, replace(several, required=[[[[5]]], []]), BeamOptions(size=3, ranking=ranking)),
        exhaustive_search(model, replace(several, max_lengths=[2, 2]), ExactOptions(ranking)),
    ]
    for found in searches:
        for length, hypotheses in zip(lengths, found, strict=True):
            for one in hypotheses:
                assert one.attention_TS is not None
                totals = one.attention_TS.sum(0)[:length].tolist()
                coverage = sum(math.log(min(max(total, MIN_COVERAGE), 1.0)) for total in totals)
                expected = ranking.score(one.log_probability, len(one.token_scores), coverage)
                assert one.score == pytest.approx(expected, abs=1e-4)


# Random draws


@pytest.mark.parametrize("case", FEW)
def test_draws_depend_on_the_seed_alone(case: str) -> None:
    run = run_of(case)
    search: dict[str, Any] = {"kind": "sample", "n_best": 4, "seed": 5}
    first = run.translate(LINES, **search)
    again = run.translate(LINES[::-1], batch_tokens=1, **search)[::-1]
    other = run.translate(LINES, **{**search, "seed": 6})
    for one, same in zip(first, again, strict=True):
        check_same(one, same)
    assert [one.ids for one in everything(first)] != [one.ids for one in everything(other)]
    fewer = run.translate(LINES[1], **{**search, "n_best": 2})
    assert [one.ids for one in everything([fewer])] == [one.ids for one in everything([first[1]])[:2]]
    twice = run.translate([LINES[1], LINES[1]], **search)
    check_same(*twice)


# Any settings at all


SEARCHES = st.fixed_dictionaries(
    {
        "kind": st.sampled_from(["greedy", "beam", "sample", "mbr"]),
        "size": st.sampled_from([1, 2, 4, 6]),
        "stop": st.sampled_from(["finished", "outranked", "provable", "steps"]),
        "finish": st.integers(0, 3),
        "normalization": st.sampled_from(["power", "gnmt", "none"]),
        "length_penalty": st.sampled_from([0.0, 0.6, 1.0, 1.7]),
        "max_length": st.integers(2, 7),
        "min_length": st.integers(0, 2),
        "temperature": st.sampled_from([0.3, 1.0, 3.0]),
        "top_k": st.integers(0, 4),
        "top_p": st.sampled_from([0.2, 0.9, 1.0]),
        "min_p": st.sampled_from([0.0, 0.4]),
        "typical": st.sampled_from([0.3, 1.0]),
        "seed": st.integers(0, 3),
        "samples": st.integers(1, 5),
        "no_repeat_ngram": st.integers(0, 3),
        "repetition_penalty": st.sampled_from([1.0, 1.5]),
    }
)


@settings(deadline=None, max_examples=40)
@given(case=st.sampled_from(FEW), search=SEARCHES, groups=st.sampled_from([1, 2]), n_best=st.integers(1, 4))
def test_any_settings(case: str, search: dict[str, Any], groups: int, n_best: int) -> None:
    """Limits hold, scores are true, lists are ordered and free of doubles, and company changes nothing."""
    run = run_of(case)
    search["groups"] = groups if search["size"] % groups == 0 else 1
    kind = search["kind"]
    n_best = 1 if kind == "greedy" else min(n_best, search["samples"]) if kind == "mbr" else n_best
    found = run.translate(LINES[:2], n_best=n_best, **search)
    check_same(found[1], run.translate(LINES[1], n_best=n_best, **search))
    ranking = Ranking(search["normalization"], search["length_penalty"])
    for best in found:
        many = everything([best])
        assert 1 <= len(many) <= n_best and (kind != "sample" or len(many) == n_best)
        for one in many:
            assert search["min_length"] <= len(one.ids) <= search["max_length"]
            assert one.ended_by_length == (one.ended != "constraints" and len(one.ids) == search["max_length"])
            if one.ended not in ("end", "length"):  # every token has occurred
                assert one.ended == "constraints" and search["no_repeat_ngram"] == 1
        check_scores(run, many, None if kind == "mbr" else ranking, search["repetition_penalty"])
        if kind in ("beam", "mbr"):
            scores = [one.score for one in many if one.ended == "end" or kind == "mbr"]
            assert scores == sorted(scores, reverse=True)
            assert len({tuple(one.ids) for one in many}) == len(many)
