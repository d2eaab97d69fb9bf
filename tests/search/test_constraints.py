"""Constraints: each against a literal, slow version of its definition."""

from __future__ import annotations

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor

from weft.errors import SearchError
from weft.search.constraints import (
    BannedPhrases,
    LogitsConstraint,
    NoLoops,
    NoRepeatNgrams,
    RepetitionPenalty,
    forbid,
    lower,
)
from weft.search.interface import FORBIDDEN, NO_TOKEN
from weft.search.repetition import LoopLimits

VOCABULARY = 5
quick = settings(deadline=None, max_examples=150)

tokens = st.integers(0, VOCABULARY - 1)
few_tokens = st.integers(0, 1)
"""Of two tokens even short rows are full of repetitions."""


def rows_of(token: st.SearchStrategy[int], longest: int) -> st.SearchStrategy[list[list[int]]]:
    return st.lists(st.lists(token, max_size=longest), min_size=1, max_size=3)


def window(rows: list[list[int]], *, spare: int = 0) -> Tensor:
    """Rows as a search gives them: the newest token in the last column, NO_TOKEN before the first."""
    width = max(map(len, rows)) + spare
    return torch.tensor([[NO_TOKEN] * (width - len(row)) + row for row in rows], dtype=torch.int64).view(len(rows), -1)


def scores(rows: int, *, seed: int = 0, vocabulary: int = VOCABULARY) -> Tensor:
    return torch.randn(rows, vocabulary, generator=torch.Generator().manual_seed(seed)).log_softmax(-1)


def apply(
    constraint: LogitsConstraint, rows: list[list[int]], *, spare: int = 0, cut: bool = True
) -> tuple[Tensor, Tensor]:
    """Ratings before and after, the window cut to what the constraint asked for."""
    before_RV, history_RW = scores(len(rows)), window(rows, spare=spare)
    if cut and constraint.window is not None:
        history_RW = history_RW[:, max(history_RW.shape[1] - constraint.window, 0) :]
    untouched_RV, untouched_RW = before_RV.clone(), history_RW.clone()
    after_RV = constraint(before_RV, history_RW, torch.arange(len(rows)))
    assert torch.equal(before_RV, untouched_RV) and torch.equal(history_RW, untouched_RW)
    written_RV = before_RV.clone()
    assert constraint(written_RV, history_RW, torch.arange(len(rows)), in_place=True) is written_RV
    assert torch.equal(written_RV, after_RV)
    return before_RV, after_RV


def forbidden_by(
    constraint: LogitsConstraint, rows: list[list[int]], *, spare: int = 0, cut: bool = True
) -> list[set[int]]:
    """The tokens a constraint forbids; all others must be rated as before."""
    before_RV, after_RV = apply(constraint, rows, spare=spare, cut=cut)
    banned_RV = after_RV.isneginf()
    assert torch.equal(after_RV.masked_fill(banned_RV, 0.0), before_RV.masked_fill(banned_RV, 0.0))
    return [set(row.nonzero()[:, 0].tolist()) for row in banned_RV]


# The oracles


def completes_a_phrase(history: list[int], token: int, phrases: list[list[int]]) -> bool:
    after = [*history, token]
    return any(after[-len(phrase) :] == phrase for phrase in phrases)


def says_an_ngram_again(history: list[int], token: int, n: int) -> bool:
    after = [*history, token]
    grams = [tuple(after[place : place + n]) for place in range(len(after) - n + 1)]
    return bool(grams) and grams[-1] in grams[:-1]


def completes_a_loop(history: list[int], token: int, *, longest: int, copies: int, tokens: int) -> bool:
    after = [*history, token]
    for n in range(1, longest + 1):
        least = max(copies * n, tokens)
        run = after[len(after) - least :] if least <= len(after) else []
        if run and all(run[place] == run[place - n] for place in range(n, least)):
            return True
    return False


def every(condition) -> set[int]:
    return {token for token in range(VOCABULARY) if condition(token)}


# Each against its oracle, however wide the window


@quick
@given(rows_of(tokens, 7), st.lists(st.lists(tokens, min_size=1, max_size=4), max_size=4), st.integers(0, 4))
def test_banned(rows: list[list[int]], phrases: list[list[int]], spare: int) -> None:
    expected = [every(lambda token, history=history: completes_a_phrase(history, token, phrases)) for history in rows]
    assert forbidden_by(BannedPhrases(phrases), rows, spare=spare) == expected
    assert forbidden_by(BannedPhrases(phrases), rows, spare=spare, cut=False) == expected


@quick
@given(rows_of(tokens, 11), st.integers(1, 4), st.integers(0, 4))
def test_no_repeat(rows: list[list[int]], n: int, spare: int) -> None:
    expected = [every(lambda token, history=history: says_an_ngram_again(history, token, n)) for history in rows]
    assert forbidden_by(NoRepeatNgrams(n), rows, spare=spare) == expected


@quick
@given(rows_of(few_tokens, 23), st.integers(1, 4), st.integers(2, 4), st.integers(0, 11), st.integers(0, 4))
def test_no_loops(rows: list[list[int]], longest: int, copies: int, tokens: int, spare: int) -> None:
    sizes = {"longest": longest, "copies": copies, "tokens": tokens}
    expected = [every(lambda token, history=history: completes_a_loop(history, token, **sizes)) for history in rows]
    assert forbidden_by(NoLoops(LoopLimits(**sizes)), rows, spare=spare) == expected
    assert forbidden_by(NoLoops(LoopLimits(**sizes)), rows, spare=spare, cut=False) == expected


@quick
@given(rows_of(tokens, 7), st.sampled_from([1.0, 1.2, 3.0]), st.integers(0, 4))
def test_repetition_penalty(rows: list[list[int]], theta: float, spare: int) -> None:
    before_RV, after_RV = apply(RepetitionPenalty(theta), rows, spare=spare)
    for row, history in enumerate(rows):
        for token in range(VOCABULARY):
            factor = theta if token in history else 1.0
            assert float(after_RV[row, token]) == pytest.approx(float(before_RV[row, token]) * factor)


# What the docstrings promise


@pytest.mark.parametrize("phrase", [[0], [1, 2], [0, 1, 2, 3], [4, 3, 4, 4, 3]])
def test_a_real_loop_is_stopped(phrase: list[int]) -> None:
    """Saying the phrase on and on while it is allowed."""
    constraint, other = NoLoops(), (phrase[-1] + 1) % VOCABULARY
    on_and_on = phrase * 20
    for length in range(max(3 * len(phrase), 10)):
        stopped = forbidden_by(constraint, [[other, *on_and_on[:length]]])[0]
        assert stopped == ({on_and_on[length]} if length == max(3 * len(phrase), 10) - 1 else set())


def test_what_people_write_is_no_loop() -> None:
    very, ten_million = [1, 2, 2, 2, 2, 3], [1, *[0] * 7]
    stutter, twice = [4] * 8, [1, 2, 3, 4, 0, 3] * 2
    assert forbidden_by(NoLoops(), [very, ten_million, stutter, twice]) == [set()] * 4


def test_a_loop_longer_than_the_longest_phrase_goes_on() -> None:
    assert forbidden_by(NoLoops(LoopLimits(2, 2, 3)), [[1, 2, 3] * 9]) == [set()]
    assert forbidden_by(NoLoops(LoopLimits(3, 2, 3)), [[1, 2, 3] * 9]) == [{1}]


def test_windows_are_no_wider_than_needed() -> None:
    assert NoLoops().window == 47 and NoLoops(LoopLimits(2, 3, 9)).window == 8
    assert (
        BannedPhrases([[1], [1, 2, 3]]).window == 2
        and BannedPhrases([[1]]).window == 1
        and BannedPhrases([]).window == 1
    )
    assert NoRepeatNgrams(3).window is None and RepetitionPenalty(1.2).window is None


def test_one_token_phrases_are_forbidden_before_anything_is_said() -> None:
    assert forbidden_by(BannedPhrases([[3], [1, 2]]), [[]]) == [{3}]


def test_what_is_forbidden_stays_forbidden() -> None:
    history_RW = window([[1, 2, 1]])
    for constraint in (
        BannedPhrases([[1, 2]]),
        NoRepeatNgrams(2),
        RepetitionPenalty(1.5),
        NoLoops(LoopLimits(1, 2, 0)),
    ):
        before_RV = scores(1).index_fill(1, torch.tensor([0, 1]), FORBIDDEN)
        after_RV = constraint(before_RV, history_RW, torch.zeros(1, dtype=torch.int64))
        assert after_RV[0, :2].tolist() == [FORBIDDEN, FORBIDDEN] and not after_RV.isnan().any()


def test_nothing_penalises_no_token() -> None:
    before_RV, after_RV = apply(RepetitionPenalty(2.0), [[], [3]])
    assert torch.equal(before_RV[0], after_RV[0])
    assert float(after_RV[1, 0]) == float(before_RV[1, 0])


def test_half_precision_is_kept() -> None:
    for constraint in (BannedPhrases([[1]]), NoRepeatNgrams(1), RepetitionPenalty(1.5), NoLoops(LoopLimits(1, 2, 0))):
        assert constraint(scores(1).bfloat16(), window([[1, 2, 1]]), torch.zeros(1)).dtype is torch.bfloat16


def test_lower_takes_the_least() -> None:
    before_RV = torch.tensor([[-1.0, -2.0, -3.0]])
    tokens_RX, to_RX = torch.tensor([[1, 1, 0, NO_TOKEN]]), torch.tensor([[-4.0, -9.0, -0.5, float("inf")]])
    assert lower(before_RV, tokens_RX, to_RX).tolist() == [[-1.0, -9.0, -3.0]]
    assert forbid(before_RV, tokens_RX, torch.tensor([[True, False, False, False]])).tolist() == [
        [-1.0, FORBIDDEN, -3.0]
    ]


# Errors


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: BannedPhrases([[1], []]), "banned phrase 2 is empty; expected at least 1 token"),
        (lambda: BannedPhrases([[1, -3]]), "banned phrase 1 has the id -3; ids are 0 or more"),
        (lambda: NoRepeatNgrams(0), "no-repeat: n-grams of 0 tokens; expected at least 1"),
        (lambda: RepetitionPenalty(0.9), "repetition penalty: 0.9; expected 1"),
        (lambda: RepetitionPenalty(float("nan")), "repetition penalty: nan; expected 1"),
        (
            lambda: NoLoops(LoopLimits(longest=0)),
            "no-loops: phrases of up to 0 tokens, 3 copies; expected at least 1 token",
        ),
        (lambda: NoLoops(LoopLimits(copies=1)), "no-loops: phrases of up to 16 tokens, 1 copies; expected"),
        (lambda: apply(BannedPhrases([[2, 5]]), [[1]]), "a banned phrase has the id 5; the vocabulary has 5"),
    ],
)
def test_errors(make, message: str) -> None:
    with pytest.raises(SearchError, match=message):
        make()


@pytest.mark.gpu
def test_recorded_in_a_cuda_graph() -> None:
    """The same numbers as on the CPU, replayed on other rows than were recorded."""
    generator = torch.Generator().manual_seed(7)
    windows = [torch.randint(0, 2, (13, 63), generator=generator) for _ in range(2)]
    constraints: list[LogitsConstraint] = [
        BannedPhrases([[1], [0, 1, 0]]),
        NoRepeatNgrams(3),
        RepetitionPenalty(1.3),
        NoLoops(LoopLimits(3, 2, 6)),
    ]
    history_RW, before_RV, sentences_R = windows[0].cuda(), scores(13).cuda(), torch.arange(13).cuda()
    for constraint in constraints:
        constraint(before_RV, history_RW, sentences_R)
        graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(graph):
            after_RV = constraint(before_RV, history_RW, sentences_R)
        for window_RW in windows:
            history_RW.copy_(window_RW)
            graph.replay()
            expected_RV = constraint(before_RV.cpu(), window_RW, torch.arange(13))
            torch.testing.assert_close(after_RV.cpu(), expected_RV)
        history_RW.copy_(windows[0])
