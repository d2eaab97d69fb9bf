"""Recurrent stacks against scalars in plain Python, and against PyTorch's own multi-layer modules."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from torch import nn

from oracles.recurrent import CONNECTIONS, Parameters, SlowStack
from weft.models.recurrent import RecurrentStack, StackState
from weft.ragged import Ragged
from weft.recipe import RecurrentSettings
from weft.recipe.choices import CELLS, resolve

INPUTS, LENGTHS = 5, [3, 1, 7, 2]


def sequences(size: int = INPUTS, lengths: list[int] = LENGTHS) -> Ragged:
    torch.manual_seed(3)
    return Ragged.of([[0] * length for length in lengths]).like(torch.randn(sum(lengths), size, dtype=torch.float64))


def make(
    kind: str, *, inputs: int = INPUTS, bidirectional: bool = False, dropout: float = 0.0, **settings: Any
) -> RecurrentStack:
    """A stack in double precision whose biases are not zero."""
    torch.manual_seed(4)
    checked = RecurrentSettings(kind=kind, **settings)
    stack = RecurrentStack(checked, inputs=inputs, bidirectional=bidirectional, dropout=dropout).double()
    for name, parameter in stack.named_parameters():
        if "bias" in name:
            nn.init.normal_(parameter)
    return stack


def random_state(stack: RecurrentStack, rows: int) -> StackState:
    return tuple(
        tuple(torch.randn(rows, stack.hidden, dtype=torch.float64) for _ in range(stack.cell.state_parts))
        for _ in stack.layers
    )


@pytest.mark.parametrize(("inputs", "hidden"), [(5, 4), (6, 6)], ids=["narrower", "as-wide"])
@pytest.mark.parametrize("bidirectional", [False, True], ids=["one-way", "both-ways"])
@pytest.mark.parametrize("layers", [1, 3])
@pytest.mark.parametrize("connections", CONNECTIONS)
@pytest.mark.parametrize("kind", CELLS)
def test_a_stack_is_a_loop_over_layers_and_time(
    kind: str, connections: str, layers: int, bidirectional: bool, inputs: int, hidden: int
) -> None:
    stack = make(
        kind, inputs=inputs, hidden=hidden, layers=layers, connections=connections, bidirectional=bidirectional
    )
    batch = sequences(inputs)
    outputs, finals = stack(batch)
    slow = SlowStack(Parameters(stack), "", kind, connections, layers)
    for row, (xs, output_TD) in enumerate(zip(batch.split(), outputs.split(), strict=True)):
        expected, last = slow.read(xs.tolist(), bidirectional=bidirectional)
        torch.testing.assert_close(output_TD, torch.tensor(expected, dtype=torch.float64))
        for state, numbers in zip(finals, last, strict=True):
            for part, vector in zip(state, numbers, strict=True):
                torch.testing.assert_close(part[row], torch.tensor(vector, dtype=torch.float64))


@pytest.mark.parametrize("connections", CONNECTIONS)
def test_layer_norm_is_its_equation(connections: str) -> None:
    stack = make("gru", inputs=6, hidden=6, layers=2, connections=connections, layer_norm=True)
    torch.manual_seed(6)
    for norm in stack.norms:
        torch.nn.init.normal_(norm.weight)
        torch.nn.init.normal_(norm.bias)
    batch = sequences(6)
    slow = SlowStack(Parameters(stack), "", "gru", connections, 2, layer_norm=True)
    for xs, output_TD in zip(batch.split(), stack(batch)[0].split(), strict=True):
        expected, _ = slow.read(xs.tolist(), bidirectional=False)
        torch.testing.assert_close(output_TD, torch.tensor(expected, dtype=torch.float64))


@pytest.mark.parametrize("bidirectional", [False, True], ids=["one-way", "both-ways"])
@pytest.mark.parametrize("kind", CELLS)
def test_a_plain_stack_is_pytorchs(kind: str, bidirectional: bool) -> None:
    stack = make(kind, inputs=INPUTS, hidden=6, layers=3, bidirectional=bidirectional)
    peer = resolve(CELLS, kind).torch_layer(INPUTS, 3 if bidirectional else 6, 3, bidirectional=bidirectional).double()
    for level, layer in enumerate(stack.layers):
        for name, parameter in layer.named_parameters():
            getattr(peer, name.replace("_l0", f"_l{level}")).data.copy_(parameter)
    batch = sequences()
    outputs, finals = stack(batch)
    for row, (xs, output_TD) in enumerate(zip(batch.split(), outputs.split(), strict=True)):
        expected, last = peer(xs)
        torch.testing.assert_close(output_TD, expected)
        parts = last if isinstance(last, tuple) else (last,)
        for level, state in enumerate(finals):
            for part, vectors in zip(state, parts, strict=True):
                ways = vectors[2 * level : 2 * level + 2] if bidirectional else vectors[level : level + 1]
                torch.testing.assert_close(part[row], ways.flatten())


@pytest.mark.parametrize("layers", [1, 3])
@pytest.mark.parametrize("connections", CONNECTIONS)
@pytest.mark.parametrize("kind", CELLS)
def test_steps_give_what_whole_sequences_give(kind: str, connections: str, layers: int) -> None:
    stack = make(kind, inputs=INPUTS, hidden=5, layers=layers, connections=connections)
    batch = sequences(lengths=[7, 7, 7])
    initial = random_state(stack, 3)
    outputs, finals = stack(batch, initial)
    state = initial
    for time in range(7):
        output_BD, state = stack.step(batch.to_padded()[:, time], state)
        torch.testing.assert_close(output_BD, outputs.to_padded()[:, time])
    torch.testing.assert_close(state, finals)


@pytest.mark.parametrize("kind", CELLS)
def test_each_row_starts_from_its_own_state(kind: str) -> None:
    stack = make(kind, inputs=INPUTS, hidden=7, layers=2)
    batch = sequences()
    initial = random_state(stack, batch.rows)
    outputs, finals = stack(batch, initial)
    for row in range(batch.rows):
        alone, last = stack(
            batch.select(torch.tensor([row])), tuple(tuple(part[row : row + 1] for part in s) for s in initial)
        )
        torch.testing.assert_close(alone.values, outputs.split()[row])
        for one, other in zip(last, finals, strict=True):
            torch.testing.assert_close(tuple(part[0] for part in one), tuple(part[row] for part in other))


@pytest.mark.parametrize("kind", CELLS)
def test_zeros_are_the_state_before_anything_was_read(kind: str) -> None:
    stack = make(kind, inputs=INPUTS, hidden=7, layers=2)
    batch = sequences()
    zeros = stack.zeros(batch.rows, batch.values)
    assert len(zeros) == 2 and all(len(state) == resolve(CELLS, kind).state_parts for state in zeros)
    torch.testing.assert_close(stack(batch, zeros)[0].values, stack(batch)[0].values)


def test_dropout_stands_between_layers_only() -> None:
    one, three = (make("gru", inputs=INPUTS, hidden=7, layers=layers, dropout=0.5) for layers in (1, 3))
    batch = sequences()
    assert torch.equal(one(batch)[0].values, one(batch)[0].values)
    assert not torch.equal(three(batch)[0].values, three(batch)[0].values)
    three.eval()
    assert torch.equal(three(batch)[0].values, three(batch)[0].values)
