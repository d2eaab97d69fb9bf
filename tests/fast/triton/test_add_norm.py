"""x + f and its norm in one kernel against PyTorch's."""

from __future__ import annotations

import pytest
import torch
from torch import nn

from weft.fast.steps.cached_transformer import add_and_normalize

pytestmark = [pytest.mark.gpu, pytest.mark.skipif(not torch.cuda.is_available(), reason="no CUDA device")]


@pytest.mark.parametrize("width", [13, 512, 1200])
@pytest.mark.parametrize("kind", [nn.LayerNorm, nn.RMSNorm])
def test_equals_add_and_norm(kind: type[nn.LayerNorm] | type[nn.RMSNorm], width: int) -> None:
    torch.manual_seed(1)
    norm = kind(width, eps=1e-5)
    for parameter in norm.parameters():
        nn.init.normal_(parameter)
    stream_ND, output_ND = torch.randn(7, width), torch.randn(7, width)
    with torch.no_grad():
        expected = add_and_normalize(norm, stream_ND, output_ND)
        fused = add_and_normalize(norm.cuda(), stream_ND.cuda(), output_ND.cuda())
    for part, plain in zip(fused, expected, strict=True):
        torch.testing.assert_close(part.cpu(), plain, rtol=1e-4, atol=1e-4)
