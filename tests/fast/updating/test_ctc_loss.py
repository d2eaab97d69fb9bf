"""PyTorch's CTC kernels against the plain recursion."""

import pytest
import torch

from weft.fast.updating.ctc_loss import has_kernel, label_losses_by_torch
from weft.ragged import Layout, Ragged
from weft.runtime.replaceable import plain_of
from weft.training.ctc import label_losses

DEVICES = ["cpu", pytest.param("cuda", marks=pytest.mark.gpu)]


@pytest.mark.parametrize("device", DEVICES)
def test_losses_and_gradients_equal_the_plain_ones(device):
    torch.manual_seed(1)
    lengths = torch.tensor([11, 7, 13, 5])
    labels = Ragged.of([[3, 3, 5], [], [2, 4, 2, 4, 4], [6]], device)
    logits = torch.randn(int(lengths.sum()), 7, dtype=torch.float64, device=device, requires_grad=True)
    results = []
    for function in (plain_of(label_losses), label_losses_by_torch):
        log_p = Ragged(logits.log_softmax(-1), Layout(lengths, device))
        assert has_kernel(log_p, labels, blank=1)
        losses = function(log_p, labels, blank=1)
        results.append((losses, *torch.autograd.grad((losses * torch.arange(1.0, 5, device=device)).sum(), logits)))
    assert torch.allclose(results[0][0], results[1][0], rtol=1e-9)
    assert torch.allclose(results[0][1], results[1][1], atol=1e-9)


def test_rows_without_frames_are_left_to_the_plain_function():
    log_p = Ragged(torch.zeros(3, 5), Layout(torch.tensor([3, 0])))
    assert not has_kernel(log_p, Ragged.of([[2], []]), blank=1)
