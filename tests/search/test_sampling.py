"""Greedy search and sampling."""

from __future__ import annotations

import itertools
import math
from collections import Counter

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from fixtures.search_requests import draw, greedy
from fixtures.small_networks import neural
from fixtures.table_model import BEGIN, END, Table, log_probability, table
from weft.attention.ragged_attention import alignment_weights
from weft.ragged import Ragged
from weft.search.interface import Hypothesis
from weft.search.loop import stack_attention
from weft.search.ranking import Ranking
from weft.search.sampling import GREEDY, Sampler
from weft.search.sampling_filters import SamplingFilter
from weft.search.trace import PathTrace
from weft.tree import select

quick = settings(deadline=None, max_examples=25)


def run(model, memory, max_lengths, sampler: Sampler | None = None, **values) -> list[Hypothesis]:
    if sampler is None:
        return [hypothesis for [hypothesis] in greedy(model, memory, max_lengths, **values)]
    return [hypothesis for [hypothesis] in draw(model, memory, max_lengths, sampler, **values)]


# Greedy


@quick
@given(st.integers(0, 10**6))
def test_greedy_takes_the_most_likely_token_at_every_step(seed: int) -> None:
    memory = table(3, 6, seed=seed)
    limits = [5, 1, 8]
    for row, found in enumerate(run(Table(), memory, limits, return_attention=True, ranking=Ranking(alpha=0.6))):
        own = select(memory, torch.tensor([row]))
        state, tokens, attention = Table().start(own), [BEGIN], []
        while len(tokens) <= limits[row] and (len(tokens) == 1 or tokens[-1] != END):
            logits_RV, state, weights_RS = Table().step(torch.tensor([tokens[-1]]), state, own)
            tokens.append(max(range(6), key=lambda token: float(logits_RV[0, token])))
            attention.append(weights_RS[0])
        del tokens[0]
        assert found.ended == ("end" if tokens[-1] == END else "length")
        assert found.tokens == [token for token in tokens if token != END]
        total = log_probability(Table(), own, tokens)
        assert len(found.token_scores) == len(tokens)
        assert sum(found.token_scores) == pytest.approx(found.log_probability)
        assert found.log_probability == pytest.approx(total, abs=1e-4)
        assert found.score == pytest.approx(total / len(tokens) ** 0.6, abs=1e-4)
        assert torch.equal(found.attention_TS, torch.stack(attention))


def test_of_equals_the_smallest_id() -> None:
    logits = torch.zeros(3, 5003)
    logits[1, [7, 4001]] = 1.0
    logits[2, 5002] = 1.0
    nothing = torch.zeros(3, dtype=torch.int64)
    assert GREEDY.choose(logits, nothing, nothing, nothing[:1]).tolist() == [0, 7, 5002]


@quick
@given(st.integers(0, 10**6), st.permutations(range(4)))
def test_company_and_order_change_nothing(seed: int, order: list[int]) -> None:
    memory, limits = table(4, 6, seed=seed), [3, 7, 1, 5]
    together = run(Table(), memory, limits)
    moved = run(Table(), select(memory, torch.tensor(order)), [limits[row] for row in order])
    for place, row in enumerate(order):
        [alone] = run(Table(), select(memory, torch.tensor([row])), [limits[row]])
        assert alone.tokens == moved[place].tokens == together[row].tokens
        assert alone.token_scores == pytest.approx(together[row].token_scores)


def test_a_sentence_that_ended_leaves_the_batch() -> None:
    model, memory = Table(), table(4, 5, seed=3)
    found = run(model, memory, [6, 2, 9, 4])
    tokens = [len(hypothesis.token_scores) for hypothesis in found]
    assert model.rows == [sum(length > time for length in tokens) for time in range(max(tokens))]
    assert len(set(tokens)) > 1, "a case where all end together would show nothing"


def test_no_sentences_no_answers() -> None:
    assert run(Table(), table(0, 5, seed=1), []) == []


@pytest.mark.parametrize("kind", ["after", "before", "feeding", "copying", "copying transformer", "lm"])
def test_scores_and_attention_are_those_of_forced_decoding(kind: str) -> None:
    model = neural(kind, vocabulary=7)
    sources = [[], []] if kind == "lm" else [[3, 7, 5], [10]]
    for source, found in zip(
        sources, run(model, model.encode(Ragged.of(sources)), [7, 5], return_attention=True), strict=True
    ):
        tokens = found.tokens + [END] * (found.ended == "end")
        with torch.no_grad():
            forced = model(Ragged.of([source]), Ragged.of([tokens]).shifted(BEGIN), return_attention=True)
        weights_BTS = alignment_weights(forced.attention, Ragged.of([source]).layout)
        scores = forced.logits_NV.log_softmax(-1).gather(1, torch.tensor(tokens)[:, None])[:, 0]
        assert forced.logits_NV.argmax(-1).tolist() == tokens
        assert found.token_scores == pytest.approx(scores.tolist(), abs=1e-4)
        width = weights_BTS.shape[2]
        torch.testing.assert_close(found.attention_TS[:, :width], weights_BTS[0], rtol=1e-4, atol=1e-5)
        assert not found.attention_TS[:, width:].any()


def test_attention_comes_only_on_request() -> None:
    assert run(Table(), table(1, 5, seed=1), [3])[0].attention_TS is None


def test_attention_over_a_growing_history_is_padded_with_zeros() -> None:
    rows = [torch.tensor([1.0]), torch.tensor([0.3, 0.7])]
    assert stack_attention(rows).tolist() == [[1.0, 0.0], rows[1].tolist()]


# Prefixes


def test_a_prefix_comes_first_and_counts() -> None:
    memory = table(2, 7, seed=8)
    for row, found in enumerate(run(Table(), memory, [6, 6], prefixes=[[5, 3]] * 2)):
        assert found.tokens[:2] == [5, 3]
        own = select(memory, torch.tensor([row]))
        tokens = found.tokens + [END] * (found.ended == "end")
        assert found.log_probability == pytest.approx(log_probability(Table(), own, tokens), abs=1e-4)
        assert len(found.token_scores) == len(tokens)


def test_a_prefix_of_the_greedy_output_changes_nothing() -> None:
    memory = table(1, 7, seed=9)
    memory.logits[:, :, END] -= 3
    [found] = run(Table(), memory, [6])
    assert len(found.tokens) >= 3
    [again] = run(Table(), memory, [6], prefixes=[found.tokens[:2]])
    assert again == found


def test_the_limit_holds_for_a_prefix_too() -> None:
    [found] = run(Table(), table(1, 7, seed=8), [2], prefixes=[[5, 3, 4]])
    assert (found.tokens, found.ended) == ([5, 3], "length")


def test_a_prefix_may_end_the_sentence() -> None:
    [found] = run(Table(), table(1, 7, seed=8), [6], prefixes=[[5, END]])
    assert (found.tokens, found.ended) == ([5], "end")


# Sampling


def check_frequencies(found: Counter, expected: dict, total: int) -> None:
    """Pearson's χ² stays below its mean plus four standard deviations; the impossible never happens."""
    assert set(found) <= {outcome for outcome, share in expected.items() if share > 0}
    possible = {outcome: share for outcome, share in expected.items() if share > 0}
    chi = sum((found[outcome] - total * share) ** 2 / (total * share) for outcome, share in possible.items())
    freedom = len(possible) - 1
    assert chi <= freedom + 4 * math.sqrt(2 * freedom) + 1e-9


def test_whole_sentences_come_as_often_as_they_are_probable() -> None:
    memory, count, limit = table(1, 4, seed=4, spread=1.0), 6000, 2
    [found] = draw(Table(), memory, [limit], Sampler(seed=5), n_best=count)
    others = [token for token in range(4) if token != END]
    expected = {}
    for length in range(limit + 1):
        for tokens in itertools.product(others, repeat=length):
            tokens = [*tokens, END] if length < limit else list(tokens)
            expected[tuple(tokens)] = math.exp(log_probability(Table(), memory, tokens))
    assert sum(expected.values()) == pytest.approx(1.0, abs=1e-5)
    tokens = Counter((*hypothesis.tokens, *[END] * (hypothesis.ended == "end")) for hypothesis in found)
    check_frequencies(tokens, expected, count)
    for hypothesis in found[:20]:
        key = (*hypothesis.tokens, *[END] * (hypothesis.ended == "end"))
        assert math.exp(hypothesis.log_probability) == pytest.approx(expected[key], rel=1e-4)


@quick
@given(st.integers(0, 10**6), st.permutations(range(4)))
def test_a_sample_does_not_depend_on_its_company(seed: int, order: list[int]) -> None:
    memory, limits, rng_keys = table(4, 6, seed=seed), [3, 7, 2, 5], [11, 7, 7, 500]
    sampler = Sampler(SamplingFilter(temperature=1.5, top_k=5), seed=seed)
    together = run(Table(), memory, limits, sampler, rng_keys=rng_keys)
    moved = run(
        Table(),
        select(memory, torch.tensor(order)),
        [limits[row] for row in order],
        sampler,
        rng_keys=[rng_keys[row] for row in order],
    )
    for place, row in enumerate(order):
        [alone] = run(Table(), select(memory, torch.tensor([row])), [limits[row]], sampler, rng_keys=[rng_keys[row]])
        assert alone.tokens == moved[place].tokens == together[row].tokens


def test_several_samples_differ_and_the_first_is_the_one_drawn_alone() -> None:
    memory = table(2, 9, seed=5, spread=0.5)
    drawn = draw(Table(), memory, [6, 6], Sampler(seed=3), n_best=7)
    assert [samples[0].tokens for samples in drawn] == [
        one.tokens for one in run(Table(), memory, [6, 6], Sampler(seed=3))
    ]
    assert all(len({tuple(one.tokens) for one in samples}) > 3 for samples in drawn)


def test_a_trace_contains_candidates_filters_and_the_draw() -> None:
    memory = table(1, 9, seed=5)
    [found] = run(Table(), memory, [6], Sampler(SamplingFilter(top_k=3), seed=3), return_trace=True)
    assert isinstance(found.trace, PathTrace)
    tokens = [*found.tokens, *[END] * (found.ended == "end")]
    assert [step.tokens[step.chosen] for step in found.trace.steps] == tokens
    for step, score in zip(found.trace.steps, found.token_scores, strict=True):
        assert step.kept_count == sum(step.kept) == 3 and step.kept[step.chosen]
        assert step.probabilities[step.chosen] == pytest.approx(math.exp(score), rel=1e-4)
        assert step.mass == pytest.approx(sum(p for p, kept in zip(step.probabilities, step.kept, strict=True) if kept))


@quick
@given(st.integers(0, 10**6))
def test_nothing_ends_before_its_minimum_length(seed: int) -> None:
    found = run(Table(), table(3, 6, seed=seed), [8, 8, 3], min_lengths=[4, 0, 9])
    assert len(found[0].tokens) >= 4 and len(found[2].tokens) == 3


def test_draws_depend_on_the_rng_key_and_not_on_the_row() -> None:
    """Equal keys draw the same, whatever their rows; different keys differ; without keys every row has its own."""
    alike = select(table(1, 50, seed=3, spread=0.1), torch.zeros(6, dtype=torch.int64))
    found = run(Table(), alike, [9] * 6, Sampler(seed=2), rng_keys=[7, 8, 7, 9, 8, 7])
    tokens = [tuple(one.tokens) for one in found]
    assert tokens[0] == tokens[2] == tokens[5] and tokens[1] == tokens[4]
    assert len(set(tokens)) == 3
    assert len({tuple(one.tokens) for one in run(Table(), alike, [9] * 6, Sampler(seed=2))}) == 6


def test_scores_count_the_coverage_of_the_source() -> None:
    """Σ_j log min(Σ_t a_tj, 1), literally: over the source of the attention summed over the output."""
    memory = table(3, 6, seed=5)
    ranking = Ranking(alpha=0.6, beta=0.7)
    for found in run(Table(), memory, [4, 2, 7], return_attention=True, ranking=ranking):
        weights = found.attention_TS.tolist()
        covered = [min(sum(row[column] for row in weights), 1.0) for column in range(5)]
        expected = found.log_probability / len(weights) ** 0.6 + 0.7 * sum(map(math.log, covered))
        assert found.score == pytest.approx(expected, abs=1e-4)
