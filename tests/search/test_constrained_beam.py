"""Required phrases: the properties of the search, and what it finds against trying everything."""

from __future__ import annotations

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from fixtures.search_requests import beam
from fixtures.small_networks import neural
from fixtures.table_model import BEGIN, END, Table, ending_model, exhaustive, log_probability, script, table
from weft.attention.ragged_attention import alignment_weights
from weft.ragged import Ragged
from weft.search.constraints import BannedPhrases, RepetitionPenalty
from weft.search.interface import Hypothesis
from weft.search.ranking import Ranking
from weft.tree import select

quick = settings(deadline=None, max_examples=15)
VOCABULARY = 4
others = st.sampled_from([0, 1, 3])


def search(model, memory, limits, required, **options) -> list[list[Hypothesis]]:
    """``required``: phrases without variants."""
    terms = [[[phrase] for phrase in phrases] for phrases in required]
    return beam(model, memory, limits, required=terms, **options)


def count(tokens: tuple[int, ...] | list[int], phrase: list[int]) -> int:
    """How often a phrase stands in a row of tokens, from the left, without sharing any."""
    found = place = 0
    while place + len(phrase) <= len(tokens):
        if list(tokens[place : place + len(phrase)]) == phrase:
            found, place = found + 1, place + len(phrase)
        else:
            place += 1
    return found


def has_all(tokens: tuple[int, ...] | list[int], phrases: list[list[int]]) -> bool:
    return all(count(tokens, phrase) >= phrases.count(phrase) for phrase in phrases)


# What it finds


@quick
@given(
    seed=st.integers(0, 999),
    required=st.lists(st.lists(others, min_size=1, max_size=3), max_size=3),
    alpha=st.sampled_from([0.0, 1.0]),
    n_best=st.sampled_from([1, 7]),
)
def test_a_beam_as_wide_as_the_space_finds_what_trying_everything_finds(
    seed: int, required: list[list[int]], alpha: float, n_best: int
) -> None:
    memory, limit = table(1, VOCABULARY, seed=seed), 4
    answers = exhaustive(Table(), memory, vocabulary=VOCABULARY, limit=limit, length_penalty=alpha)
    expected = [one for one in answers if one.finished and has_all(one.tokens, required)][:n_best]
    ranking = Ranking(alpha=alpha)
    options = {"size": 3**limit, "finish": 9999, "stop": "provable", "n_best": n_best, "ranking": ranking}
    [found] = search(Table(), memory, [limit], [required], **options)
    finished = [one for one in found if one.ended == "end"]
    assert [one.score for one in finished] == pytest.approx([one.score for one in expected], abs=1e-4)
    assert {tuple(one.tokens) for one in finished} == {one.tokens for one in expected}
    assert 1 <= len(found) <= n_best


@quick
@given(
    seed=st.integers(0, 999),
    required=st.lists(st.lists(st.lists(others, min_size=1, max_size=3), max_size=3), min_size=1, max_size=3),
    size=st.integers(1, 4),
)
def test_every_phrase_occurs_if_the_limit_allows_it(seed: int, required: list[list[list[int]]], size: int) -> None:
    """A limit as long as all phrases together is always enough, however narrow the beam."""
    memory = table(len(required), VOCABULARY, seed=seed)
    limits = [sum(map(len, phrases)) or 1 for phrases in required]
    for row, [best] in enumerate(search(Table(), memory, limits, required, size=size)):
        assert has_all(best.tokens, required[row])
        alone, tokens = select(memory, torch.tensor([row])), best.tokens + [END] * (best.ended == "end")
        assert best.log_probability == pytest.approx(log_probability(Table(), alone, tokens), abs=1e-4)
        assert sum(best.token_scores) == pytest.approx(best.log_probability, abs=1e-5)
        assert best.score == pytest.approx(best.log_probability / len(tokens), abs=1e-5)


@quick
@given(seed=st.integers(0, 999), size=st.integers(1, 4), n_best=st.integers(1, 5), min_length=st.integers(0, 3))
def test_with_nothing_required_it_is_the_beam(seed: int, size: int, n_best: int, min_length: int) -> None:
    memory, limits = table(3, 7, seed=seed), [9, 2, 6]
    options = {"size": size, "n_best": n_best, "return_attention": True, "ranking": Ranking(beta=0.3)}
    found = search(Table(), memory, limits, [[], [], []], min_lengths=[min_length] * 3, **options)
    expected = beam(Table(), memory, limits, min_lengths=[min_length] * 3, **options)
    for ours, theirs in zip(found, expected, strict=True):
        ours, theirs = ([one for one in some if one.ended == "end"] for some in (ours, theirs))
        assert [one.tokens for one in ours] == [one.tokens for one in theirs]
        assert [one.score for one in ours] == pytest.approx([one.score for one in theirs], abs=1e-4)
        for mine, other in zip(ours, theirs, strict=True):
            torch.testing.assert_close(mine.attention_TS, other.attention_TS)


@pytest.mark.parametrize("kind", ["after", "feeding", "copying", "lm"])
def test_other_sentences_change_nothing(kind: str) -> None:
    """A sentence in a batch is answered as it is alone, with the scores and weights of forced decoding."""
    model = neural(kind, vocabulary=11)
    limits, required = [9, 4, 7], [[[4, 5]], [[7], [3, 3]], []]
    sources = [[]] * 3 if kind == "lm" else [[3, 5, 7], [4], [9, 3, 3, 8, 10]]
    options = {"size": 3, "n_best": 2, "return_attention": True}
    together = search(model, model.encode(Ragged.of(sources)), limits, required, **options)
    for source, limit, phrases, found in zip(sources, limits, required, together, strict=True):
        [alone] = search(model, model.encode(Ragged.of([source])), [limit], [phrases], **options)
        assert [one.tokens for one in alone] == [one.tokens for one in found]
        assert [one.score for one in alone] == pytest.approx([one.score for one in found], abs=1e-4)
        for one in found:
            tokens = one.tokens + [END] * (one.ended == "end")
            with torch.no_grad():
                forced = model(Ragged.of([source]), Ragged.of([tokens]).shifted(BEGIN), return_attention=True)
            weights_BTS = alignment_weights(forced.attention, Ragged.of([source]).layout)
            scores_T = forced.logits_NV.log_softmax(-1).gather(1, torch.tensor(tokens)[:, None])[:, 0]
            assert one.token_scores == pytest.approx(scores_T.tolist(), abs=1e-4)
            assert one.attention_TS is not None and weights_BTS is not None
            width = weights_BTS.shape[2]
            torch.testing.assert_close(one.attention_TS[:, :width], weights_BTS[0], rtol=1e-4, atol=1e-5)


# The policy, statement by statement


def best_of(required: list[list[int]], limit: int = 12, **options) -> Hypothesis:
    model = ending_model()
    [[best]] = search(model, model.memory(), [limit], [required], **{"size": 4, **options})
    return best


def test_phrases_may_share_tokens() -> None:
    assert best_of([[3, 4], [4, 5]], ranking=Ranking(alpha=0.0)).tokens == [3, 4, 5]
    assert best_of([[3, 4, 5], [4]], ranking=Ranking(alpha=0.0)).tokens == [3, 4, 5]


def test_a_phrase_required_twice_occurs_twice() -> None:
    assert best_of([[3, 4], [3, 4]], ranking=Ranking(alpha=0.0)).tokens == [3, 4, 3, 4]
    assert best_of([[3, 3], [3, 3]], ranking=Ranking(alpha=0.0)).tokens == [3, 3, 3, 3]


def test_a_limit_that_is_too_short_shows() -> None:
    best = best_of([[3, 4, 5], [0]], limit=2)
    assert best.ended == "length" and best.tokens == [3, 4]
    assert best_of([[3, 4, 5]], limit=3).ended == "length", "all occur, but the end token does not fit"
    assert best_of([[3, 4, 5]], limit=4).ended == "end"


def test_those_cut_off_come_after_the_finished_and_the_fullest_first() -> None:
    model = ending_model()
    [found] = search(model, model.memory(), [3], [[[3, 4]]], size=6, n_best=9)
    assert [one.ended for one in found] == ["end"] + ["length"] * (len(found) - 1)
    assert all(has_all(one.tokens, [[3, 4]]) for one in found)
    [found] = search(model, model.memory(), [2], [[[3, 4, 5]]], size=6, n_best=9)
    assert [one.tokens for one in found] == [[3, 4]]


def test_where_no_token_may_follow_the_last_beam_is_returned() -> None:
    model = script({(): {3: 1.0}, (3,): {END: 1.0}}, vocabulary=6)
    [[best]] = search(model, model.memory(), [9], [[[4]]], size=2)
    assert (best.tokens, best.ended) == ([3], "constraints")


def test_minimum_lengths_delay_the_end_token() -> None:
    assert len(best_of([[3]], min_lengths=[4], size=1).tokens) >= 4


def test_constraints_hold_and_log_probability_stays_the_models() -> None:
    best = best_of(
        [[3, 3]], constraints=(BannedPhrases([[4], [0]]), RepetitionPenalty(2.0)), ranking=Ranking(alpha=0.0)
    )
    one = float(torch.tensor([0.0, -9.0, 3.0, 0.0, 0.0, 0.0]).log_softmax(-1)[3])
    end = float(torch.tensor([0.0, -9.0, 3.0, 0.0, 0.0, 0.0]).log_softmax(-1)[2])
    assert best.tokens == [3, 3]
    assert best.log_probability == pytest.approx(2 * one + end, abs=1e-5)
    assert best.score == pytest.approx(3 * one + end, abs=1e-5)
    banned = best_of([[3]], constraints=(BannedPhrases([[3]]),), limit=4)
    assert banned.ended == "length" and 3 not in banned.tokens


def test_constraints_receive_the_history() -> None:
    histories: list[list[list[int]]] = []

    class Recorder:
        window, forbids = 2, True

        def __call__(self, scores_RV, history_RW, sentences_R, *, in_place=False):
            histories.append(history_RW.tolist())
            assert sentences_R.tolist() == [0, 0]
            return scores_RV

    best_of([[3, 4, 5]], limit=3, size=2, constraints=(Recorder(),))
    assert histories[0] == [[-1, -1]] * 2
    assert [history[0] for history in histories[1:]] == [[-1, 3], [3, 4]]


def test_one_of_the_variants_of_a_term_is_enough() -> None:
    model = script({(): {3: 0.9, 4: 0.1}, (3,): {5: 0.5, END: 0.5}, (3, 5): {END: 1.0}}, vocabulary=6)
    [[best]] = beam(model, model.memory(), [5], size=2, required=[[[[4], [3, 5]]]])
    assert (best.tokens, best.ended) == ([3, 5], "end")


def test_no_sentences() -> None:
    model = ending_model()
    assert search(model, model.memory()[:0], [], []) == []
