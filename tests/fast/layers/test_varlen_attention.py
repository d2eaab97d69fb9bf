"""Attention without padding on CUDA against the padded path."""

from __future__ import annotations

import pytest
import torch
from torch import Tensor

from weft.attention.ragged_attention import RaggedAttention, repeat_heads
from weft.fast.layers.varlen_attention import has_varlen_kernel
from weft.ragged import Layout

on_gpu = pytest.mark.skipif(not torch.cuda.is_available(), reason="no CUDA device")


def test_not_on_a_cpu() -> None:
    assert not has_varlen_kernel(torch.zeros(1, 1, 1, dtype=torch.bfloat16))


def test_heads_are_repeated_for_their_neighbors() -> None:
    values_NHD = torch.tensor([[[1.0], [2.0]]])
    assert repeat_heads(values_NHD, torch.zeros(1, 6, 1)).flatten().tolist() == [1, 1, 1, 2, 2, 2]
    assert repeat_heads(values_NHD, torch.zeros(1, 2, 1)) is values_NHD


def draw(lengths: list[int], heads: int, width: int, seed: int) -> tuple[Tensor, Layout]:
    generator = torch.Generator("cuda").manual_seed(seed)
    values = torch.randn(sum(lengths), heads, width, device="cuda", generator=generator)
    return values.bfloat16().requires_grad_(), Layout(torch.tensor(lengths), "cuda")


@pytest.mark.gpu
@on_gpu
@pytest.mark.parametrize("causal", [False, True])
@pytest.mark.parametrize("kv_heads", [1, 3, 6])
@pytest.mark.parametrize(
    "lengths",
    [
        ([5, 0, 17, 1], [5, 0, 17, 1]),
        ([3, 2, 31, 0], [40, 9, 128, 7]),
        ([4, 2], [0, 3]),
        ([100, 3, 66], [100, 3, 66]),
        ([60, 3], [60, 77]),
        ([n * 7 % 70 for n in range(150)], [n * 7 % 70 + n % 3 for n in range(150)]),
    ],
)
def test_short_rows(lengths: tuple[list[int], list[int]], kv_heads: int, causal: bool) -> None:
    """Our kernel in bf16 against padded attention in fp32, with gradients; the output of a row without keys is zero.

    The rows of a large batch are divided by their lengths.
    """
    if causal and any(queries > keys for queries, keys in zip(*lengths, strict=True)):
        pytest.skip("more queries than keys: the first queries have no position")
    queries_NHD, queries = draw(lengths[0], 6, 32, 1)
    (keys_NHD, keys), (values_NHD, _) = (draw(lengths[1], kv_heads, 32, seed) for seed in (2, 3))
    probe_NHD = torch.randn(queries_NHD.shape, device="cuda", generator=torch.Generator("cuda").manual_seed(4))
    without_keys = (keys.device_lengths == 0)[queries.row_ids]
    probe_NHD[without_keys] = 0.0
    results = []
    for dtype in (torch.bfloat16, torch.float32):
        tensors = [tensor.detach().to(dtype).requires_grad_() for tensor in (queries_NHD, keys_NHD, values_NHD)]
        outputs_NHD = RaggedAttention("cross", queries, keys, causal=causal).attend(*tensors)
        outputs_NHD = torch.where(without_keys[:, None, None], 0.0, outputs_NHD.float())
        results.append((outputs_NHD, torch.autograd.grad((outputs_NHD * probe_NHD).sum(), tensors)))
    (outputs_NHD, gradients), (expected_NHD, expected_gradients) = results
    torch.testing.assert_close(outputs_NHD, expected_NHD, rtol=2e-2, atol=2e-2)
    for gradient, expected in zip(gradients, expected_gradients, strict=True):
        torch.testing.assert_close(gradient.float(), expected.float(), rtol=3e-2, atol=5e-2)


@pytest.mark.gpu
@on_gpu
def test_long_rows_with_one_side_alone_have_no_gradient() -> None:
    """Rows that fill up a batch may have queries and no keys, or keys and no queries: neither contributes anything."""
    queries = Layout(torch.tensor([200, 0, 5, 30]), "cuda")
    keys = Layout(torch.tensor([0, 150, 7, 300]), "cuda")
    torch.manual_seed(1)
    layouts = (queries, keys, keys)
    tensors = [torch.randn(layout.total, 4, 64, device="cuda", dtype=torch.bfloat16) for layout in layouts]
    for tensor in tensors:
        tensor.requires_grad_()
    for size in (2**16, 2**18, 2**20, 2**22):  # so that uninitialized memory shows
        torch.full((size,), float("nan"), device="cuda")
    outputs_NHD = RaggedAttention("cross", queries, keys).attend(*tensors)
    outputs_NHD.float().square().sum().backward()
    assert not outputs_NHD[:200].any() and not tensors[0].grad[:200].any()
    assert not tensors[1].grad[:150].any() and not tensors[2].grad[:150].any()
    expected = []
    for row in (2, 3):
        rows = [slice(*layout.offsets[row : row + 2].tolist()) for layout in layouts]
        own = [tensor.detach().float()[indices] for tensor, indices in zip(tensors, rows, strict=True)]
        weights = torch.einsum("thd,shd->hts", own[0], own[1]).div(8).softmax(-1)
        expected.append(torch.einsum("hts,shd->thd", weights, own[2]))
    assert torch.allclose(outputs_NHD[200:].float(), torch.cat(expected), atol=0.02)
    assert all(bool(tensor.grad.isfinite().all()) for tensor in tensors)


@pytest.mark.gpu
@on_gpu
@pytest.mark.parametrize(
    ("width", "expected"), [(8, True), (64, True), (256, True), (6, False), (12, False), (264, False)]
)
def test_widths_of_heads(width: int, expected: bool) -> None:
    """Flash attention has no kernel for the others: they take the padded path."""
    lengths = Layout(torch.tensor([3, 200]), "cuda")
    values_NHD = torch.randn(203, 2, width, device="cuda", dtype=torch.bfloat16)
    assert has_varlen_kernel(values_NHD) == expected
    outputs_NHD = RaggedAttention("encoder", lengths, lengths).attend(values_NHD, values_NHD, values_NHD)
    assert outputs_NHD.isfinite().all()
