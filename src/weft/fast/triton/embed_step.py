"""The input of a Transformer stack in a search step on CUDA: scaled embeddings plus the position, in one kernel.

Plain counterpart: `weft.models.transformer.TransformerStack.embed` for sinusoidal positions, of rows that all have the
same position. Tested in tests/fast/triton/test_embed_step.py.
"""

import torch
import triton
import triton.language as tl
from torch import Tensor

from weft.fast.triton.dependent_launch import launch_options, wait_for_inputs


@triton.jit
def _embed_step(  # type: ignore[no-untyped-def]
    embedded, table, length, stream, new_length, longest, width, scale, tile: tl.constexpr, overlaps: tl.constexpr
):
    row = tl.program_id(0)
    d = tl.arange(0, tile)
    inside = d < width
    wait_for_inputs(overlaps)
    tokens = tl.load(length)
    x = tl.load(embedded + row * width + d, mask=inside, other=0.0)
    position = tl.load(table + tl.minimum(tokens, longest - 1) * width + d, mask=inside, other=0.0).to(x.dtype)
    scaled = (x.to(tl.float32) * scale).to(x.dtype)
    tl.store(stream + row * width + d, (scaled.to(tl.float32) + position.to(tl.float32)).to(x.dtype), mask=inside)
    tl.store(new_length, tokens + 1, mask=row == 0)


def embed_step(
    embedded_RD: Tensor, table_PD: Tensor, length_1: Tensor, *, longest: int, scale: float
) -> tuple[Tensor, Tensor]:
    """√d E[y] + PE(min(length, longest − 1)) for every row, and the length after this step."""
    rows, width = embedded_RD.shape
    assert embedded_RD.is_contiguous() and table_PD.is_contiguous()
    stream_RD, longer_1 = torch.empty_like(embedded_RD), torch.empty_like(length_1)
    _embed_step[(rows,)](
        embedded_RD, table_PD, length_1, stream_RD, longer_1, longest, width, scale,
        tile=triton.next_power_of_2(width), num_warps=2, **launch_options(embedded_RD.device),
    )  # fmt: skip
    return stream_RD, longer_1
