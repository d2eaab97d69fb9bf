"""Beam search: its policy statement by statement, and what it finds against trying everything."""

from __future__ import annotations

from math import log

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from fixtures.search_requests import beam, greedy
from fixtures.small_networks import neural
from fixtures.table_model import BEGIN, END, Table, TableMemory, exhaustive, log_probability, script, table
from weft.attention.ragged_attention import alignment_weights
from weft.errors import SearchError
from weft.ragged import Ragged
from weft.search import beam as beam_module
from weft.search.interface import Hypothesis
from weft.search.ranking import Ranking
from weft.tree import select

quick = settings(deadline=None, max_examples=25)
PENALTIES = st.sampled_from([0.0, 0.6, 1.0])
NETWORKS = ["after", "before", "feeding", "lm"]


def by_hand(scripts, limits=None, *, vocabulary: int = 6, **options):
    """Search in models written by hand; the model is returned too, for it has recorded every prefix it was given."""
    model = script(*scripts, vocabulary=vocabulary)
    return beam(model, model.memory(), limits or [9] * len(scripts), **options), model


def tokens_of(hypotheses: list[Hypothesis]) -> list[tuple[int, ...]]:
    return [tuple(hypothesis.tokens) for hypothesis in hypotheses]


# The policy, statement by statement


def test_an_end_among_the_first_k_is_set_aside_and_the_rest_goes_on() -> None:
    prefixes = {(): {END: 0.6, 3: 0.4}, (3,): {END: 1.0}}
    [found], _ = by_hand([prefixes], size=1, finish=2, n_best=2, ranking=Ranking(alpha=0.0))
    assert tokens_of(found) == [(), (3,)]
    assert [hypothesis.ended for hypothesis in found] == ["end", "end"]


def test_an_end_after_the_first_k_is_not_set_aside() -> None:
    """log 0.45 would have won, but it was second in a beam of one."""
    prefixes = {(): {3: 0.55, END: 0.45}, (3,): {4: 0.6, END: 0.4}, (3, 4): {END: 1.0}}
    [found], _ = by_hand([prefixes], size=1, finish=1, n_best=1, ranking=Ranking(alpha=0.0))
    assert tokens_of(found) == [(3, 4)]
    [found], _ = by_hand([prefixes], size=2, finish=2, n_best=1, ranking=Ranking(alpha=0.0))
    assert tokens_of(found) == [()]


def test_the_k_best_that_do_not_end_go_on_even_from_beyond_the_first_k() -> None:
    prefixes = {(): {END: 0.5, 3: 0.3, 4: 0.15, 5: 0.05}, (3,): {END: 1.0}, (4,): {END: 1.0}, (5,): {END: 1.0}}
    _, model = by_hand([prefixes], size=2, finish=3)
    assert set(model.seen[1]) == {(3,), (4,)}


def test_hypotheses_compete_across_parents() -> None:
    prefixes = {(): {3: 0.6, 4: 0.4}, (3,): {3: 0.5, 4: 0.3, 5: 0.2}, (4,): {3: 0.9, 4: 0.1}}
    _, model = by_hand([prefixes], size=2)
    assert set(model.seen[2]) == {(4, 3), (3, 3)}  # 0.36 and 0.30; (3, 4) with 0.18 is left behind


@pytest.mark.parametrize("finish", [1, 2, 3])
def test_done_when_enough_are_set_aside(finish: int) -> None:
    probabilities = {END: 0.6, 3: 0.4}
    prefixes = {(): probabilities, (3,): probabilities, (3, 3): probabilities, (3, 3, 3): probabilities}
    [found], model = by_hand([prefixes], size=1, finish=finish, n_best=1)
    assert len(model.seen) == finish
    assert all(hypothesis.ended == "end" for hypothesis in found)


UNLIKELY_ENDINGS = {
    (): {3: 0.9, END: 0.1},
    (3,): {3: 0.9, END: 0.1},
    (3, 3): {4: 0.9, END: 0.1},
    (3, 3, 4): {END: 1.0},
}
"""An ending that is second best at every step, before the likely one."""


@pytest.mark.parametrize("length_penalty", [0.0, 1.0])
def test_outranked_waits_for_what_ranks_above_the_finished(length_penalty: float) -> None:
    options = {"size": 2, "finish": 2, "ranking": Ranking(alpha=length_penalty)}
    [found], _ = by_hand([UNLIKELY_ENDINGS], stop="finished", **options)
    assert tokens_of(found) == [(), (3,)][int(length_penalty) :][:1]
    [found], model = by_hand([UNLIKELY_ENDINGS], stop="outranked", **options)
    assert tokens_of(found) == [(3, 3, 4)]
    assert len(model.seen) == 4


def test_what_an_early_stop_leaves_unfinished_is_no_output() -> None:
    """Both groups end in the same way, so that one output remains of the two that were requested."""
    prefixes = {(): {END: 0.9, 3: 0.1}, (3,): {END: 1.0}}
    [found], model = by_hand([prefixes], size=2, groups=2, diversity=0.0, finish=2, n_best=2)
    assert len(model.seen) == 1
    assert [(hypothesis.tokens, hypothesis.ended) for hypothesis in found] == [([], "end")]


def test_outranked_is_done_when_nothing_ranks_above_the_finished() -> None:
    """Of two that are requested, the second must be outranked too; a limit ends the search in any case."""
    probabilities = {END: 0.6, 3: 0.4}
    prefixes = {(3,) * length: probabilities for length in range(9)}
    options = {"stop": "outranked", "ranking": Ranking(alpha=0.0)}
    [found], model = by_hand([prefixes], size=1, n_best=1, **options)
    assert tokens_of(found) == [()] and len(model.seen) == 1
    [found], model = by_hand([prefixes], size=2, n_best=2, **options)
    assert tokens_of(found) == [(), (3,)] and len(model.seen) == 2
    [found], model = by_hand([UNLIKELY_ENDINGS], [2], size=2, finish=1, n_best=1, **options)
    assert len(model.seen) == 2


def test_by_default_as_many_are_set_aside_as_the_beam_holds() -> None:
    probabilities = {END: 0.6, 3: 0.4}
    _, model = by_hand([{(3,) * length: probabilities for length in range(9)}], size=3)
    assert len(model.seen) == 3


@pytest.mark.parametrize("limit", [1, 2, 5])
def test_done_at_the_limit(limit: int) -> None:
    [found], model = by_hand([{(3,) * length: {3: 0.9, END: 0.1} for length in range(9)}], [limit], size=1, n_best=1)
    assert len(model.seen) == limit
    assert tokens_of(found) == [(3,) * limit]
    assert found[0].ended == "length"


def test_the_end_token_counts_in_the_limit() -> None:
    [found], _ = by_hand([{(): {3: 1.0}, (3,): {END: 1.0}}], [2], size=1)
    assert (tokens_of(found), found[0].ended) == ([(3,)], "end")
    [found], _ = by_hand([{(): {3: 1.0}, (3,): {END: 1.0}}], [1], size=1)
    assert (tokens_of(found), found[0].ended) == ([(3,)], "length")


def test_done_when_nothing_can_go_on() -> None:
    [found], model = by_hand([{(): {END: 1.0}}], size=3, n_best=3)
    assert (tokens_of(found), len(model.seen)) == ([()], 1)


def test_finished_rank_before_those_cut_off() -> None:
    probabilities = {3: 0.95, END: 0.05}
    [found], _ = by_hand(
        [{(3,) * length: probabilities for length in range(9)}], [3], size=2, n_best=4, ranking=Ranking(alpha=0.0)
    )
    assert [hypothesis.ended for hypothesis in found] == ["end", "end", "end", "length"]
    assert found[3].score > found[0].score


def test_rank_by_the_mean_or_by_the_sum() -> None:
    """By probability the short answer wins, by the mean the long one."""
    prefixes = {(): {END: 0.5, 3: 0.5}, (3,): {4: 0.9, END: 0.1}, (3, 4): {END: 1.0}}
    [[by_sum]], _ = by_hand([prefixes], size=3, ranking=Ranking(alpha=0.0))
    [[by_mean]], _ = by_hand([prefixes], size=3, ranking=Ranking(alpha=1.0))
    assert (by_sum.tokens, by_mean.tokens) == ([], [3, 4])
    assert by_sum.score == pytest.approx(log(0.5))
    assert by_mean.score == pytest.approx(log(0.45) / 3), "the end token counts"


def test_a_beam_of_one_can_be_better_than_greedy() -> None:
    prefixes = {(): {END: 0.5, 3: 0.49, 4: 0.01}, (3,): {END: 1.0}}
    [[found]], _ = by_hand([prefixes], size=1, finish=2, ranking=Ranking(alpha=1.0))
    assert found.tokens == [3]


def test_ended_by_length_means_that_the_limit_was_reached() -> None:
    """Also where more are requested than were set aside: the first step sets one aside, and that is enough."""
    [found], _ = by_hand([{(): {END: 0.6, 3: 0.3, 4: 0.1}}], [9], size=3, finish=1, n_best=3)
    assert tokens_of(found)[0] == ()
    for hypothesis in found:
        assert hypothesis.ended == "end" or len(hypothesis.tokens) == 9


def test_a_done_sentence_leaves_the_batch() -> None:
    prefixes = [{(3,) * length: {3: 1.0} for length in range(end)} for end in (0, 3, 1, 3)]
    found, model = by_hand(prefixes, size=2, finish=1)
    assert [hypotheses[0].tokens for hypotheses in found] == [[], [3] * 3, [3], [3] * 3]
    assert [len(prefixes) for prefixes in model.seen] == [8, 6, 4, 4]


def test_a_sentence_at_its_limit_leaves_the_batch() -> None:
    model = Table()
    memory = table(3, 7, seed=1)
    memory.logits[:, :, END] = float("-inf")
    found = beam(model, memory, [4, 1, 2], size=2)
    assert model.rows == [6, 4, 2, 2]
    assert [len(hypotheses[0].tokens) for hypotheses in found] == [4, 1, 2]


def test_a_beam_holds_at_least_one_hypothesis() -> None:
    with pytest.raises(SearchError, match=r"^search.size: 0; a beam holds at least 1 hypothesis$"):
        beam(Table(), table(1, 5, seed=1), [3], size=0)


def test_no_sentences_no_answers() -> None:
    assert beam(Table(), table(0, 5, seed=1), [], size=3) == []


# Against trying everything


def agrees(found: list[Hypothesis], model, memory, *, vocabulary: int, limit: int, length_penalty: float) -> None:
    expected = exhaustive(model, memory, vocabulary=vocabulary, limit=limit, length_penalty=length_penalty)
    assert len(found) == len(expected)
    assert {tuple(hypothesis.tokens) for hypothesis in found} == {answer.tokens for answer in expected}
    for hypothesis, answer in zip(found, expected, strict=True):
        assert (hypothesis.ended == "end") == answer.finished
        assert hypothesis.score == pytest.approx(answer.score, rel=1e-4, abs=1e-4)


@quick
@given(st.integers(0, 10**6), PENALTIES, st.floats(0.5, 4.0))
def test_a_wide_beam_finds_all_that_there_is_in_a_table(seed: int, length_penalty: float, spread: float) -> None:
    memory = table(1, 4, seed=seed, spread=spread)
    [found] = beam(Table(), memory, [3], size=40, n_best=40, ranking=Ranking(alpha=length_penalty))
    agrees(found, Table(), memory, vocabulary=4, limit=3, length_penalty=length_penalty)


@pytest.mark.parametrize("kind", NETWORKS)
@settings(deadline=None, max_examples=4)
@given(st.integers(0, 10**6), PENALTIES, st.lists(st.integers(3, 10), min_size=1, max_size=5))
def test_a_wide_beam_finds_all_that_there_is_in_a_network(
    kind: str, seed: int, length_penalty: float, source: list[int]
) -> None:
    model = neural(kind, vocabulary=4, seed=seed)
    memory = model.encode(Ragged.of([source]))
    [found] = beam(model, memory, [3], size=40, n_best=40, ranking=Ranking(alpha=length_penalty))
    agrees(found, model, memory, vocabulary=4, limit=3, length_penalty=length_penalty)


@quick
@given(st.integers(0, 10**6), st.integers(1, 6))
def test_a_beam_of_one_that_stops_at_its_first_end_is_greedy(seed: int, limit: int) -> None:
    memory = table(3, 5, seed=seed)
    for [found], [expected] in zip(
        beam(Table(), memory, [limit] * 3, size=1, finish=1),
        greedy(Table(), memory, [limit] * 3),
        strict=True,
    ):
        assert (found.tokens, found.ended) == (expected.tokens, expected.ended)
        assert found.token_scores == pytest.approx(expected.token_scores, abs=1e-4)


@quick
@given(st.integers(0, 10**6), PENALTIES)
def test_greedy_is_never_better_than_a_wide_beam(seed: int, length_penalty: float) -> None:
    memory = table(2, 5, seed=seed)
    ranking = Ranking(alpha=length_penalty)
    for [one], [best], [thorough] in zip(
        greedy(Table(), memory, [4, 4], ranking),
        beam(Table(), memory, [4, 4], size=400, ranking=ranking),
        beam(Table(), memory, [4, 4], size=1, finish=3, ranking=ranking),
        strict=True,
    ):
        if one.ended == "end":
            assert best.score >= one.score - 1e-5
            assert thorough.score >= one.score - 1e-5, "a beam of one is at least as good as greedy"


# The fields of a hypothesis


@quick
@given(st.integers(0, 10**6), st.integers(1, 6), st.integers(1, 6), PENALTIES)
def test_hypotheses_are_sorted_distinct_and_add_up(seed: int, size: int, n_best: int, length_penalty: float) -> None:
    memory = table(3, 6, seed=seed)
    found = beam(
        Table(),
        memory,
        [5, 3, 4],
        size=size,
        n_best=n_best,
        ranking=Ranking(alpha=length_penalty),
        return_attention=True,
    )
    for row, (limit, hypotheses) in enumerate(zip([5, 3, 4], found, strict=True)):
        assert 1 <= len(hypotheses) <= n_best
        ranks = [(hypothesis.ended != "end", -hypothesis.score) for hypothesis in hypotheses]
        assert ranks == sorted(ranks)
        assert len(set(tokens_of(hypotheses))) == len(hypotheses)
        own = select(memory, torch.tensor([row]))
        for hypothesis in hypotheses:
            ended = hypothesis.ended == "end"
            tokens = hypothesis.tokens + [END] * ended
            assert END not in hypothesis.tokens and len(tokens) <= limit
            assert len(hypothesis.token_scores) == len(tokens)
            assert sum(hypothesis.token_scores) == pytest.approx(hypothesis.log_probability, abs=1e-4)
            assert hypothesis.score == pytest.approx(hypothesis.log_probability / len(tokens) ** length_penalty)
            assert hypothesis.log_probability == pytest.approx(log_probability(Table(), own, tokens), abs=1e-4)
            check_table_attention(hypothesis, own, tokens)


def check_table_attention(hypothesis: Hypothesis, memory: TableMemory, tokens: list[int]) -> None:
    """A row for every token score: the attention weights of that step."""
    state = Table().start(memory)
    assert hypothesis.attention_TS is not None and len(hypothesis.attention_TS) == len(tokens)
    for weights_S, token in zip(hypothesis.attention_TS, [BEGIN, *tokens[:-1]], strict=True):
        _, state, weights_RS = Table().step(torch.tensor([token]), state, memory)
        assert torch.equal(weights_S, weights_RS[0])


SOURCES = [[3, 7, 5], [10], [4, 9, 3, 10, 6], [8, 5]]


@pytest.mark.parametrize("kind", [*NETWORKS, "copying", "copying transformer"])
def test_scores_and_attention_are_those_of_forced_decoding(kind: str) -> None:
    model = neural(kind, vocabulary=7)
    sources = [[] for _ in SOURCES] if kind == "lm" else SOURCES
    found = beam(model, model.encode(Ragged.of(sources)), [7] * 4, size=3, n_best=3, return_attention=True)
    for source, hypotheses in zip(sources, found, strict=True):
        for hypothesis in hypotheses:
            tokens = hypothesis.tokens + [END] * (hypothesis.ended == "end")
            with torch.no_grad():
                forced = model(Ragged.of([source]), Ragged.of([tokens]).shifted(BEGIN), return_attention=True)
            weights_BTS = alignment_weights(forced.attention, Ragged.of([source]).layout)
            scores = forced.logits_NV.log_softmax(-1).gather(1, torch.tensor(tokens)[:, None])[:, 0]
            assert hypothesis.token_scores == pytest.approx(scores.tolist(), abs=1e-4)
            assert hypothesis.log_probability == pytest.approx(float(scores.sum()), abs=1e-4)
            attention_TS = hypothesis.attention_TS
            assert attention_TS is not None and weights_BTS is not None
            torch.testing.assert_close(attention_TS.sum(1), torch.ones(len(tokens)))
            width = weights_BTS.shape[2]
            torch.testing.assert_close(attention_TS[:, :width], weights_BTS[0], rtol=1e-4, atol=1e-5)
            assert not attention_TS[:, width:].any()


def test_attention_comes_on_request_from_models_that_have_it() -> None:
    memory = table(1, 5, seed=1)
    assert beam(Table(), memory, [3], size=2)[0][0].attention_TS is None
    model = neural("none", vocabulary=7, score="none")
    [[found]] = beam(model, model.encode(Ragged.of([[3, 4]])), [3], size=2, return_attention=True)
    assert found.attention_TS is None


# Other sentences of the batch


def same(one: list[Hypothesis], other: list[Hypothesis]) -> None:
    assert tokens_of(one) == tokens_of(other)
    for left, right in zip(one, other, strict=True):
        assert left.ended == right.ended
        assert left.token_scores == pytest.approx(right.token_scores, abs=1e-5)


@quick
@given(st.integers(0, 10**6), st.permutations(range(5)), st.integers(1, 4))
def test_company_and_order_change_nothing(seed: int, order: list[int], size: int) -> None:
    memory = table(5, 6, seed=seed)
    limits = [5, 2, 6, 1, 4]
    options = {"size": size, "n_best": 2}
    together = beam(Table(), memory, limits, **options)
    moved = beam(Table(), select(memory, torch.tensor(order)), [limits[row] for row in order], **options)
    for place, row in enumerate(order):
        same(moved[place], together[row])
        [alone] = beam(Table(), select(memory, torch.tensor([row])), [limits[row]], **options)
        same(alone, together[row])


@pytest.mark.parametrize("kind", NETWORKS)
def test_company_changes_nothing_for_networks(kind: str) -> None:
    model = neural(kind, vocabulary=7)
    sources = [[] for _ in SOURCES] if kind == "lm" else SOURCES
    together = beam(model, model.encode(Ragged.of(sources)), [6, 3, 5, 4], size=3, n_best=2)
    for row, limit in enumerate([6, 3, 5, 4]):
        [alone] = beam(model, model.encode(Ragged.of([sources[row]])), [limit], size=3, n_best=2)
        same(alone, together[row])


# Stopping, groups, prefixes, minimum lengths, traces


@quick
@given(st.integers(0, 10**6), PENALTIES, st.integers(1, 3))
def test_an_outranked_stop_finds_what_is_at_least_as_good(seed: int, length_penalty: float, n_best: int) -> None:
    """It goes on where the other stops, so that what it finds ranks no lower."""
    memory = table(3, 6, seed=seed)
    options = {"size": 3, "n_best": n_best, "ranking": Ranking(alpha=length_penalty)}
    quicker, longer = Table(), Table()
    early = beam(quicker, memory, [7, 7, 7], stop="finished", **options)
    late = beam(longer, memory, [7, 7, 7], stop="outranked", **options)
    assert sum(longer.rows) >= sum(quicker.rows)
    for row, other in zip(early, late, strict=True):
        if row[0].ended == "end":
            assert other[0].score >= row[0].score - 1e-6


@quick
@given(st.integers(0, 10**6), PENALTIES, st.integers(1, 3))
def test_a_provable_stop_loses_nothing(seed: int, length_penalty: float, n_best: int) -> None:
    """It finds what the same beam finds that goes on to the end, in no more steps."""
    memory = table(3, 6, seed=seed)
    options = {"size": 3, "n_best": n_best, "ranking": Ranking(alpha=length_penalty)}
    thorough, quicker = Table(), Table()
    expected = beam(thorough, memory, [7, 7, 7], stop="steps", **options)
    found = beam(quicker, memory, [7, 7, 7], stop="provable", **options)
    ended = [[one.score for one in row if one.ended == "end"] for row in expected]
    assert [[one.score for one in row if one.ended == "end"] for row in found] == [
        pytest.approx(scores) for scores in ended
    ]
    assert sum(quicker.rows) <= sum(thorough.rows)


def slow_diverse(memory, *, size: int, groups: int, diversity: float, limit: int) -> list[list[tuple[int, ...]]]:
    """What each group of a diverse beam goes on with, step by step, written out; nothing ever ends."""
    share = size // groups
    beams = [[((), 0.0)] for _ in range(groups)]
    for _ in range(limit):
        counts: dict[int, int] = {}
        for group in range(groups):
            candidates = []
            for prefix, total in beams[group]:
                for token in range(6):
                    if token != END:
                        log = log_probability(Table(), memory, [*prefix, token]) - (
                            log_probability(Table(), memory, list(prefix)) if prefix else 0.0
                        )
                        candidates.append(
                            (total + log - diversity * counts.get(token, 0), (*prefix, token), total + log)
                        )
            candidates.sort(reverse=True)
            beams[group] = [(prefix, total) for _, prefix, total in candidates[:share]]
            for prefix, _ in beams[group]:
                counts[prefix[-1]] = counts.get(prefix[-1], 0) + 1
    return [[prefix for prefix, _ in one] for one in beams]


@pytest.mark.parametrize("seed", range(6))
def test_groups_avoid_each_other(seed: int) -> None:
    memory = table(1, 6, seed=seed)
    memory.logits[:, :, END] = -30.0
    [found] = beam(Table(), memory, [3], size=4, groups=2, diversity=1.5, n_best=4)
    expected = slow_diverse(memory, size=4, groups=2, diversity=1.5, limit=3)
    distinct = {prefix for group in expected for prefix in group}
    assert {tuple(one.tokens) for one in found} == distinct
    for one in found:
        assert one.log_probability == pytest.approx(log_probability(Table(), memory, one.tokens), abs=1e-3)


@quick
@given(st.integers(0, 10**6))
def test_prefixes_and_minimum_lengths_hold(seed: int) -> None:
    memory = table(2, 7, seed=seed)
    found = beam(Table(), memory, [6, 6], size=3, n_best=3, prefixes=[[5, 3], []], min_lengths=[0, 4])
    for row, hypotheses in enumerate(found):
        for one in hypotheses:
            tokens = one.tokens + [END] * (one.ended == "end")
            own = select(memory, torch.tensor([row]))
            assert one.log_probability == pytest.approx(log_probability(Table(), own, tokens), abs=1e-3)
            assert one.tokens[:2] == [5, 3] if row == 0 else len(one.tokens) >= 4


@quick
@given(st.integers(0, 10**6), st.integers(1, 4), st.sampled_from([1, 2]))
def test_a_trace_is_the_search(seed: int, size: int, groups: int) -> None:
    size *= groups
    memory = table(2, 7, seed=seed)
    for [found] in beam(Table(), memory, [5, 5], size=size, groups=groups, return_trace=True):
        tree = found.trace
        assert tree is not None
        tokens = found.tokens + [END] * (found.ended == "end")
        path = [tree.steps[time][place] for time, place in enumerate(tree.winner)]
        assert [branch.token for branch in path] == tokens
        assert [branch.log_probability for branch in path] == pytest.approx(found.token_scores, abs=1e-4)
        assert path[-1].outcome == ("finished" if found.ended == "end" else "kept")
        for before, after in zip(tree.steps, tree.steps[1:], strict=False):
            slots = {branch.slot: branch for branch in before if branch.outcome == "kept"}
            for branch in after:
                assert branch.total == pytest.approx(slots[branch.parent].total + branch.log_probability, abs=1e-4)
            assert len(slots) <= size


def test_where_nothing_may_follow_the_search_stops() -> None:
    class Nothing:
        window, forbids = 1, True

        def __call__(self, scores_RV, history_RW, sentences_R, *, in_place=False):
            return scores_RV.masked_fill(history_RW[:, -1:] >= 0, float("-inf"))

    memory = table(1, 6, seed=3)
    memory.logits[:, :, END] = -30.0
    [[found]] = beam(Table(), memory, [5], size=2, constraints=(Nothing(),))
    assert (len(found.tokens), found.ended) == (1, "constraints")
    [[alone]] = greedy(Table(), memory, [5], constraints=(Nothing(),))
    assert (alone.tokens, alone.ended) == (found.tokens, "constraints")


@given(st.lists(st.lists(st.booleans(), min_size=9, max_size=9), min_size=1, max_size=4), st.integers(1, 6))
def test_the_first_that_do_not_end(ends: list[list[bool]], size: int) -> None:
    """A large beam finds them in another way."""
    ends_BC = torch.tensor(ends)
    expected = beam_module._first_without_end(ends_BC, size)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(beam_module, "LARGE_BEAM", 0)
        indices_BK, exists_BK = beam_module._first_without_end(ends_BC, size)
    assert torch.equal(exists_BK, expected[1])
    assert torch.equal(indices_BK, expected[0])
    for row, indices in zip(ends, indices_BK.tolist(), strict=True):
        staying = [index for index, end in enumerate(row) if not end][:size]
        assert indices[: len(staying)] == staying
