"""Recurrent layers in their faster versions against the plain loop over steps: values and gradients."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from torch import Tensor, nn

from weft.models.recurrent import LSTM, RecurrentStack
from weft.ragged import FixedLayout, Layout, Ragged
from weft.recipe import RecurrentSettings
from weft.recipe.choices import CELLS
from weft.runtime.replaceable import fast_versions, plain_only

INPUTS, LENGTHS = 5, [3, 1, 7, 2]
FORWARD = "models.recurrent.RecurrentStack.forward"


def make(kind: str, *, bidirectional: bool = True, **settings: Any) -> RecurrentStack:
    """Two layers in double precision whose biases are not zero."""
    torch.manual_seed(4)
    stack = RecurrentStack(
        RecurrentSettings(kind=kind, hidden=6, layers=2, **settings), inputs=INPUTS, bidirectional=bidirectional
    )
    for name, parameter in stack.named_parameters():
        if "bias" in name:
            nn.init.normal_(parameter)
    return stack.double()


def run(stack: RecurrentStack, layout: Layout, device: str = "cpu") -> tuple[Any, ...]:
    """Outputs and last states, and the gradients of all weights, of the input and of the initial state; of the rows
    with tokens."""
    torch.manual_seed(5)
    rows = len(LENGTHS)
    values_ND = torch.randn(sum(LENGTHS), INPUTS, dtype=torch.float64, device=device, requires_grad=True)
    initial = tuple(
        tuple(
            torch.randn(rows, 6, dtype=torch.float64, device=device, requires_grad=True)
            for _ in range(stack.cell.state_parts)
        )
        for _ in stack.layers
    )
    missing = layout.rows - rows
    padded = tuple(tuple(torch.cat([part, part.new_zeros(missing, 6)]) for part in state) for state in initial)
    outputs, finals = stack(Ragged(values_ND, layout), padded)
    tensors = [outputs.values, *(part[:rows] for state in finals for part in state)]
    total = torch.stack([(tensor * _factors(tensor)).sum() for tensor in tensors]).sum()
    leaves = [*stack.parameters(), values_ND, *(part for state in initial for part in state)]
    return tensors, torch.autograd.grad(total, leaves)


def _factors(tensor: Tensor) -> Tensor:
    return torch.linspace(-1, 2, tensor.numel(), dtype=tensor.dtype, device=tensor.device).view(tensor.shape)


@pytest.mark.parametrize("bidirectional", [False, True], ids=["one-way", "both-ways"])
@pytest.mark.parametrize("kind", CELLS)
def test_whole_sequences(kind: str, bidirectional: bool) -> None:
    stack, layout = make(kind, bidirectional=bidirectional), Layout(torch.tensor(LENGTHS))
    batch = Ragged(torch.zeros(layout.total, INPUTS), layout)
    chosen = [version.fast for version in fast_versions(FORWARD) if version.applies(stack, batch)]
    assert chosen[0] == ("layers.recurrent:lstm" if kind == "lstm" else "layers.recurrent:deferred")
    with plain_only():
        expected = run(stack, layout)
    torch.testing.assert_close(run(stack, layout), expected)


@pytest.mark.parametrize("connections", ["plain", "residual", "dense"])
@pytest.mark.parametrize("kind", CELLS)
def test_the_layout_of_recorded_updates(kind: str, connections: str) -> None:
    """Two rows and two steps more than the batch needs."""
    stack = make(kind, connections=connections)
    layout = FixedLayout(torch.tensor([*LENGTHS, 0, 0]), longest=max(LENGTHS) + 2)
    with plain_only():
        expected, plain = run(stack, Layout(torch.tensor(LENGTHS))), run(stack, layout)
    torch.testing.assert_close(plain, expected)
    torch.testing.assert_close(run(stack, layout), expected)


@pytest.mark.gpu
@pytest.mark.parametrize("bidirectional", [False, True], ids=["one-way", "both-ways"])
@pytest.mark.parametrize("kind", CELLS)
def test_cudnn(kind: str, bidirectional: bool) -> None:
    stack = make(kind, bidirectional=bidirectional).cuda()
    layout = Layout(torch.tensor(LENGTHS), "cuda")
    with plain_only():
        expected = run(stack, layout, "cuda")
    torch.testing.assert_close(run(stack, layout, "cuda"), expected)


@pytest.mark.gpu
def test_the_fused_cell() -> None:
    torch.manual_seed(6)
    input_BG, state_BG = torch.randn(2, 3, 20, device="cuda")
    state = (torch.randn(3, 5, device="cuda"), torch.randn(3, 5, device="cuda"))
    with plain_only():
        expected = LSTM.step(input_BG, state_BG, state)
    torch.testing.assert_close(tuple(LSTM.step(input_BG, state_BG, state)), expected)
