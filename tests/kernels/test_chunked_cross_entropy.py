"""The chunked loss equals `cross_entropy` of the output layer's logits, in value and gradients."""

from __future__ import annotations

import pytest
import torch
from torch.nn import functional

from weft.kernels import chunked_cross_entropy
from weft.models.layers import Output
from weft.training.loss import cross_entropy, output_cross_entropy

VOCABULARY, WIDTH = 7, 5
smoothings = pytest.mark.parametrize("smoothing", [0.0, 0.1])


@smoothings
def test_low_precision_states_are_summed_in_single_precision(smoothing: float) -> None:
    torch.manual_seed(3)
    output, targets_N = Output(VOCABULARY, WIDTH), torch.randint(VOCABULARY, (200,))
    states_ND = torch.randn(200, WIDTH).bfloat16()
    chunked = output_cross_entropy(output, states_ND, targets_N, smoothing=smoothing)
    logits_NV = functional.linear(states_ND, output.weight_VD.bfloat16(), output.bias_V.bfloat16())
    plain = cross_entropy(logits_NV, targets_N, smoothing=smoothing)
    torch.testing.assert_close(chunked.negative_log_likelihood, plain.negative_log_likelihood)
    torch.testing.assert_close(chunked.smoothed, plain.smoothed)


@smoothings
@pytest.mark.parametrize("rows", [1, 3, 100], ids=["row by row", "in threes", "at once"])
def test_value_and_gradients(monkeypatch: pytest.MonkeyPatch, rows: int, smoothing: float) -> None:
    torch.manual_seed(3)
    monkeypatch.setitem(chunked_cross_entropy.CHUNK_LOGITS, "cpu", rows * VOCABULARY)
    output = Output(VOCABULARY, WIDTH).double()
    states_ND = torch.randn(11, WIDTH, dtype=torch.float64, requires_grad=True)
    targets_N = torch.randint(VOCABULARY, (11,))
    plain = cross_entropy(output(states_ND), targets_N, smoothing=smoothing)
    chunked = output_cross_entropy(output, states_ND, targets_N, smoothing=smoothing)
    torch.testing.assert_close(chunked.smoothed, plain.smoothed)
    torch.testing.assert_close(chunked.negative_log_likelihood, plain.negative_log_likelihood)
    inputs = [states_ND, *output.parameters()]
    expected = torch.autograd.grad(plain.smoothed * 0.3, inputs)
    torch.testing.assert_close(torch.autograd.grad(chunked.smoothed * 0.3, inputs), expected)
