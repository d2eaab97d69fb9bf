"""Language models with prompts: source and target as one text, of which only the target is learned.

    inputs of a row:   <s> x_1 … x_m y_1 … y_{n−1}
    states returned:   those after x_m, y_1, …, y_{n−1}, from which y_1 … y_n are predicted

So the loss is that of the target alone, and the model reads in training what it reads when it continues a prompt.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import torch
from torch import Tensor

from weft.attention.ragged_attention import join_layouts
from weft.models.interface import Model, StepOutput
from weft.ragged import Layout, Ragged
from weft.runtime.replaceable import replaceable


def prepend_prompts(source: Ragged, inputs: Ragged) -> tuple[Ragged, Tensor]:
    """Each row's source after the first of its inputs; and the indices (N,) of the states of the inputs."""
    prompts, targets = source.layout, inputs.layout
    layout = join_layouts(prompts, targets)
    starts = layout.device_offsets.to(torch.int64)
    indices_N = starts[targets.row_ids] + prompts.device_lengths[targets.row_ids] + targets.positions
    values = inputs.values.new_empty(layout.total)
    first_B = (targets.device_lengths > 0).to(torch.int64)  # rows that fill up a batch may have a prompt alone
    values[starts[prompts.row_ids] + first_B[prompts.row_ids] + prompts.positions] = source.values
    values[torch.where(targets.positions == 0, starts[targets.row_ids], indices_N)] = inputs.values
    return Ragged(values, layout), indices_N


def rectangle(tokens_BM: Tensor) -> Ragged:
    """Rows of one length."""
    rows, length = tokens_BM.shape
    return Ragged(tokens_BM.flatten(), Layout(torch.full((rows,), length), tokens_BM.device))


@replaceable
def read_prompts(model: Model, tokens_BM: Tensor, memory: Any) -> Any:
    """The state of a language model after tokens, read step by step."""
    state = model.start(memory)
    for tokens_B in tokens_BM.unbind(1):
        _, state, _ = model.step(tokens_B, state, memory)
    return state


class PromptMemory(NamedTuple):
    """The memory of a language model, and its prompts."""

    memory: Any
    """The memory of the model."""
    prompts_BM: Tensor
    """They may be padded on the right."""
    lengths_B: Tensor
    """Lengths of the prompts; all are equal."""


class PromptState(NamedTuple):
    """The state of a hypothesis."""

    state: Any
    """The state of the model, which has read the prompt except for its last token."""
    last_R: Tensor
    """The last token of the prompt."""
    started_R: Tensor
    """Whether the last token was read: the first step reads it in place of the begin token."""


@dataclass(frozen=True)
class PromptedLM:
    """A language model after prompts of one length, for search: its hypotheses are the continuations alone."""

    model: Model
    begin: int
    read: Callable[[Tensor, Any], Any] | None = field(default=None, compare=False)
    """Computes the state after prompts (B, M) in place of the model, such as recorded CUDA graphs."""

    @replaceable
    def encode(self, prompts_BM: Tensor) -> PromptMemory:
        """The memory of prompts ``x_1 … x_m``."""
        rows, length = prompts_BM.shape
        empty = Layout(torch.zeros(rows, dtype=torch.int64), prompts_BM.device)
        memory = self.model.encode(Ragged(prompts_BM.new_zeros(0), empty))
        return PromptMemory(memory, prompts_BM, torch.full((rows,), length, device=prompts_BM.device))

    def start(self, memory: PromptMemory) -> PromptState:
        """The state after ``<s> x_1 … x_{m−1}``."""
        prompts_BM = memory.prompts_BM[:, : int(memory.lengths_B[0])]
        begin_B1 = prompts_BM.new_full((len(prompts_BM), 1), self.begin)
        tokens_BM = torch.cat([begin_B1, prompts_BM[:, :-1]], 1)
        if self.read is not None:
            state = self.read(tokens_BM, memory.memory)
        else:
            state = read_prompts(self.model, tokens_BM, memory.memory)
        last_B = prompts_BM[:, -1]
        return PromptState(state, last_B, torch.zeros_like(last_B, dtype=torch.bool))

    def step(self, tokens_R: Tensor, state: PromptState, memory: PromptMemory) -> StepOutput:
        tokens_R = torch.where(state.started_R, tokens_R, state.last_R)
        output = self.model.step(tokens_R, state.state, memory.memory)
        after = PromptState(output.state, state.last_R, torch.ones_like(state.started_R))
        return StepOutput(output.logits_RV, after, None)
