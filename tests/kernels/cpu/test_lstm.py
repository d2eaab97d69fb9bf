"""The written-out LSTM against the equations, one row and one step at a time, with autograd's gradients."""

from __future__ import annotations

import pytest
import torch
from torch import Tensor

from weft.kernels.cpu.lstm import lstm_layer, lstm_step

COUNTS = [5, 5, 3, 2, 2, 1]
ROWS, SIZE, TOKENS = 5, 3, sum(COUNTS)


def tensors() -> list[Tensor]:
    """W x_t + b of all tokens, U, and a first state and memory."""
    torch.manual_seed(7)
    shapes = ((TOKENS, 4 * SIZE), (4 * SIZE, SIZE), (ROWS, SIZE), (ROWS, SIZE))
    return [torch.randn(*shape, dtype=torch.float64, requires_grad=True) for shape in shapes]


def equations(gates_G: Tensor, memory_D: Tensor) -> tuple[Tensor, Tensor]:
    enter, forget, new, out = gates_G.chunk(4, -1)
    next_D = torch.sigmoid(forget) * memory_D + torch.sigmoid(enter) * torch.tanh(new)
    return torch.sigmoid(out) * torch.tanh(next_D), next_D


def slow_layer(
    of_input_NG: Tensor, weight_GD: Tensor, start_BD: Tensor, memory_BD: Tensor, *, reverse: bool
) -> list[Tensor]:
    begins = [sum(COUNTS[:time]) for time in range(len(COUNTS))]
    outputs: dict[int, Tensor] = {}
    finals = []
    for row in range(ROWS):
        state_D, memory_D = start_BD[row], memory_BD[row]
        times = [time for time, count in enumerate(COUNTS) if row < count]
        for time in reversed(times) if reverse else times:
            token = begins[time] + row
            state_D, memory_D = equations(of_input_NG[token] + weight_GD @ state_D, memory_D)
            outputs[token] = state_D
        finals.append((state_D, memory_D))
    return [
        torch.stack([outputs[token] for token in range(TOKENS)]),
        *(torch.stack(part) for part in zip(*finals, strict=True)),
    ]


def weighted(parts: list[Tensor] | tuple[Tensor, ...]) -> Tensor:
    """A number that every output has its own share in."""
    return torch.stack(
        [
            (part * torch.arange(1.0, part.numel() + 1).view(part.shape)).sum() * place
            for place, part in enumerate(parts, 1)
        ]
    ).sum()


@pytest.mark.parametrize("reverse", [False, True], ids=["forward", "backward"])
def test_a_layer_is_its_equations(reverse: bool) -> None:
    given = tensors()
    expected = slow_layer(*given, reverse=reverse)
    found = lstm_layer(*given, counts=COUNTS, reverse=reverse)
    torch.testing.assert_close(list(found), expected)
    torch.testing.assert_close(
        torch.autograd.grad(weighted(found), given), torch.autograd.grad(weighted(expected), given)
    )


def test_gradcheck() -> None:
    given = tensors()
    torch.autograd.gradcheck(lambda *parts: lstm_layer(*parts, counts=COUNTS, reverse=True), given)
    torch.autograd.gradcheck(lstm_step, (given[0][:ROWS], given[3]))


def test_a_layer_leaves_what_it_was_given() -> None:
    given = tensors()
    before = [one.detach().clone() for one in given]
    lstm_layer(*given, counts=COUNTS, reverse=False)[0].sum().backward()
    torch.testing.assert_close([one.detach() for one in given], before)
