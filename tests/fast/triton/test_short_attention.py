"""The kernel for short rows by itself. Its gradients and options: tests/fast/layers/test_varlen_attention.py."""

from __future__ import annotations

import pytest
import torch

pytestmark = [pytest.mark.gpu, pytest.mark.skipif(not torch.cuda.is_available(), reason="no CUDA device")]


@pytest.mark.parametrize("width", [16, 32, 64, 128])
def test_with_and_without_gradients(width: int) -> None:
    """Equal to the equation, for every head width that it supports."""
    from weft.fast.layers.varlen_attention import HEAD_WIDTHS
    from weft.fast.triton.short_attention import forward_only, short_attention, trained_attention

    assert width in HEAD_WIDTHS
    torch.manual_seed(1)
    queries_NHD, keys_NHD, values_NHD = (torch.randn(7, 2, width, device="cuda").bfloat16() for _ in range(3))
    offsets = torch.tensor([0, 3, 7], dtype=torch.int32, device="cuda")
    expected = []
    for rows in (slice(0, 3), slice(3, 7)):
        scores_HTS = torch.einsum("thd,shd->hts", queries_NHD[rows].float(), keys_NHD[rows].float()) / width**0.5
        expected.append(torch.einsum("hts,shd->thd", scores_HTS.softmax(-1), values_NHD[rows].float()))
    for attend in (forward_only, short_attention, trained_attention):
        outputs_NHD = attend(queries_NHD, keys_NHD, values_NHD, offsets, offsets, 4, 4, False)
        torch.testing.assert_close(outputs_NHD.float(), torch.cat(expected), rtol=2e-2, atol=2e-2)
