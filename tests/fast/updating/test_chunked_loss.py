"""Losses and log-probabilities in chunks equal the plain ones of the output layer's logits, in value and gradients."""

from __future__ import annotations

import pytest
import torch
from torch import Tensor
from torch.nn import functional

from weft.attention.normalizers import entmax15
from weft.fast.updating import chunked_loss
from weft.fast.updating.chunked_loss import _roots, has_chunked_loss, output_loss, vocabulary_log_probabilities
from weft.models import copying
from weft.models.layers import Entmax15Output, Output
from weft.training import loss as plain_loss
from weft.training.loss import IGNORE_INDEX, cross_entropy, entmax15_loss

VOCABULARY, WIDTH = 7, 5
OUTPUTS = {"cross_entropy": Output, "entmax15": Entmax15Output}
outputs = pytest.mark.parametrize("kind", OUTPUTS)
smoothings = pytest.mark.parametrize("smoothing", [0.0, 0.1])
chunks = pytest.mark.parametrize("rows", [1, 3, 100], ids=["row by row", "in threes", "at once"])


def given(kind: str = "cross_entropy") -> tuple[Output, Tensor, Tensor]:
    torch.manual_seed(3)
    output = OUTPUTS[kind](VOCABULARY, WIDTH).double()
    states_ND = (2 * torch.randn(11, WIDTH, dtype=torch.float64)).requires_grad_()
    return output, states_ND, torch.randint(VOCABULARY, (11,))


@pytest.fixture
def _chunk_rows(monkeypatch: pytest.MonkeyPatch, rows: int) -> None:
    for limits in (chunked_loss.CHUNK_LOGITS, chunked_loss.CHUNK_SCORES):
        monkeypatch.setitem(limits, "cpu", rows * VOCABULARY)


@outputs
@smoothings
@chunks
@pytest.mark.usefixtures("_chunk_rows")
def test_loss(kind: str, smoothing: float) -> None:
    output, states_ND, targets_N = given(kind)
    plain = plain_loss.output_loss.plain(output, states_ND, targets_N, smoothing=smoothing)  # type: ignore[attr-defined]
    chunked = output_loss(output, states_ND, targets_N, smoothing=smoothing)
    torch.testing.assert_close(chunked, plain)
    assert not chunked.negative_log_likelihood.requires_grad
    inputs = [states_ND, *output.parameters()]
    expected = torch.autograd.grad(plain.smoothed * 0.3, inputs)
    torch.testing.assert_close(torch.autograd.grad(chunked.smoothed * 0.3, inputs), expected)


def test_it_is_the_one_that_runs(monkeypatch: pytest.MonkeyPatch) -> None:
    output, states_ND, targets_N = given()
    monkeypatch.setattr(plain_loss, "cross_entropy", None)
    plain_loss.output_loss(output, states_ND, targets_N, smoothing=0.1)


@outputs
def test_targets_to_ignore_have_neither_loss_nor_gradient(kind: str) -> None:
    output, states_ND, targets_N = given(kind)
    counted = torch.ones(len(targets_N), dtype=torch.bool)
    counted[[2, 5]] = False
    ignored_N = targets_N.masked_fill(~counted, IGNORE_INDEX)
    assert has_chunked_loss(output, states_ND, ignored_N, smoothing=0.1) == (kind == "entmax15")
    ignoring = plain_loss.output_loss(output, states_ND, ignored_N, smoothing=0.1).smoothed
    without = plain_loss.output_loss(output, states_ND[counted], targets_N[counted], smoothing=0.1).smoothed
    torch.testing.assert_close(ignoring, without)
    inputs = [states_ND, *output.parameters()]
    torch.testing.assert_close(torch.autograd.grad(ignoring, inputs), torch.autograd.grad(without, inputs))


@smoothings
def test_low_precision_states_are_summed_in_single_precision(smoothing: float) -> None:
    torch.manual_seed(3)
    output, targets_N = Output(VOCABULARY, WIDTH), torch.randint(VOCABULARY, (200,))
    states_ND = torch.randn(200, WIDTH).bfloat16()
    chunked = output_loss(output, states_ND, targets_N, smoothing=smoothing)
    logits_NV = functional.linear(states_ND, output.weight_VD.bfloat16(), output.bias_V.bfloat16())
    torch.testing.assert_close(chunked, cross_entropy(logits_NV, targets_N, smoothing=smoothing))


def test_low_precision_scores_of_entmax_are_summed_in_single_precision() -> None:
    output, states_ND, targets_N = given("entmax15")
    output, states_ND = output.bfloat16(), states_ND.bfloat16()
    chunked = output_loss(output, states_ND, targets_N, smoothing=0.0).smoothed
    plain = entmax15_loss(output.scores(states_ND), targets_N).smoothed
    torch.testing.assert_close(chunked.float(), plain, rtol=0.01, atol=0)


@pytest.mark.parametrize("vocabulary", [1, 2, 30, 1000])
@pytest.mark.parametrize("spread", [0.0, 0.01, 0.3, 1.0, 4.0, 30.0])
def test_newtons_threshold_is_that_of_sorting(vocabulary: int, spread: float) -> None:
    torch.manual_seed(vocabulary)
    normal_CV = torch.randn(40, vocabulary, dtype=torch.float64) * spread
    ramp_CV = torch.linspace(0, -spread, vocabulary, dtype=torch.float64)[None]
    heavy_CV = -torch.rand(40, vocabulary, dtype=torch.float64).log() * spread
    for scores_CV in (normal_CV, ramp_CV, heavy_CV, -heavy_CV, normal_CV + 1e3):
        roots_CV = _roots((scores_CV - scores_CV.amax(-1, keepdim=True)) * 0.5)
        torch.testing.assert_close(roots_CV.square(), entmax15(scores_CV), atol=1e-10, rtol=0)


@pytest.mark.parametrize("mean", [False, True])
@chunks
@pytest.mark.usefixtures("_chunk_rows")
def test_log_probabilities(mean: bool) -> None:
    """Every target and every mean with its own gradient."""
    output, states_ND, targets_N = given()
    probe_N, mean_probe_N = torch.randn(11), torch.randn(11)
    sums = []
    for function in (copying.vocabulary_log_probabilities.plain, vocabulary_log_probabilities):  # type: ignore[attr-defined]
        log_p_N, mean_N = function(output, states_ND, targets_N, mean=mean)
        assert (mean_N is not None) == mean
        sums.append((log_p_N * probe_N).sum() + ((mean_N * mean_probe_N).sum() if mean else 0.0))
    torch.testing.assert_close(*sums)
    inputs = [states_ND, *output.parameters()]
    torch.testing.assert_close(*(torch.autograd.grad(value, inputs) for value in sums))


def test_low_precision_log_probabilities_are_in_single_precision() -> None:
    torch.manual_seed(3)
    output, targets_N = Output(VOCABULARY, WIDTH), torch.randint(VOCABULARY, (20,))
    states_ND = torch.randn(20, WIDTH).bfloat16().requires_grad_()
    log_p_N, _ = copying.vocabulary_log_probabilities(output, states_ND, targets_N, mean=False)
    logits_NV = functional.linear(states_ND, output.weight_VD.bfloat16(), output.bias_V.bfloat16())
    assert log_p_N.dtype == torch.float32
    torch.testing.assert_close(log_p_N, logits_NV.float().log_softmax(-1).gather(1, targets_N[:, None])[:, 0])
    log_p_N.sum().backward()
    assert states_ND.grad is not None and states_ND.grad.dtype == torch.bfloat16
    assert output.weight_VD.grad is not None and output.weight_VD.grad.dtype == torch.float32
