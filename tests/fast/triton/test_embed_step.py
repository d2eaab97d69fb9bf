"""Embeddings with positions in one kernel, against the stack's own."""

from __future__ import annotations

import pytest
import torch

from weft.models.build import build_model
from weft.recipe import make_recipe

pytestmark = [pytest.mark.gpu, pytest.mark.skipif(not torch.cuda.is_available(), reason="no CUDA device")]


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
@torch.no_grad()
def test_the_same_stream(dtype: torch.dtype) -> None:
    from weft.fast.triton.embed_step import embed_step

    sizes = ["kind=transformer", "layers=1", "hidden=48", "heads=2"]
    changes = [f"model.{side}.{setting}" for side in ("encoder", "decoder") for setting in sizes]
    model = build_model(make_recipe({}, [*changes, "model.embedding=48"]).model, source_size=7, target_size=7)
    stack = model.to("cuda", dtype).eval().decoder.stack
    embedded_RD = torch.randn(5, 48, device="cuda", dtype=dtype)
    for length in (0, 3, 11):
        length_1 = torch.full((1,), length, device="cuda")
        table_PD = stack.positions.table(10)
        stream_RD, longer_1 = embed_step(embedded_RD, table_PD, length_1, longest=10, scale=stack.embedding_scale)
        expected = stack.embed(embedded_RD, length_1.clamp(max=9).expand(5), 10)
        torch.testing.assert_close(stream_RD, expected, rtol=2e-2 if dtype == torch.bfloat16 else 1e-5, atol=1e-5)
        assert longer_1.tolist() == [length + 1]
