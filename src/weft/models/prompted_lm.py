"""Language models with prompts: source and target as one text, of which only the target is learned.

    inputs of a row:   <s> x_1 … x_m y_1 … y_{n−1}
    states returned:   those after x_m, y_1, …, y_{n−1}, from which y_1 … y_n are predicted

So the loss is that of the target alone, and the model reads in training what it reads when it continues a prompt.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import torch
from torch import Tensor

from weft.models.interface import Model, StepOutput
from weft.ragged import Layout, Ragged


def prepend_prompts(source: Ragged, inputs: Ragged) -> tuple[Ragged, Tensor]:
    """Each row's source after the first of its inputs; and the indices (N,) of the states of the inputs."""
    prompts, targets = source.layout, inputs.layout
    layout = Layout(source.lengths + inputs.lengths, inputs.device)
    starts = layout.device_offsets.to(torch.int64)
    indices_N = starts[targets.row_ids] + prompts.device_lengths[targets.row_ids] + targets.positions
    values = inputs.values.new_empty(layout.total)
    values[starts[prompts.row_ids] + 1 + prompts.positions] = source.values
    values[torch.where(targets.positions == 0, starts[targets.row_ids], indices_N)] = inputs.values
    return Ragged(values, layout), indices_N


class PromptMemory(NamedTuple):
    """A language model that has read its prompts except for their last tokens."""

    memory: Any
    """The memory of the model."""
    state: Any
    last_B: Tensor


class PromptState(NamedTuple):
    """The state of a hypothesis."""

    state: Any
    """The state of the model."""
    started_R: Tensor
    """Whether a step was taken. The first step reads the last token of the prompt instead of the begin symbol."""


class PromptedLM:
    """A language model after prompts of one length, for search: its hypotheses are the continuations alone."""

    def __init__(self, model: Model, begin: int) -> None:
        self.model = model
        self.begin = begin

    def encode(self, prompts_BM: Tensor) -> PromptMemory:
        """Read ``<s> x_1 … x_{m−1}``."""
        rows = len(prompts_BM)
        empty = Layout(torch.zeros(rows, dtype=torch.int64), prompts_BM.device)
        memory = self.model.encode(Ragged(prompts_BM.new_zeros(0), empty))
        state = self.model.start(memory)
        begin_B1 = prompts_BM.new_full((rows, 1), self.begin)
        for tokens_B in torch.cat([begin_B1, prompts_BM[:, :-1]], 1).unbind(1):
            _, state, _ = self.model.step(tokens_B, state, memory)
        return PromptMemory(memory, state, prompts_BM[:, -1])

    def start(self, memory: PromptMemory) -> PromptState:
        return PromptState(memory.state, torch.zeros_like(memory.last_B, dtype=torch.bool))

    def step(self, tokens_R: Tensor, state: PromptState, memory: PromptMemory) -> StepOutput:
        last_R = memory.last_B.repeat_interleave(len(tokens_R) // len(memory.last_B))
        tokens_R = torch.where(state.started_R, tokens_R, last_R)
        output = self.model.step(tokens_R, state.state, memory.memory)
        return StepOutput(output.logits_RV, PromptState(output.state, torch.ones_like(state.started_R)), None)
