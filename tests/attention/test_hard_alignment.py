"""Distributions over alignments: the forward algorithm against the sum over all alignments, one by one."""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import partial

import pytest
import torch
from torch import Tensor

from oracles import hard_attention as oracle
from weft.attention.hard_alignment import AlignmentSizes, First, HardAlignment, condition, first_position, logsumexp
from weft.attention.scores import Additive
from weft.recipe import AttentionSettings
from weft.recipe.choices import HARD_ALIGNMENTS, resolve

LENGTHS = [4, 2, 1, 3]
STEPS, QUERIES, STATES = 3, 5, 7
INFINITY = float("inf")
every_alignment = pytest.mark.parametrize("name", HARD_ALIGNMENTS)


def alignment_of(name: str, *, max_jump: int = 2) -> HardAlignment:
    torch.manual_seed(3)
    settings = AttentionSettings(hard=name, score="additive", size=11, max_jump=max_jump)
    kind: type[HardAlignment] = resolve(HARD_ALIGNMENTS, name)
    return kind(settings, AlignmentSizes(queries=QUERIES, states=STATES)).double()  # type: ignore[call-arg]


@pytest.mark.parametrize("name", ["zeroth", "monotonic"])
def test_the_score_is_that_of_the_settings(name: str) -> None:
    kind: type[HardAlignment] = resolve(HARD_ALIGNMENTS, name)
    for size, width in ((11, 11), (0, QUERIES)):
        alignment = kind(AttentionSettings(hard=name, score="additive", size=size), AlignmentSizes(QUERIES, STATES))  # type: ignore[call-arg]
        assert isinstance(alignment.score, Additive) and alignment.score.vector.shape == (width,)
    settings = AttentionSettings(hard=name, score="cosine", temperature=0.7)
    assert kind(settings, AlignmentSizes(QUERIES, QUERIES)).score.temperature == 0.7  # type: ignore[call-arg, union-attr]


@pytest.mark.parametrize(("size", "width"), [(11, 11), (0, QUERIES)])
def test_the_width_of_the_hidden_layer_of_jumps(size: int, width: int) -> None:
    alignment = First(AttentionSettings(hard="first", size=size, max_jump=6), AlignmentSizes(QUERIES, STATES))
    assert (alignment.jumps.in_features, alignment.jumps.out_features) == (width, 7)
    assert alignment.query_projection.weight.shape == (width, QUERIES)
    assert alignment.key_projection.weight.shape == (width, STATES)


def batch(scale: float = 1.0) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    """Queries, source states, padding, and log p(y_t | a_t = j)."""
    torch.manual_seed(4)
    shape = len(LENGTHS), max(LENGTHS)
    masked_BS = torch.arange(shape[1]) >= torch.tensor(LENGTHS)[:, None]
    queries_BTD = torch.randn(len(LENGTHS), STEPS, QUERIES, dtype=torch.float64) * scale
    states_BSD = torch.randn(*shape, STATES, dtype=torch.float64).masked_fill(masked_BS[..., None], 0.0) * scale
    emissions_BTS = -torch.rand(shape[0], STEPS, shape[1], dtype=torch.float64) * 5 * scale
    return queries_BTD, states_BSD, masked_BS, emissions_BTS


def transition_of(alignment: HardAlignment, queries_TD: Tensor, states_SD: Tensor) -> oracle.Transition:
    """p(a_t | a_{t−1}) of one source, by the definitions."""
    if isinstance(alignment, First):
        hidden_TSA = torch.tanh(
            alignment.query_projection(queries_TD)[:, None] + alignment.key_projection(states_SD)[None]
        )
        return oracle.first(alignment.jumps(hidden_TSA).tolist())
    score = alignment.score
    scores = score(queries_TD[None], score.project_keys(states_SD[None]))[0].tolist()
    return {"zeroth": oracle.zeroth, "monotonic": oracle.monotonic}[type(alignment).__name__.lower()](scores)


@every_alignment
@pytest.mark.parametrize("max_jump", [2, 9])
@torch.no_grad()
def test_all_alignments_are_summed(name: str, max_jump: int) -> None:
    alignment = alignment_of(name, max_jump=max_jump)
    queries_BTD, states_BSD, masked_BS, emissions_BTS = batch()
    transitions = alignment.transitions(queries_BTD, alignment.project(states_BSD), masked_BS)
    log_weights_BTS = alignment(transitions, emissions_BTS)
    log_p_BT = torch.logsumexp(log_weights_BTS + emissions_BTS, -1)
    for row, length in enumerate(LENGTHS):
        transition = transition_of(alignment, queries_BTD[row], states_BSD[row, :length])
        emissions = emissions_BTS[row, :, :length].exp().tolist()
        expected = [oracle.likelihood(transition, emissions, steps) for steps in range(1, STEPS + 1)]
        assert log_p_BT[row].cumsum(0).exp().tolist() == pytest.approx(expected, rel=1e-9)
        for step in range(STEPS):
            weights = oracle.weights(transition, emissions, step)
            assert log_weights_BTS[row, step, :length].exp().tolist() == pytest.approx(weights, rel=1e-9)
        assert (log_weights_BTS[row, :, length:] == -INFINITY).all()


@pytest.mark.parametrize("name", ["monotonic", "first"])
@torch.no_grad()
def test_an_alignment_never_goes_back(name: str) -> None:
    alignment = alignment_of(name)
    queries_BTD, states_BSD, masked_BS, _ = batch()
    transitions = [part[:1, 0] for part in alignment.transitions(queries_BTD, alignment.project(states_BSD), masked_BS)]
    for position in range(LENGTHS[0]):
        at_BS = torch.full((1, LENGTHS[0]), -INFINITY, dtype=torch.float64)
        at_BS[0, position] = 0.0
        weights = alignment.predict(at_BS, tuple(transitions)).exp()[0].tolist()
        assert math.fsum(weights) == pytest.approx(1.0)
        reach = range(position, min(position + 3, LENGTHS[0]) if name == "first" else LENGTHS[0])
        assert [j for j, weight in enumerate(weights) if weight > 0] == list(reach)


@every_alignment
@pytest.mark.parametrize("scale", [1.0, 30.0])
def test_gradients(name: str, scale: float) -> None:
    """Of log-likelihoods, of weights that are not zero, and with scores so large that most weights vanish."""
    alignment = alignment_of(name)
    queries_BTD, states_BSD, masked_BS, emissions_BTS = batch(scale)

    def outputs(queries_BTD: Tensor, states_BSD: Tensor, emissions_BTS: Tensor) -> tuple[Tensor, Tensor]:
        transitions = alignment.transitions(queries_BTD, alignment.project(states_BSD), masked_BS)
        log_weights_BTS = alignment(transitions, emissions_BTS)
        return logsumexp(log_weights_BTS + emissions_BTS, -1), log_weights_BTS.exp()

    inputs = [part.requires_grad_() for part in (queries_BTD, states_BSD, emissions_BTS)]
    torch.autograd.gradcheck(outputs, inputs, atol=1e-6, nondet_tol=0.0)


@every_alignment
def test_gradients_are_finite_in_single_precision(name: str) -> None:
    alignment = alignment_of(name).float()
    for scale in (1.0, 100.0, 3000.0):
        queries_BTD, states_BSD, masked_BS, emissions_BTS = batch(scale)
        leaves = [part.float().requires_grad_() for part in (queries_BTD, states_BSD, emissions_BTS)]
        transitions = alignment.transitions(leaves[0], alignment.project(leaves[1]), masked_BS)
        log_p_BT = logsumexp(alignment(transitions, leaves[2]) + leaves[2], -1)
        assert log_p_BT.isfinite().all()
        gradients = torch.autograd.grad(log_p_BT.sum(), [*leaves, *alignment.parameters()], allow_unused=True)
        assert all(gradient.isfinite().all() for gradient in gradients if gradient is not None)


@pytest.mark.parametrize("function", [logsumexp, torch.logsumexp])
def test_logsumexp(function: Callable[[Tensor, int], Tensor]) -> None:
    values = torch.tensor([[0.3, -INFINITY, 2.0], [-700.0, -800.0, -INFINITY]], dtype=torch.float64)
    expected = [math.log(math.exp(0.3) + math.exp(2.0)), -700.0 + math.log1p(math.exp(-100.0))]
    assert function(values, -1).tolist() == pytest.approx(expected, rel=1e-12)
    assert function(values.T, 0).tolist() == pytest.approx(expected, rel=1e-12)


def test_logsumexp_of_nothing_but_zeros() -> None:
    values = torch.tensor([[-INFINITY, -INFINITY], [1.0, -INFINITY]], requires_grad=True)
    sums = logsumexp(values, -1)
    assert sums.tolist() == [-INFINITY, 1.0]
    [gradient] = torch.autograd.grad(sums.masked_fill(sums == -INFINITY, 0.0).sum(), values)
    assert gradient.tolist() == [[0.0, 0.0], [1.0, 0.0]]
    torch.autograd.gradcheck(partial(logsumexp, dim=1), torch.randn(3, 4, dtype=torch.float64, requires_grad=True))


def test_a_token_changes_the_distribution_of_its_position() -> None:
    log_weights = torch.tensor([[0.5, 0.25, 0.25]]).log()
    filtered = condition(log_weights, torch.tensor([[0.1, 0.2, 0.8]]).log())
    assert filtered.exp()[0].tolist() == pytest.approx([0.05 / 0.3, 0.05 / 0.3, 0.2 / 0.3])
    start_BS = first_position(torch.zeros(2, 3))
    assert start_BS.tolist() == [[0.0, -INFINITY, -INFINITY]] * 2
    assert condition(start_BS, torch.tensor([[-9.0, -1.0, -2.0]] * 2)).tolist() == start_BS.tolist()
