"""The written-out LSTM against the equations, one row and one step at a time, with autograd's gradients."""

from __future__ import annotations

import pytest
import torch
from torch import Tensor

from weft.fast.cpu.lstm import lstm_layer

BATCH_SIZES = [5, 5, 3, 2, 2, 1]
ROWS, SIZE, TOKENS = 5, 3, sum(BATCH_SIZES)


def tensors() -> list[Tensor]:
    """W x_t + b of all tokens, U, and an initial state and cell."""
    torch.manual_seed(7)
    shapes = ((TOKENS, 4 * SIZE), (4 * SIZE, SIZE), (ROWS, SIZE), (ROWS, SIZE))
    return [torch.randn(*shape, dtype=torch.float64, requires_grad=True) for shape in shapes]


def equations(gates_G: Tensor, cell_D: Tensor) -> tuple[Tensor, Tensor]:
    i, f, g, o = gates_G.chunk(4, -1)
    next_cell_D = torch.sigmoid(f) * cell_D + torch.sigmoid(i) * torch.tanh(g)
    return torch.sigmoid(o) * torch.tanh(next_cell_D), next_cell_D


def slow_layer(
    input_NG: Tensor, weight_GD: Tensor, state_BD: Tensor, cell_BD: Tensor, *, reverse: bool
) -> list[Tensor]:
    begins = [sum(BATCH_SIZES[:time]) for time in range(len(BATCH_SIZES))]
    outputs: dict[int, Tensor] = {}
    finals = []
    for row in range(ROWS):
        state_D, cell_D = state_BD[row], cell_BD[row]
        times = [time for time, count in enumerate(BATCH_SIZES) if row < count]
        for time in reversed(times) if reverse else times:
            token = begins[time] + row
            state_D, cell_D = equations(input_NG[token] + weight_GD @ state_D, cell_D)
            outputs[token] = state_D
        finals.append((state_D, cell_D))
    return [
        torch.stack([outputs[token] for token in range(TOKENS)]),
        *(torch.stack(part) for part in zip(*finals, strict=True)),
    ]


def weighted(parts: list[Tensor] | tuple[Tensor, ...]) -> Tensor:
    """A number that every output has its own share in."""
    return torch.stack(
        [
            (part * torch.arange(1.0, part.numel() + 1).view(part.shape)).sum() * factor
            for factor, part in enumerate(parts, 1)
        ]
    ).sum()


@pytest.mark.parametrize("reverse", [False, True], ids=["forward", "backward"])
def test_a_layer_is_its_equations(reverse: bool) -> None:
    arguments = tensors()
    expected = slow_layer(*arguments, reverse=reverse)
    result = lstm_layer(*arguments, batch_sizes=BATCH_SIZES, reverse=reverse)
    torch.testing.assert_close(list(result), expected)
    torch.testing.assert_close(
        torch.autograd.grad(weighted(result), arguments), torch.autograd.grad(weighted(expected), arguments)
    )


def test_gradcheck() -> None:
    arguments = tensors()
    torch.autograd.gradcheck(lambda *parts: lstm_layer(*parts, batch_sizes=BATCH_SIZES, reverse=True), arguments)


def test_a_layer_leaves_what_it_was_given() -> None:
    arguments = tensors()
    before = [one.detach().clone() for one in arguments]
    lstm_layer(*arguments, batch_sizes=BATCH_SIZES, reverse=False)[0].sum().backward()
    torch.testing.assert_close([one.detach() for one in arguments], before)
