"""A language model behind a prompt: source and target as one text, of which only the target is learned.

    inputs of a row:   <s> x_1 … x_m y_1 … y_{n−1}
    states returned:   those after x_m, y_1, …, y_{n−1}: what y_1 … y_n are predicted from

So the loss is of the answer alone, and what the model reads is what it reads when it goes on from a prompt.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import torch
from torch import Tensor

from weft.models.interface import StepOutput
from weft.ragged import Layout, Ragged


def behind(source: Ragged, inputs: Ragged) -> tuple[Ragged, Tensor]:
    """Each row's source put behind the first of its inputs, and the places (N,) of the states of the inputs."""
    prompts, rest = source.layout, inputs.layout
    layout = Layout(source.lengths + inputs.lengths, inputs.device)
    begins = layout.device_offsets.to(torch.int64)
    places_N = begins[rest.row_ids] + prompts.device_lengths[rest.row_ids] + rest.positions
    values = inputs.values.new_empty(layout.total)
    values[begins[prompts.row_ids] + 1 + prompts.positions] = source.values
    values[torch.where(rest.positions == 0, begins[rest.row_ids], places_N)] = inputs.values
    return Ragged(values, layout), places_N


class Answers(NamedTuple):
    """A language model that has read all of its prompts but their last tokens."""

    inner: Any
    """The memory of the model."""
    state: Any
    last_B: Tensor


class Saying(NamedTuple):
    """What it has said so far."""

    inner: Any
    begun_R: Tensor
    """Whether it has taken a step: the first reads the prompt's last token in place of the begin mark."""


class PromptedLM:
    """A language model behind prompts of one length, as a search sees it: what it says is the answer alone."""

    def __init__(self, model: Any, begin: int) -> None:
        self.model = model
        self.begin = begin

    def encode(self, prompts_BM: Tensor) -> Answers:
        """Read ``<s> x_1 … x_{m−1}``."""
        rows = len(prompts_BM)
        empty = Layout(torch.zeros(rows, dtype=torch.int64), prompts_BM.device)
        memory = self.model.encode(Ragged(prompts_BM.new_zeros(0), empty))
        state = self.model.start(memory)
        begins_B1 = prompts_BM.new_full((rows, 1), self.begin)
        for tokens_B in torch.cat([begins_B1, prompts_BM[:, :-1]], 1).unbind(1):
            _, state, _ = self.model.step(tokens_B, state, memory)
        return Answers(memory, state, prompts_BM[:, -1])

    def start(self, memory: Answers) -> Saying:
        return Saying(memory.state, torch.zeros_like(memory.last_B, dtype=torch.bool))

    def step(self, tokens_R: Tensor, state: Saying, memory: Answers) -> StepOutput:
        last_R = memory.last_B.repeat_interleave(len(tokens_R) // len(memory.last_B))
        tokens_R = torch.where(state.begun_R, tokens_R, last_R)
        logits_RV, inner, _ = self.model.step(tokens_R, state.inner, memory.inner)
        return StepOutput(logits_RV, Saying(inner, torch.ones_like(state.begun_R)), None)
