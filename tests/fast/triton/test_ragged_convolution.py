"""Convolutions over ragged pictures against PyTorch's, picture by picture."""

from __future__ import annotations

import pytest
import torch
from torch.nn import functional

pytestmark = [pytest.mark.gpu, pytest.mark.skipif(not torch.cuda.is_available(), reason="no CUDA device")]


@pytest.fixture(autouse=True)
def single_precision(monkeypatch: pytest.MonkeyPatch) -> None:
    """PyTorch's convolutions, too, keep all bits of single precision."""
    monkeypatch.setattr(torch.backends.cudnn, "allow_tf32", False)


SIZES = [(13, 17), (5, 3), (1, 1), (2, 29), (40, 67)]


def positions_of(picture_CHW: torch.Tensor) -> torch.Tensor:
    return picture_CHW.flatten(1).T


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
@pytest.mark.parametrize(
    ("inputs", "outputs", "kernel", "stride"),
    [(16, 48, (3, 3), (1, 1)), (32, 64, (3, 3), (2, 2)), (64, 128, (3, 3), (2, 1)), (48, 32, (1, 3), (1, 2))],
)
def test_the_convolutions_of_each_picture(
    inputs: int, outputs: int, kernel: tuple[int, int], stride: tuple[int, int], dtype: torch.dtype
) -> None:
    from weft.fast.layers.ragged_stem import make_grids
    from weft.fast.triton.ragged_convolution import Tables, convolution, neighbors

    generator = torch.Generator("cuda").manual_seed(inputs)

    def random(*shape: int) -> torch.Tensor:
        return torch.randn(*shape, generator=generator, device="cuda")

    after = [(-(-height // stride[0]), -(-width // stride[1])) for height, width in SIZES]
    grid, other = make_grids([after, SIZES], torch.device("cuda"))
    pictures = [random(inputs, *size).to(dtype) for size in SIZES]
    weight, bias = random(outputs, inputs, *kernel) / 10, random(outputs)
    residual_NO, upstream_NO = (random(grid.positions, outputs).to(dtype) for _ in range(2))
    x_NC = torch.cat([positions_of(picture) for picture in pictures])
    results = []
    for is_kernel in (False, True):
        leaves = [tensor.clone().requires_grad_() for tensor in (x_NC, weight, bias, residual_NO)]
        x, w, b, residual = leaves
        if is_kernel:
            tables = Tables(
                neighbors(grid, other, kernel, stride), neighbors(other, grid, kernel, stride, is_inverse=True)
            )
            y = convolution(x, w, b, tables, residual)
        else:
            parts = x.split([height * width for height, width in SIZES])
            padding = kernel[0] // 2, kernel[1] // 2
            y = residual + torch.cat(
                [
                    positions_of(functional.conv2d(part.T.view(1, inputs, *size).float(), w, b, stride, padding)[0])
                    for part, size in zip(parts, SIZES, strict=True)
                ]
            )
        y.backward(upstream_NO.to(y.dtype))
        results.append([y.float(), *(leaf.grad.float() for leaf in leaves)])  # type: ignore[union-attr]
    tolerance = 1e-4 if dtype == torch.float32 else 2e-2
    for plain, fast in zip(*results, strict=True):
        assert (fast - plain).norm() <= tolerance * plain.norm()


def test_one_table_for_both_directions_without_strides() -> None:
    """Without an inverse table, a convolution goes back over the same table, with its taps in the opposite order."""
    from weft.fast.layers.ragged_stem import make_grids
    from weft.fast.triton.ragged_convolution import Tables, convolution, neighbors

    (grid,) = make_grids([SIZES], torch.device("cuda"))
    table_TN = neighbors(grid, grid, (3, 3), (1, 1))
    inverse_TN = neighbors(grid, grid, (3, 3), (1, 1), is_inverse=True)
    assert torch.equal(inverse_TN.flip(0), table_TN)
    x_NC = torch.randn(grid.positions, 16, device="cuda", requires_grad=True)
    weight, bias = torch.randn(32, 16, 3, 3, device="cuda"), torch.randn(32, device="cuda")
    gradients = [
        torch.autograd.grad(convolution(x_NC, weight, bias, tables).square().sum(), x_NC)[0]
        for tables in (Tables(table_TN, None), Tables(table_TN, inverse_TN))
    ]
    ours, theirs = gradients
    assert (ours - theirs).norm() <= 1e-5 * theirs.norm()
