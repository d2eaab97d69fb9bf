"""Sampling: every filter against its definition, draws against their distribution, random numbers as a function."""

from __future__ import annotations

import math
from collections import Counter

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor

from weft.errors import SearchError
from weft.search.interface import FORBIDDEN
from weft.search.sampling_filters import BLOCK, GAMMA, SamplingFilter, _mix, draw, uniforms

quick = settings(deadline=None, max_examples=60)
SCORES = torch.log(torch.tensor([0.4, 0.05, 0.3, 0.19, 0.06]))
FILTERS = {
    "plain": SamplingFilter(),
    "hot": SamplingFilter(temperature=2.0),
    "cold": SamplingFilter(temperature=0.5),
    "one": SamplingFilter(top_k=1),
    "three": SamplingFilter(top_k=3),
    "more than there are": SamplingFilter(top_k=99),
    "nucleus": SamplingFilter(top_p=0.6),
    "most likely": SamplingFilter(top_p=0.0),
    "min-p": SamplingFilter(min_p=0.2),
    "min-p of one": SamplingFilter(min_p=1.0),
    "typical": SamplingFilter(typical=0.4),
    "most typical": SamplingFilter(typical=0.0),
    "all": SamplingFilter(temperature=1.7, top_k=4, top_p=0.93, min_p=0.2, typical=0.7),
}
SHARES = st.integers(0, 997).map(lambda number: number / 997)
"""Probabilities that no sum of the tests' own comes near, so that rounding never decides."""
every_filter = pytest.mark.parametrize("filters", FILTERS.values(), ids=FILTERS)


# Filters


def slow_filter(filters: SamplingFilter, scores: list[float]) -> dict[int, float]:
    """The probabilities that are left, one definition after the other, one token at a time."""
    weights = {token: math.exp(rating / filters.temperature) for token, rating in enumerate(scores)}
    left = {token: weight for token, weight in weights.items() if weight > 0}

    def shares() -> dict[int, float]:
        total = sum(left.values())
        return {token: weight / total for token, weight in left.items()}

    def keep_fewest(mass: float, oddness: dict[int, float]) -> None:
        held, last, share = 0.0, math.inf, shares()
        for token in sorted(left, key=oddness.__getitem__):
            if held >= mass and oddness[token] > last:
                del left[token]
            else:
                held, last = held + share[token], oddness[token]

    if filters.top_k:
        least = sorted(left.values(), reverse=True)[: filters.top_k][-1]
        left = {token: weight for token, weight in left.items() if weight >= least}
    if filters.top_p < 1:
        keep_fewest(filters.top_p, {token: -weight for token, weight in left.items()})
    least = filters.min_p * max(left.values())
    left = {token: weight for token, weight in left.items() if weight >= least}
    if filters.typical < 1:
        share = shares()
        entropy = -sum(p * math.log(p) for p in share.values())
        keep_fewest(filters.typical, {token: abs(-math.log(p) - entropy) for token, p in share.items()})
    return {token: shares().get(token, 0.0) for token in weights}


@every_filter
def test_the_definitions(filters: SamplingFilter) -> None:
    found = filters(SCORES[None].double()).softmax(-1)[0].tolist()
    assert found == pytest.approx(list(slow_filter(filters, SCORES.double().tolist()).values()), abs=1e-12)


@quick
@given(
    st.lists(st.integers(-40, 40), min_size=2, max_size=13, unique=True),
    st.sets(st.integers(0, 12), max_size=5),
    st.builds(
        SamplingFilter,
        temperature=st.floats(0.3, 3.0),
        top_k=st.integers(0, 5),
        top_p=SHARES,
        min_p=SHARES,
        typical=SHARES,
    ),
)
def test_the_definitions_for_any_row(eighths: list[int], forbidden: set[int], filters: SamplingFilter) -> None:
    scores = torch.tensor(eighths, dtype=torch.float64) / 8
    scores[[token for token in forbidden if token < len(scores) - 1]] = FORBIDDEN
    found = filters(scores[None])[0]
    expected = slow_filter(filters, scores.tolist())
    assert found.softmax(-1).tolist() == pytest.approx(list(expected.values()), abs=1e-9)
    assert found.isfinite().any() and not found.isnan().any()
    assert found[scores == FORBIDDEN].isneginf().all()


@every_filter
def test_each_row_by_itself_and_the_order_of_tokens_says_nothing(filters: SamplingFilter) -> None:
    generator = torch.Generator().manual_seed(2)
    scores = torch.randn(7, 11, generator=generator) * 2
    scores[3, 4:] = FORBIDDEN
    together = filters(scores)
    assert torch.equal(together, torch.cat([filters(row[None]) for row in scores]))
    order = torch.randperm(11, generator=generator)
    assert torch.equal(filters(scores[:, order]).isneginf(), together[:, order].isneginf())


@pytest.mark.parametrize(
    "filters",
    [SamplingFilter(top_k=2), SamplingFilter(top_p=0.5), SamplingFilter(min_p=0.9), SamplingFilter(typical=0.3)],
)
def test_ties_are_kept_or_removed_together(filters: SamplingFilter) -> None:
    assert filters(torch.zeros(1, 7)).isfinite().all()


def test_each_over_what_those_before_left_in() -> None:
    """Of 0.4, 0.3, 0.2 (the three most likely) the first holds 4/9 ≥ 0.42; of all five it does not."""
    scores = torch.tensor([[0.4, 0.3, 0.2, 0.07, 0.03]]).log()
    assert SamplingFilter(top_k=3, top_p=0.42)(scores).isfinite().tolist() == [[True, False, False, False, False]]
    assert SamplingFilter(top_p=0.42)(scores).isfinite().tolist() == [[True, True, False, False, False]]


def test_typical_may_leave_the_likeliest_out() -> None:
    """Meister et al. 2023: −log 0.4 = 0.92 is farther from the entropy, 1.75, than −log 0.1 = 2.30 is."""
    scores = torch.tensor([[0.4] + [0.1] * 6]).log()
    assert SamplingFilter(typical=0.3)(scores).isfinite().tolist() == [[False, *[True] * 6]]


def test_what_is_kept_is_as_it_was() -> None:
    given_RV = SCORES[None].clone()
    found = SamplingFilter(top_k=3)(given_RV)
    assert torch.equal(found[0, [0, 2, 3]], SCORES[[0, 2, 3]])
    assert torch.equal(given_RV, SCORES[None])
    assert SamplingFilter(top_k=3)(given_RV.bfloat16()).dtype == torch.float32


@every_filter
@pytest.mark.parametrize("scale", [1e-30, 1.0, 1e30])
def test_any_temperature_and_any_scores(filters: SamplingFilter, scale: float) -> None:
    scores = (
        torch.tensor([[1.0, -1.0, FORBIDDEN, 0.5], [FORBIDDEN, FORBIDDEN, -3.0, FORBIDDEN], [FORBIDDEN] * 4]) * scale
    )
    for temperature in (1e-30, filters.temperature, 1e30):
        found = SamplingFilter(temperature, filters.top_k, filters.top_p, filters.min_p, filters.typical)(scores)
        assert not found.isnan().any() and found[0].isfinite().any()
        assert found[1].isfinite().tolist() == [False, False, True, False]
        assert found[2].isneginf().all()


def test_a_low_temperature_is_greedy() -> None:
    assert SamplingFilter(temperature=1e-3)(SCORES[None]).softmax(-1)[0].tolist() == [1.0, 0.0, 0.0, 0.0, 0.0]


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (
            {"temperature": 0.0},
            "temperature: 0.0; expected a positive number (for the most likely token use greedy)",
        ),
        ({"temperature": float("nan")}, "temperature: nan; expected a positive number"),
        ({"temperature": float("inf")}, "temperature: inf; expected a positive number"),
        ({"top_k": -1}, "top_k: -1; expected a number of tokens, or 0 for no limit"),
        ({"top_p": 1.5}, "top_p: 1.5; expected a probability from 0 to 1"),
        ({"min_p": -0.1}, "min_p: -0.1; expected a probability from 0 to 1"),
        ({"typical": float("nan")}, "typical: nan; expected a probability from 0 to 1"),
    ],
)
def test_what_is_refused(options: dict[str, float], message: str) -> None:
    with pytest.raises(SearchError) as refused:
        SamplingFilter(**options)  # type: ignore[arg-type]
    assert str(refused.value).startswith(message)


# Draws


def slow_draw(probabilities: list[float], uniform: float) -> int:
    summed = 0.0
    for token, probability in enumerate(probabilities):
        summed += probability
        if uniform < summed:
            return token
    return max(token for token, probability in enumerate(probabilities) if probability)


def chi_squared(found: Counter, expected: dict[int, float], total: int) -> None:
    """Pearson's χ² stays below its mean plus four standard deviations; the impossible never happens."""
    possible = {outcome: share for outcome, share in expected.items() if share > 0}
    assert set(found) <= set(possible)
    chi = sum((found[outcome] - total * share) ** 2 / (total * share) for outcome, share in possible.items())
    freedom = len(possible) - 1
    assert chi <= freedom + 4 * math.sqrt(2 * freedom) + 1e-9


def many(count: int, seed: int = 5) -> Tensor:
    return uniforms(seed, torch.arange(count), torch.zeros(1, dtype=torch.int64), torch.tensor(0))


def test_the_inverse_of_the_cumulative_distribution() -> None:
    grid_R = torch.linspace(0, 1, 1001, dtype=torch.float64)[:-1] + 0.0005
    scores = SCORES.double().log_softmax(-1)
    found = draw(scores.expand(1000, -1), grid_R)
    assert found.tolist() == [slow_draw(scores.exp().tolist(), uniform) for uniform in grid_R.tolist()]


@pytest.mark.parametrize("size", [BLOCK - 1, BLOCK, BLOCK + 1, 5 * BLOCK + 3])
def test_the_same_over_several_blocks(size: int) -> None:
    scores = torch.randn(size, generator=torch.Generator().manual_seed(size), dtype=torch.float64) * 3
    scores[BLOCK // 2 : -1 : 2] = FORBIDDEN
    scores[BLOCK : 3 * BLOCK] = FORBIDDEN
    found = draw(scores.expand(2_000, -1), many(2_000)).tolist()
    probabilities = scores.softmax(-1).tolist()
    assert found == [slow_draw(probabilities, uniform) for uniform in many(2_000).tolist()]


@every_filter
def test_frequencies(filters: SamplingFilter) -> None:
    found = draw(filters(SCORES.expand(20_000, -1)), many(20_000)).tolist()
    chi_squared(Counter(found), slow_filter(filters, SCORES.tolist()), len(found))


def test_frequencies_over_a_large_vocabulary() -> None:
    """A flat distribution over 32,000 tokens, counted by the thousand; the last ones come as often as the first."""
    scores = torch.full((1, 32_000), 3.7)
    found = torch.cat([draw(scores.expand(len(part), -1), part) for part in many(2_000).split(500)])
    chi_squared(Counter((found // 1000).tolist()), dict.fromkeys(range(32), 1 / 32), len(found))


@pytest.mark.parametrize("size", [2, 3, 31, 32_003])
@pytest.mark.parametrize(
    "uniform",
    [
        torch.tensor(0.0),
        torch.tensor(0.99999994),
        torch.tensor(0.0, dtype=torch.float64),
        torch.tensor(1 - 2**-53, dtype=torch.float64),
        torch.tensor(1.0),
    ],
    ids=str,
)
def test_the_impossible_is_never_drawn(size: int, uniform: Tensor) -> None:
    generator = torch.Generator().manual_seed(size)
    for possible in (1, max(size // 2, 1), size - 1):
        scores = torch.full((5, size), FORBIDDEN)
        for row in scores:
            row[torch.randperm(size, generator=generator)[:possible]] = torch.randn(possible, generator=generator)
        found = draw(scores, uniform.expand(5))
        assert scores[torch.arange(5), found].isfinite().all()
        places = [row.isfinite().nonzero()[:, 0] for row in scores]
        if uniform < 0.5:
            assert found.tolist() == [int(place[0]) for place in places]


def test_tokens_too_unlikely_for_float32_sums() -> None:
    """2 · 10⁻⁸ more than nothing, at the end of a sum near one."""
    probabilities = torch.tensor([[1 - 2e-8, 2e-8]], dtype=torch.float64)
    assert draw(probabilities.log(), torch.tensor([1 - 1e-8], dtype=torch.float64)).tolist() == [1]
    assert draw(probabilities.log(), torch.tensor([1 - 3e-8], dtype=torch.float64)).tolist() == [0]


def test_a_row_without_a_possible_token_gives_one_all_the_same() -> None:
    assert draw(torch.full((2, 3), FORBIDDEN), torch.tensor([0.0, 0.9])).tolist() == [0, 0]


def test_no_rows() -> None:
    nothing = torch.zeros(0, dtype=torch.int64)
    assert uniforms(1, nothing, nothing, nothing).shape == (0,)
    assert draw(SamplingFilter(top_p=0.5, typical=0.5)(torch.zeros(0, 5)), torch.zeros(0)).shape == (0,)


# Chance


def slow_uniform(seed: int, *numbers: int) -> float:
    """The formula, with Python's unbounded integers."""
    gamma, whole = 0x9E3779B97F4A7C15, 2**64

    def mix(bits: int) -> int:
        bits = (bits ^ (bits >> 30)) * 0xBF58476D1CE4E5B9 % whole
        bits = (bits ^ (bits >> 27)) * 0x94D049BB133111EB % whole
        return bits ^ (bits >> 31)

    key = mix((seed + gamma) % whole)
    for number in numbers:
        key = mix((key + (number + 1) * gamma) % whole)
    return (key >> 11) / 2**53


def test_the_published_generator() -> None:
    """SplitMix64 from 1234567; the numbers as Rosetta Code and Vigna's C code give them."""
    published = [6457827717110365317, 3203168211198807973, 9817491932198370423, 4593380528125082431]
    found = _mix(1234567 + GAMMA * torch.arange(1, 5))
    assert [number % 2**64 for number in found.tolist()] == published


@quick
@given(st.integers(-(2**70), 2**70), *[st.integers(0, 2**40) for _ in range(3)])
def test_the_formula(seed: int, sentence: int, number: int, step: int) -> None:
    found = uniforms(seed, torch.tensor([sentence]), torch.tensor([number]), torch.tensor([step]))
    assert found.tolist() == [slow_uniform(seed, sentence, number, step)]
    assert found.dtype == torch.float64


def test_a_seed_may_be_a_tensor() -> None:
    ones = torch.ones(3, dtype=torch.int64)
    assert torch.equal(uniforms(torch.tensor(77), ones, ones, ones), uniforms(77, ones, ones, ones))


def test_company_and_order_say_nothing() -> None:
    sentence, number = (torch.tensor(side) for side in zip(*[(s, d) for s in range(7) for d in range(5)], strict=True))
    whole = uniforms(3, sentence, number, torch.tensor(4))
    order = torch.randperm(35, generator=torch.Generator().manual_seed(1))[:11]
    assert torch.equal(uniforms(3, sentence[order], number[order], torch.full((11,), 4)), whole[order])


ARGUMENTS = ("seed", "rng key", "sample", "step")
every_argument = pytest.mark.parametrize("place", range(4), ids=ARGUMENTS)


def along(place: int, count: int) -> Tensor:
    """Numbers for 0, 1, 2, … as one argument, the others fixed."""
    arguments = [torch.full((count,), fixed) for fixed in (1, 3, 2, 5)]
    arguments[place] = torch.arange(count)
    return uniforms(*arguments)


@every_argument
def test_uniform(place: int) -> None:
    count = 40_000
    found = along(place, count)
    assert found.min() >= 0 and found.max() < 1
    chi_squared(Counter((found * 256).long().tolist()), dict.fromkeys(range(256), 1 / 256), count)
    chi_squared(Counter(((found * 2**53).long() % 256).tolist()), dict.fromkeys(range(256), 1 / 256), count)
    ordered, steps = found.sort().values, torch.arange(count + 1, dtype=torch.float64) / count
    distance = max(float((steps[1:] - ordered).max()), float((ordered - steps[:-1]).max()))
    assert distance * math.sqrt(count) < 1.95  # Kolmogorov–Smirnov, one in a thousand


@every_argument
@pytest.mark.parametrize("apart", [1, 2, 3, 8, 256, 4096])
def test_neighbors_are_independent(place: int, apart: int) -> None:
    found = along(place, 40_000)
    left, right = found[:-apart], found[apart:]
    pairs = (left * 16).long() * 16 + (right * 16).long()
    chi_squared(Counter(pairs.tolist()), dict.fromkeys(range(256), 1 / 256), len(left))
    correlation = float(torch.corrcoef(torch.stack([left, right]))[0, 1])
    assert abs(correlation) * math.sqrt(len(left)) < 4


@pytest.mark.parametrize("one", range(4), ids=ARGUMENTS)
@pytest.mark.parametrize("other", range(4), ids=ARGUMENTS)
def test_arguments_do_not_stand_in_for_each_other(one: int, other: int) -> None:
    """Neither exchanging two arguments nor adding to one what is taken from another gives a number again."""
    if one >= other:
        return
    arguments = torch.full((4, 300, 300), 7)
    arguments[one], arguments[other] = torch.arange(300)[:, None], torch.arange(300)
    assert len(uniforms(*arguments).unique()) == 300 * 300


@every_argument
def test_every_bit_matters(place: int) -> None:
    """Turning one bit of an argument over turns half of the bits of the number over."""
    arguments = [torch.randint(0, 2**31, (64, 31), generator=torch.Generator().manual_seed(place)) for _ in range(4)]
    before = (uniforms(*arguments) * 2**53).long()
    arguments[place] = arguments[place] ^ (1 << torch.arange(31))
    changed = before ^ (uniforms(*arguments) * 2**53).long()
    shares = ((changed[..., None] >> torch.arange(53)) & 1).double()
    assert float(shares.mean()) == pytest.approx(0.5, abs=0.008)
    assert float((shares.mean(0) - 0.5).abs().max()) < 5 * 0.5 / math.sqrt(64)
    assert float((shares.mean((0, 1)) - 0.5).abs().max()) < 5 * 0.5 / math.sqrt(64 * 31)


# Devices


@every_filter
def test_nothing_depends_on_values_but_values(filters: SamplingFilter) -> None:
    """On the meta device there are none: whatever waits for one, or makes a shape of one, fails there."""
    rows = torch.zeros(5, dtype=torch.int64, device="meta")
    assert draw(filters(torch.zeros(5, 11, device="meta")), uniforms(1, rows, rows, rows)).shape == (5,)


with_gpu = [pytest.mark.gpu, pytest.mark.skipif(not torch.cuda.is_available(), reason="no CUDA device")]


class TestOnAGpu:
    pytestmark = with_gpu

    def test_the_same_numbers(self) -> None:
        generator = torch.Generator().manual_seed(8)
        arguments = [torch.randint(-(2**62), 2**62, (100_003,), generator=generator) for _ in range(4)]
        assert torch.equal(uniforms(*[one.cuda() for one in arguments]).cpu(), uniforms(*arguments))
        rows = torch.arange(1000)
        assert torch.equal(uniforms(-5, rows.cuda(), rows.cuda(), rows.cuda()).cpu(), uniforms(-5, rows, rows, rows))

    @every_filter
    @pytest.mark.parametrize("size", [31, 32_003])
    def test_the_same_tokens(self, filters: SamplingFilter, size: int) -> None:
        scores = torch.randn(300, size, generator=torch.Generator().manual_seed(9)) * 3
        scores[:, ::7] = FORBIDDEN
        here, there = filters(scores), filters(scores.cuda())
        assert float((here.isfinite() != there.cpu().isfinite()).double().mean()) < 1e-5
        found = draw(here, many(300)), draw(there, many(300).cuda()).cpu()
        assert int((found[0] != found[1]).sum()) <= 1
        edges = torch.tensor([0.0, 0.99999994, 1.0]).repeat(100).cuda()
        assert there.gather(1, draw(there, edges)[:, None]).isfinite().all()

    @every_filter
    def test_recorded(self, filters: SamplingFilter) -> None:
        scores = torch.randn(70, 1009, generator=torch.Generator().manual_seed(10)).cuda()
        rows, step, zero = torch.arange(70).cuda(), torch.zeros((), dtype=torch.int64).cuda(), torch.tensor(0).cuda()

        def run() -> Tensor:
            return draw(filters(scores), uniforms(6, rows, zero, step))

        expected = []
        for number in range(3):
            step.fill_(number)
            expected.append(run().tolist())
        graph = torch.cuda.CUDAGraph()
        torch.cuda.synchronize()
        with torch.cuda.graph(graph):
            said = run()
        for number in range(3):
            step.fill_(number)
            graph.replay()
            assert said.tolist() == expected[number]


@pytest.mark.parametrize("size", [300, 9000])
def test_rounding_hardly_ever_changes_a_draw(size: int) -> None:
    """Logits that differ by the rounding of another batch size: a few draws in a hundred thousand differ."""
    random = torch.Generator().manual_seed(size)
    logits_1V = torch.randn(1, size, generator=random)
    rounding_1V = 2e-6 * (2 * torch.rand(1, size, generator=random) - 1)
    uniform_R = torch.rand(2000, generator=random, dtype=torch.float64)
    tokens = [draw(scores_1V.expand(2000, -1), uniform_R) for scores_1V in (logits_1V, logits_1V + rounding_1V)]
    assert int((tokens[0] != tokens[1]).sum()) <= 1
