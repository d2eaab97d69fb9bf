"""log p of targets in chunks equals that of the output layer's logits, in value and gradients."""

from __future__ import annotations

import pytest
import torch

from weft.kernels import chunked_cross_entropy
from weft.kernels.chunked_target_log_probabilities import chunked_target_log_probabilities
from weft.models.layers import Output

VOCABULARY, WIDTH = 7, 5


@pytest.mark.parametrize("mean", [False, True])
@pytest.mark.parametrize("rows", [1, 3, 100], ids=["row by row", "in threes", "at once"])
def test_value_and_gradients(monkeypatch: pytest.MonkeyPatch, rows: int, mean: bool) -> None:
    """Every target and every mean with a gradient of its own."""
    torch.manual_seed(3)
    monkeypatch.setitem(chunked_cross_entropy.CHUNK_LOGITS, "cpu", rows * VOCABULARY)
    output = Output(VOCABULARY, WIDTH).double()
    states_ND = torch.randn(11, WIDTH, dtype=torch.float64, requires_grad=True)
    targets_N, probe_N, mean_probe_N = torch.randint(VOCABULARY, (11,)), torch.randn(11), torch.randn(11)
    log_NV = output(states_ND).log_softmax(-1)
    expected_N = log_NV.gather(1, targets_N[:, None])[:, 0]
    found_N, mean_N = chunked_target_log_probabilities(states_ND, output.weight_VD, output.bias_V, targets_N, mean=mean)
    torch.testing.assert_close(found_N, expected_N)
    expected, found = (expected_N * probe_N).sum(), (found_N * probe_N).sum()
    if mean:
        assert mean_N is not None
        torch.testing.assert_close(mean_N, log_NV.mean(-1))
        expected, found = expected + (log_NV.mean(-1) * mean_probe_N).sum(), found + (mean_N * mean_probe_N).sum()
    else:
        assert mean_N is None
    inputs = [states_ND, *output.parameters()]
    torch.testing.assert_close(torch.autograd.grad(found, inputs), torch.autograd.grad(expected, inputs))


def test_low_precision_states_are_summed_in_single_precision() -> None:
    torch.manual_seed(3)
    output, targets_N = Output(VOCABULARY, WIDTH), torch.randint(VOCABULARY, (20,))
    states_ND = torch.randn(20, WIDTH).bfloat16().requires_grad_()
    log_p_N, _ = chunked_target_log_probabilities(states_ND, output.weight_VD, output.bias_V, targets_N, mean=False)
    logits_NV = torch.nn.functional.linear(states_ND, output.weight_VD.bfloat16(), output.bias_V.bfloat16())
    assert log_p_N.dtype == torch.float32
    torch.testing.assert_close(log_p_N, logits_NV.float().log_softmax(-1).gather(1, targets_N[:, None])[:, 0])
    log_p_N.sum().backward()
    assert states_ND.grad is not None and states_ND.grad.dtype == torch.bfloat16
    assert output.weight_VD.grad is not None and output.weight_VD.grad.dtype == torch.float32
