"""Cells against scalars in plain Python, fresh weights, and a cell that PyTorch does not have."""

from __future__ import annotations

import math

import pytest
import torch
from torch import Tensor

from oracles.recurrent import cell as slow_cell
from weft.models.build import build_model
from weft.models.recurrent import LSTM, Cell, LayerState, RecurrentStack, layer_weights
from weft.ragged import Ragged
from weft.recipe import ModelSettings, RecurrentSettings
from weft.recipe.choices import CELLS, resolve


@pytest.mark.parametrize("kind", CELLS)
def test_a_cell_is_its_equation(kind: str) -> None:
    torch.manual_seed(1)
    rows, size, cell = 3, 5, resolve(CELLS, kind)
    input_BG, state_BG = torch.randn(2, rows, cell.gates * size, dtype=torch.float64)
    state = tuple(torch.randn(rows, size, dtype=torch.float64) for _ in range(cell.state_parts))
    new_state = cell.step(input_BG, state_BG, state)
    if cell.sums_gates:
        zeros_BG = torch.zeros_like(state_BG)
        torch.testing.assert_close(cell.step(input_BG + state_BG, zeros_BG, state), new_state)
    for row in range(rows):
        row_state = tuple(part[row].tolist() for part in state)
        expected = slow_cell(kind, input_BG[row].tolist(), state_BG[row].tolist(), row_state)
        for part, numbers in zip(new_state, expected, strict=True):
            torch.testing.assert_close(part[row], torch.tensor(numbers, dtype=torch.float64))


def test_the_gradient_of_the_lstm() -> None:
    torch.manual_seed(8)
    input_BG, state_BG = (torch.randn(3, 20, dtype=torch.float64, requires_grad=True) for _ in range(2))
    h, c = (torch.randn(3, 5, dtype=torch.float64, requires_grad=True) for _ in range(2))
    torch.autograd.gradcheck(lambda x, y, cell: LSTM.step(x, y, (h, cell)), (input_BG, state_BG, c))


@pytest.mark.parametrize("bidirectional", [False, True], ids=["one-way", "both-ways"])
@pytest.mark.parametrize("kind", CELLS)
def test_fresh_weights(kind: str, bidirectional: bool) -> None:
    """Orthogonal recurrence gate by gate, zero biases, and an LSTM whose forget gate is open."""
    settings = RecurrentSettings(kind=kind, hidden=14 if bidirectional else 7, layers=2)
    stack = RecurrentStack(settings, inputs=5, bidirectional=bidirectional)
    for layer in stack.layers:
        for direction in range(stack.directions):
            weights = layer_weights(layer, direction)
            for gate in weights.state_GD.split(7):
                torch.testing.assert_close(gate @ gate.t(), torch.eye(7), rtol=0, atol=1e-5)
            assert not weights.state_bias_G.any()
            bias_G = weights.input_bias_G.detach().clone()
            if kind == "lstm":
                assert torch.equal(bias_G[7:14], torch.ones(7))
                bias_G[7:14] = 0
            assert not bias_G.any()


class MinimalGated(Cell):
    """f = σ(W x + U h);  n = tanh(W x + f ⊙ (U h));  h_t = (1 − f) ⊙ h_{t−1} + f ⊙ n   Zhou et al. 2016."""

    gates = 2

    @staticmethod
    def step(input_BG: Tensor, state_BG: Tensor, state: LayerState) -> LayerState:
        (forget_x, new_x), (forget_h, new_h) = input_BG.chunk(2, -1), state_BG.chunk(2, -1)
        forget = torch.sigmoid(forget_x + forget_h)
        return (torch.lerp(state[0], torch.tanh(new_x + forget * new_h), forget),)


class TestACellThatPyTorchDoesNotHave:
    """One class and one line in the table."""

    @pytest.fixture(autouse=True)
    def table_line(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setitem(CELLS, "minimal", f"{__name__}:MinimalGated")

    def test_whole_sequences_are_its_equation(self) -> None:
        torch.manual_seed(2)
        stack = RecurrentStack(RecurrentSettings(kind="minimal", hidden=3), inputs=2).double()
        batch = Ragged.of([[0] * 4, [0] * 2]).like(torch.randn(6, 2, dtype=torch.float64))
        weights = stack.weights(0)
        outputs, [(final_BD,)] = stack(batch)
        for row, (inputs_TD, outputs_TD) in enumerate(zip(batch.split(), outputs.split(), strict=True)):
            state = [0.0] * 3
            for x, output in zip(inputs_TD, outputs_TD, strict=True):
                from_x = (weights.input_GD @ x).tolist()
                from_h = (weights.state_GD @ torch.tensor(state, dtype=torch.float64)).tolist()
                forget = [1 / (1 + math.exp(-from_x[i] - from_h[i])) for i in range(3)]
                new = [math.tanh(from_x[3 + i] + forget[i] * from_h[3 + i]) for i in range(3)]
                state = [(1 - forget[i]) * state[i] + forget[i] * new[i] for i in range(3)]
                torch.testing.assert_close(output, torch.tensor(state, dtype=torch.float64))
            torch.testing.assert_close(final_BD[row], torch.tensor(state, dtype=torch.float64))

    @pytest.mark.parametrize("placement", ["before", "after"])
    def test_in_an_encoder_and_a_decoder(self, placement: str) -> None:
        stack = {"kind": "minimal", "hidden": 6, "layers": 2}
        tree = {
            "embedding": 5,
            "dropout": 0.0,
            "encoder": stack,
            "decoder": stack,
            "attention": {"placement": placement},
        }
        settings = ModelSettings.model_validate(tree)
        model = build_model(settings, source_size=11, target_size=7).double()
        source, inputs = Ragged.of([[3, 4, 5], [6]]), Ragged.of([[1, 3], [1, 4]])
        logits_NV = model(source, inputs).logits_NV
        logits_NV.sum().backward()
        assert all(parameter.grad is not None for parameter in model.parameters())
        memory = model.encode(source)
        state = model.start(memory)
        for time in range(2):
            logits_RV, state, _ = model.step(inputs.to_padded()[:, time], state, memory)
            torch.testing.assert_close(logits_RV, inputs.like(logits_NV).to_padded()[:, time])
