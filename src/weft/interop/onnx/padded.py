"""Attention, positions and recurrence over padded batches, as a graph with dynamic shapes can express them."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor, nn
from torch.nn import functional

from weft.attention.normalizers import Normalizer, softmax
from weft.attention.records import AttentionRecorder
from weft.kernels.varlen_attention import repeat_heads
from weft.models.cells import LSTM, LayerState
from weft.models.positions import Learned, Sinusoidal

if TYPE_CHECKING:
    from weft.models.recurrent import RecurrentStack, StackState

POSITIONS = 4096
"""Positions of a table of sinusoids in a graph."""


class PositionTable(nn.Module):
    """Absolute positions as one table of fixed size, in place of one that grows."""

    def __init__(self, positions: Sinusoidal | Learned) -> None:
        super().__init__()
        if isinstance(positions, Learned):
            table_PD = positions.weight_PD.detach()
        else:
            table_PD = positions.table.make(POSITIONS).float()
        self.register_buffer("table_PD", table_PD)
        self.table_PD: Tensor

    def forward(self, positions_N: Tensor, longest: int) -> Tensor:
        return functional.embedding(positions_N, self.table_PD)


class PlainLSTM(LSTM):
    """The equations of an LSTM without a kernel."""

    @staticmethod
    def step(input_BG: Tensor, state_BG: Tensor | None, state: LayerState) -> LayerState:
        gates_BG = input_BG if state_BG is None else input_BG + state_BG
        enter_BD, forget_BD, new_BD, leave_BD = gates_BG.chunk(4, -1)
        cell_BD = torch.sigmoid(forget_BD) * state[1] + torch.sigmoid(enter_BD) * torch.tanh(new_BD)
        return torch.sigmoid(leave_BD) * torch.tanh(cell_BD), cell_BD


class PaddedAttention:
    """Every query attends to all keys of its row that are no padding: an `AttentionPattern` without `Layout`."""

    def __init__(self, mask_BS: Tensor, bias: Tensor | None) -> None:
        """``mask_BS``: additive, −∞ at padding; ``bias``: added to the scores, (1, H, T, S)."""
        self.mask_BS = mask_BS
        self.bias = bias

    def attend(
        self,
        queries_NHD: Tensor,
        keys_NHD: Tensor,
        values_NHD: Tensor,
        *,
        dropout: float = 0.0,
        normalize: Normalizer = softmax,
        recorder: AttentionRecorder | None = None,
    ) -> Tensor:
        """See `AttentionPattern`."""
        rows, longest = self.mask_BS.shape
        heads, width = queries_NHD.shape[1:]
        keys_NHD, values_NHD = (repeat_heads(part, queries_NHD) for part in (keys_NHD, values_NHD))
        queries_BHTD, keys_BHSD, values_BHSD = (
            part.view(rows, longest, heads, width).transpose(1, 2) for part in (queries_NHD, keys_NHD, values_NHD)
        )
        scores_BHTS = queries_BHTD @ keys_BHSD.transpose(2, 3) / math.sqrt(width)
        scores_BHTS = scores_BHTS + self.mask_BS[:, None, None]
        if self.bias is not None:
            scores_BHTS = scores_BHTS + self.bias
        outputs_BHTD = normalize(scores_BHTS) @ values_BHSD
        return outputs_BHTD.transpose(1, 2).reshape(rows * longest, heads, width)


def run_stack(stack: RecurrentStack, inputs_BSD: Tensor, tokens_BS: Tensor) -> tuple[Tensor, StackState]:
    """`RecurrentStack.forward` over a padded batch: the outputs of the top layer, and the last state of every layer.

    ``tokens_BS``: True at a token. At padding a state stays as it is.
    """
    finals: list[LayerState] = []
    for level in range(len(stack.layers)):
        results = [
            _run_direction(stack, inputs_BSD, tokens_BS, level=level, direction=direction)
            for direction in range(stack.directions)
        ]
        outputs, directions = zip(*results, strict=True)
        finals.append(tuple(torch.cat(parts, -1) for parts in zip(*directions, strict=True)))
        inputs_BSD = stack.layer_output(level, inputs_BSD, torch.cat(outputs, -1))
    return inputs_BSD, tuple(finals)


def _run_direction(
    stack: RecurrentStack, inputs_BSD: Tensor, tokens_BS: Tensor, *, level: int, direction: int
) -> tuple[Tensor, LayerState]:
    """One layer in one direction; the backward one reads the batch from its end, where the padding is."""
    weights, cell = stack.weights(level, direction), stack.cell
    gates_SBG = functional.linear(inputs_BSD, weights.input_GD, weights.input_bias_G).transpose(0, 1)
    tokens_SB1 = tokens_BS.transpose(0, 1)[..., None]
    if direction:
        gates_SBG, tokens_SB1 = gates_SBG.flip(0), tokens_SB1.flip(0)

    def step(state: LayerState, inputs: tuple[Tensor, Tensor]) -> tuple[LayerState, Tensor]:
        input_BG, token_B1 = inputs
        state_BG = functional.linear(state[0], weights.state_GD, weights.state_bias_G)
        gates_BG = input_BG + state_BG if cell.sums_gates else input_BG
        new = cell.step(gates_BG, None if cell.sums_gates else state_BG, state)
        kept = tuple(torch.where(token_B1, after, before) for after, before in zip(new, state, strict=True))
        return kept, kept[0].clone()

    hidden = stack.hidden // stack.directions
    start = tuple(inputs_BSD.new_zeros(inputs_BSD.shape[0], hidden) for _ in range(cell.state_parts))
    final, outputs_SBD = _scan(step, start, (gates_SBG, tokens_SB1))
    outputs_SBD = outputs_SBD.flip(0) if direction else outputs_SBD
    return outputs_SBD.transpose(0, 1), final


def _scan(step: Any, state: LayerState, inputs: tuple[Tensor, Tensor]) -> tuple[LayerState, Tensor]:
    """The last state and all outputs of a loop over the first axis: a loop of the graph while one is exported."""
    if torch.compiler.is_exporting():
        from torch._higher_order_ops.scan import scan

        return scan(step, state, inputs)
    outputs = []
    for parts in zip(*inputs, strict=True):
        state, output = step(state, parts)
        outputs.append(output)
    return state, torch.stack(outputs)
