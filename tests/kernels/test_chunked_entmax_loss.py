"""The chunked loss equals `entmax15_loss` of the output layer's scores, in value and gradients."""

from __future__ import annotations

import pytest
import torch
from torch import Tensor

from weft.attention.normalizers import entmax15
from weft.kernels import chunked_entmax_loss
from weft.kernels.chunked_cross_entropy import IGNORE_INDEX
from weft.kernels.chunked_entmax_loss import _roots
from weft.models.sparse_output import Entmax15Output
from weft.training.loss import entmax15_loss, output_loss

VOCABULARY, WIDTH = 7, 5


def given(dtype: torch.dtype = torch.float64) -> tuple[Entmax15Output, Tensor, Tensor]:
    torch.manual_seed(3)
    output, targets_N = Entmax15Output(VOCABULARY, WIDTH).to(dtype), torch.randint(VOCABULARY, (11,))
    return output, (torch.randn(11, WIDTH) * 2).to(dtype).requires_grad_(), targets_N


@pytest.mark.parametrize("rows", [1, 3, 100], ids=["row by row", "in threes", "at once"])
def test_value_and_gradients(monkeypatch: pytest.MonkeyPatch, rows: int) -> None:
    monkeypatch.setitem(chunked_entmax_loss.CHUNK_SCORES, "cpu", rows * VOCABULARY)
    output, states_ND, targets_N = given()
    plain = entmax15_loss(output.scores(states_ND), targets_N)
    chunked = output_loss(output, states_ND, targets_N, smoothing=0.0)
    torch.testing.assert_close(chunked, plain)
    assert not chunked.negative_log_likelihood.requires_grad
    inputs = [states_ND, *output.parameters()]
    expected = torch.autograd.grad(plain.smoothed * 0.3, inputs)
    torch.testing.assert_close(torch.autograd.grad(chunked.smoothed * 0.3, inputs), expected)


def test_targets_to_ignore_have_neither_loss_nor_gradient() -> None:
    output, states_ND, targets_N = given()
    counted = torch.ones(len(targets_N), dtype=torch.bool)
    counted[[2, 5]] = False
    ignoring = output_loss(output, states_ND, targets_N.masked_fill(~counted, IGNORE_INDEX), smoothing=0.0).smoothed
    without = output_loss(output, states_ND[counted], targets_N[counted], smoothing=0.0).smoothed
    torch.testing.assert_close(ignoring, without)
    inputs = [states_ND, *output.parameters()]
    torch.testing.assert_close(torch.autograd.grad(ignoring, inputs), torch.autograd.grad(without, inputs))


def test_low_precision_states_are_summed_in_single_precision() -> None:
    output, states_ND, targets_N = given(torch.bfloat16)
    chunked = output_loss(output, states_ND, targets_N, smoothing=0.0).smoothed
    torch.testing.assert_close(
        chunked.float(), entmax15_loss(output.scores(states_ND), targets_N).smoothed, rtol=0.01, atol=0
    )


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
