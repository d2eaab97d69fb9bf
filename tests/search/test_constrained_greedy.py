"""Greedy search with required terms: that they occur, where, and that nothing else changes."""

from __future__ import annotations

import math
from collections.abc import Sequence

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from fixtures.search_requests import greedy, greedy_with_terms
from fixtures.small_networks import neural
from fixtures.table_model import END, Table, ending_model, log_probability, script, table
from weft.ragged import Ragged
from weft.search.constrained_greedy import PATIENCE, PATIENCE_BY_SURPRISE, occurrences
from weft.search.constraints import BannedPhrases, NoLoops, RepetitionPenalty
from weft.search.interface import Hypothesis
from weft.search.loop import StepLoop
from weft.search.ranking import HypothesisArrays, Ranking
from weft.tree import select

quick = settings(deadline=None, max_examples=25)
others = st.sampled_from([0, 1, 3, 4])
terms = st.lists(st.lists(st.lists(others, min_size=1, max_size=3), min_size=1, max_size=2), max_size=3)


def search(model, memory, limits, required, **values) -> Sequence[list[Hypothesis]]:
    return greedy_with_terms(model, memory, limits, required=required, **values)


def has_all(tokens: list[int], required: list[list[list[int]]]) -> bool:
    return all(occurrences(tokens, variants) >= required.count(variants) for variants in required)


@quick
@given(seed=st.integers(0, 999), required=st.lists(terms, min_size=1, max_size=3))
def test_every_term_occurs_unless_there_is_no_room(seed: int, required: list[list[list[list[int]]]]) -> None:
    memory = table(len(required), 5, seed=seed)
    for row, [best] in enumerate(search(Table(), memory, [14] * len(required), required)):
        assert has_all(best.tokens, required[row]) or best.ended == "length"
        alone, tokens = select(memory, torch.tensor([row])), best.tokens + [END] * (best.ended == "end")
        assert best.log_probability == pytest.approx(log_probability(Table(), alone, tokens), abs=1e-4)
        assert sum(best.token_scores) == pytest.approx(best.log_probability, abs=1e-5)


@quick
@given(seed=st.integers(0, 999))
def test_sentences_without_terms_are_searched_as_ever(seed: int) -> None:
    memory, limits = table(3, 7, seed=seed), [9, 2, 6]
    found = search(Table(), memory, limits, [[], [[[3, 4]]], []])
    assert isinstance(found, HypothesisArrays)
    for row, [expected] in enumerate(greedy(Table(), memory, limits)):
        if row != 1:
            assert found[row][0].tokens == expected.tokens and found[row][0].ended == expected.ended
            assert found[row][0].score == pytest.approx(expected.score, abs=1e-4)
    assert occurrences(found[1][0].tokens, [[3, 4]])


@pytest.mark.parametrize("kind", ["after", "feeding", "copying"])
def test_other_sentences_change_nothing(kind: str) -> None:
    model, limits = neural(kind, vocabulary=11), [9, 6, 7]
    required, sources = [[[[4, 5]]], [[[7]], [[3, 3], [8]]], []], [[3, 5, 7], [4], [9, 3, 3, 8, 10]]
    options = {"return_attention": True, "ranking": Ranking("power", 1.0)}
    together = search(model, model.encode(Ragged.of(sources)), limits, required, **options)
    for source, limit, phrases, [found] in zip(sources, limits, required, together, strict=True):
        [[alone]] = search(model, model.encode(Ragged.of([source])), [limit], [phrases], **options)
        assert (alone.tokens, alone.ended) == (found.tokens, found.ended)
        assert alone.score == pytest.approx(found.score, abs=1e-4)
        assert found.attention_TS is not None and len(found.attention_TS) == len(found.token_scores)


def test_logits_in_half_precision() -> None:
    memory, required = table(2, 7, seed=3), [[[[3, 4]]], [[[5]], [[6]]]]
    half = memory._replace(logits=memory.logits.bfloat16())
    rounded = half._replace(logits=half.logits.float())
    expected = search(Table(), rounded, [12, 12], required)
    for [found], [same] in zip(search(Table(), half, [12, 12], required), expected, strict=True):
        assert found.tokens == same.tokens
        assert found.log_probability == pytest.approx(same.log_probability, abs=1e-3)


# The policy, statement by statement


def best_of(rows, required, limit: int = 8, **values) -> Hypothesis:
    model = script(rows, vocabulary=6) if rows else ending_model()
    [[best]] = search(model, model.memory(), [limit], [required], **values)
    return best


def test_a_plausible_term_takes_the_place_of_the_most_likely_token() -> None:
    rows = {(): {3: 0.7, 4: 0.3}, (4,): {5: 1.0}, (4, 5): {END: 1.0}, (3,): {END: 1.0}}
    assert best_of(rows, [[[4]]]).tokens == [4, 5]
    assert best_of(rows, []).tokens == [3]


@pytest.mark.parametrize("certain", [0.45, 0.6, 0.75])
@pytest.mark.parametrize("share", [0.7, 1.4])
def test_how_plausible_a_term_is_depends_on_the_most_likely_token(certain: float, share: float) -> None:
    least = certain * math.exp(-PATIENCE + PATIENCE_BY_SURPRISE * math.log(certain))
    rest = 1 - certain - share * least
    rows = {(): {3: certain, 4: share * least, 0: rest / 2, 1: rest / 2}, (3,): {4: 1.0}, (3, 4): {END: 1.0}}
    rows[(4,)] = {END: 1.0}
    assert best_of(rows, [[[4]]]).tokens == ([4] if share > 1 else [3, 4])


def test_an_implausible_term_waits_for_a_better_place() -> None:
    least = 0.5 * math.exp(-PATIENCE - 0.5)
    rows = {(): {3: 1 - least, 4: least}, (3,): {5: 0.6, 4: 0.4}, (3, 4): {END: 1.0}}
    assert best_of(rows, [[[4]]]).tokens == [3, 4]


def test_a_term_without_a_plausible_place_stands_where_it_is_least_implausible() -> None:
    rows = {(): {3: 0.9999, 4: 1e-4}, (3,): {5: 0.99, 4: 0.01}, (3, 5): {END: 1.0}, (3, 4): {END: 1.0}}
    assert best_of(rows, [[[4]]]).tokens == [3, 4]


def test_one_of_the_variants_of_a_term_is_enough() -> None:
    rows = {(): {3: 0.9, 4: 0.1}, (3,): {5: 0.5, END: 0.5}, (3, 5): {END: 1.0}}
    assert best_of(rows, [[[4], [3, 5]]]).tokens == [3, 5]


def test_a_phrase_required_twice_occurs_twice() -> None:
    assert occurrences(best_of({}, [[[3, 4]], [[3, 4]]], limit=12).tokens, [[3, 4]]) == 2


def test_terms_that_begin_alike_both_occur() -> None:
    assert has_all(best_of({}, [[[3, 4]], [[3, 5]]], limit=12).tokens, [[[3, 4]], [[3, 5]]])


def test_a_limit_that_is_too_short_shows() -> None:
    rows = {(): {END: 0.99, 3: 0.01}, (3,): {END: 0.99, 4: 0.01}, (3, 4): {END: 1.0}}
    assert best_of(rows, [[[3, 4]]], limit=2).tokens == [3, 4]
    assert best_of(rows, [[[3, 4]]], limit=1).tokens == []


def test_constraints_hold_and_log_probability_stays_the_models() -> None:
    constraints = (BannedPhrases([[4]]), RepetitionPenalty(2.0), NoLoops())
    best = best_of({}, [[[3]], [[3]], [[4]]], constraints=constraints, min_lengths=[2])
    assert best.tokens.count(3) == 2 and 4 not in best.tokens and len(best.tokens) >= 2
    one, end = (float(torch.tensor([0.0, -9.0, 3.0, 0.0, 0.0, 0.0]).log_softmax(-1)[token]) for token in (3, 2))
    assert best.log_probability == pytest.approx(len(best.tokens) * one + end, abs=1e-5)


def test_a_loop_sees_the_sentences_that_are_searched_again() -> None:
    seen: list[list[int]] = []

    class Loop(StepLoop):
        def of_sentences(self, sentences):
            seen.append(list(sentences))
            return self

    model = script({(): {END: 0.99, 3: 0.01}, (3,): {END: 1.0}}, vocabulary=6)
    memory = select(model.memory(), torch.tensor([0, 0]))
    [[first], [second]] = search(model, memory, [9, 9], [[], [[[3]]]], loop=Loop())
    assert (first.tokens, second.tokens) == ([], [3]) and seen == [[1]]


def test_no_sentences() -> None:
    model = script({}, vocabulary=6)
    assert list(search(model, model.memory()[:0], [], [])) == []
