"""Greedy search and sampling."""

from __future__ import annotations

import itertools
import math
from collections import Counter

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from small_networks import neural
from table_model import BEGIN, END, Table, log_probability, table
from torch import Tensor

from weft.ragged import Ragged
from weft.search import Hypothesis, follow, greedy, sampler
from weft.search.follow import stack_weights
from weft.tree import repeat, select

quick = settings(deadline=None, max_examples=40)
LOGITS = torch.log(torch.tensor([0.4, 0.05, 0.3, 0.2, 0.05]))


def run(model, memory, limits, choose=greedy, **options) -> list[Hypothesis]:
    return follow(model, memory, limits, choose, begin=BEGIN, end=END, **options)


# Greedy


@quick
@given(st.integers(0, 10**6))
def test_greedy_takes_the_likeliest_token_at_every_step(seed: int) -> None:
    memory = table(3, 6, seed=seed)
    limits = [5, 1, 8]
    for row, found in enumerate(run(Table(), memory, limits, weights=True, length_penalty=0.6)):
        own = select(memory, torch.tensor([row]))
        state, said, looks = Table().start(own), [BEGIN], []
        while len(said) <= limits[row] and (len(said) == 1 or said[-1] != END):
            logits_RV, state, weights_RS = Table().step(torch.tensor([said[-1]]), state, own)
            said.append(max(range(6), key=lambda token: float(logits_RV[0, token])))
            looks.append(weights_RS[0])
        del said[0]
        assert found.ended == ("end" if said[-1] == END else "length")
        assert found.tokens == [token for token in said if token != END]
        total = log_probability(Table(), own, said)
        assert len(found.token_scores) == len(said)
        assert sum(found.token_scores) == pytest.approx(found.log_probability)
        assert found.log_probability == pytest.approx(total, abs=1e-4)
        assert found.score == pytest.approx(total / len(said) ** 0.6, abs=1e-4)
        assert torch.equal(found.weights_TS, torch.stack(looks))


def test_of_equals_the_smallest_id() -> None:
    logits = torch.zeros(3, 5003)
    logits[1, [7, 4001]] = 1.0
    logits[2, 5002] = 1.0
    assert greedy(logits).tolist() == [0, 7, 5002]


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
    said = [len(hypothesis.token_scores) for hypothesis in found]
    assert model.rows == [sum(length > time for length in said) for time in range(max(said))]
    assert len(set(said)) > 1, "a case where all end together would show nothing"


def test_no_sentences_no_answers() -> None:
    assert run(Table(), table(0, 5, seed=1), []) == []


@pytest.mark.parametrize("kind", ["after", "before", "feeding", "lm"])
def test_scores_and_weights_are_those_of_forced_decoding(kind: str) -> None:
    model = neural(kind, vocabulary=7)
    sources = [[], []] if kind == "lm" else [[3, 7, 5], [10]]
    for source, found in zip(sources, run(model, model.encode(Ragged.of(sources)), [7, 5], weights=True), strict=True):
        said = found.tokens + [END] * (found.ended == "end")
        with torch.no_grad():
            forced = model(Ragged.of([source]), Ragged.of([said]).shifted(BEGIN), weights=True)
        scores = forced.logits_NV.log_softmax(-1).gather(1, torch.tensor(said)[:, None])[:, 0]
        assert forced.logits_NV.argmax(-1).tolist() == said
        assert found.token_scores == pytest.approx(scores.tolist(), abs=1e-4)
        width = forced.weights_BTS.shape[2]
        torch.testing.assert_close(found.weights_TS[:, :width], forced.weights_BTS[0], rtol=1e-4, atol=1e-5)
        assert not found.weights_TS[:, width:].any()


def test_weights_come_only_on_request() -> None:
    assert run(Table(), table(1, 5, seed=1), [3])[0].weights_TS is None


def test_a_growing_past_is_filled_with_zeros() -> None:
    rows = [torch.tensor([1.0]), torch.tensor([0.3, 0.7])]
    assert stack_weights(rows).tolist() == [[1.0, 0.0], rows[1].tolist()]


# Prefixes


def test_a_prefix_is_said_first_and_counts() -> None:
    memory = table(2, 7, seed=8)
    for row, found in enumerate(run(Table(), memory, [6, 6], prefix=[5, 3])):
        assert found.tokens[:2] == [5, 3]
        own = select(memory, torch.tensor([row]))
        said = found.tokens + [END] * (found.ended == "end")
        assert found.log_probability == pytest.approx(log_probability(Table(), own, said), abs=1e-4)
        assert len(found.token_scores) == len(said)


def test_what_greedy_said_as_a_prefix_changes_nothing() -> None:
    memory = table(1, 7, seed=9)
    memory.logits[:, :, END] -= 3
    [found] = run(Table(), memory, [6])
    assert len(found.tokens) >= 3
    [again] = run(Table(), memory, [6], prefix=found.tokens[:2])
    assert again == found


def test_the_limit_holds_for_a_prefix_too() -> None:
    [found] = run(Table(), table(1, 7, seed=8), [2], prefix=[5, 3, 4])
    assert (found.tokens, found.ended) == ([5, 3], "length")


def test_a_prefix_may_end_the_sentence() -> None:
    [found] = run(Table(), table(1, 7, seed=8), [6], prefix=[5, END])
    assert (found.tokens, found.ended) == ([5], "end")


# Sampling


def draws(count: int = 20_000, logits: Tensor = LOGITS, **options: float) -> list[int]:
    generator = torch.Generator().manual_seed(13)
    return sampler(generator=generator, **options)(logits.expand(count, -1)).tolist()  # type: ignore[arg-type]


def check_frequencies(found: Counter, expected: dict, total: int) -> None:
    """Pearson's χ² stays below its mean plus four standard deviations; the impossible never happens."""
    assert set(found) <= {outcome for outcome, share in expected.items() if share > 0}
    possible = {outcome: share for outcome, share in expected.items() if share > 0}
    chi = sum((found[outcome] - total * share) ** 2 / (total * share) for outcome, share in possible.items())
    freedom = len(possible) - 1
    assert chi <= freedom + 4 * math.sqrt(2 * freedom) + 1e-9


def slow_support(logits: Tensor, *, temperature: float = 1.0, top_k: int = 0, top_p: float = 1.0) -> dict[int, float]:
    """Temperature, then top-k, then top-p over what is left, one token at a time."""
    weights = {token: math.exp(logit / temperature) for token, logit in enumerate(logits.tolist())}
    ranked = sorted(weights, key=lambda token: -weights[token])[: top_k or None]
    total = sum(weights[token] for token in ranked)
    kept, held = [], 0.0
    for token in ranked:
        kept.append(token)
        held += weights[token] / total
        if held >= top_p - 1e-9:
            break
    total = sum(weights[token] for token in kept)
    return {token: weights[token] / total if token in kept else 0.0 for token in weights}


@pytest.mark.parametrize(
    "options",
    [
        {},
        {"temperature": 2.0},
        {"temperature": 0.5},
        {"top_k": 1},
        {"top_k": 3},
        {"top_k": 99},
        {"top_p": 0.3},
        {"top_p": 0.6},
        {"top_p": 0.85},
        {"top_p": 1.0},
        {"temperature": 2.0, "top_k": 3},
        {"top_k": 3, "top_p": 0.5},
        {"temperature": 0.5, "top_k": 3, "top_p": 0.9},
    ],
    ids=lambda options: "-".join(f"{name}={value}" for name, value in options.items()) or "plain",
)
def test_frequencies(options: dict[str, float]) -> None:
    found = draws(**options)
    check_frequencies(Counter(found), slow_support(LOGITS, **options), len(found))  # type: ignore[arg-type]


@quick
@given(
    st.lists(st.integers(-32, 32), min_size=3, max_size=9, unique=True),
    st.integers(0, 4),
    st.floats(0.05, 1.0),
    st.floats(0.3, 3.0),
)
def test_support(eighths: list[int], top_k: int, top_p: float, temperature: float) -> None:
    given_V = torch.tensor(eighths) / 8
    options = {"top_k": top_k, "top_p": top_p, "temperature": temperature}
    expected = slow_support(given_V, top_k=top_k, top_p=min(top_p + 1e-5, 1.0), temperature=temperature)
    assert set(draws(50, given_V, **options)) <= {token for token, share in expected.items() if share > 0}


def test_the_fewest_that_hold_no_probability_is_the_likeliest_one() -> None:
    """search.top_p = 0 is a setting that recipes allow."""
    assert set(draws(50, top_p=0.0)) == {0}


def test_each_row_is_cut_by_itself() -> None:
    logits = torch.log(torch.tensor([[0.9, 0.05, 0.05], [0.05, 0.05, 0.9]]))
    draw = sampler(top_p=0.5, generator=torch.Generator().manual_seed(1))
    assert all(draw(logits).tolist() == [0, 2] for _ in range(20))


def test_a_low_temperature_is_greedy() -> None:
    assert set(draws(200, temperature=0.01)) == {0}


def test_the_seed_decides() -> None:
    logits = torch.zeros(50, 11)

    def draw(seed: int) -> list[int]:
        return sampler(generator=torch.Generator().manual_seed(seed))(logits).tolist()

    assert draw(3) == draw(3)
    assert draw(3) != draw(4)


def test_the_callers_logits_stay_as_they_are() -> None:
    logits = LOGITS.expand(4, -1).clone()
    sampler(temperature=0.7, top_k=2, top_p=0.8)(logits)
    assert torch.equal(logits, LOGITS.expand(4, -1))


def test_whole_sentences_come_as_often_as_they_are_probable() -> None:
    memory, count, limit = table(1, 4, seed=4, spread=1.0), 6000, 2
    choose = sampler(generator=torch.Generator().manual_seed(5))
    found = run(Table(), repeat(memory, count), [limit] * count, choose)
    others = [token for token in range(4) if token != END]
    expected = {}
    for length in range(limit + 1):
        for tokens in itertools.product(others, repeat=length):
            said = [*tokens, END] if length < limit else list(tokens)
            expected[tuple(said)] = math.exp(log_probability(Table(), memory, said))
    assert sum(expected.values()) == pytest.approx(1.0, abs=1e-5)
    said = Counter((*hypothesis.tokens, *[END] * (hypothesis.ended == "end")) for hypothesis in found)
    check_frequencies(said, expected, count)
    for hypothesis in found[:20]:
        key = (*hypothesis.tokens, *[END] * (hypothesis.ended == "end"))
        assert math.exp(hypothesis.log_probability) == pytest.approx(expected[key], rel=1e-4)
