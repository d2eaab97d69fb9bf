"""A model that has read some tokens before a search begins, such as the language tag before every output.

Hypotheses, scores and lengths are then those of the output alone.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from weft.search.interface import StepModel
from weft.tree import Tree, leaves


@dataclass(frozen=True)
class StartedModel:
    """A model with a forced decoder prefix: its initial state is that after the given tokens."""

    model: StepModel
    tokens: tuple[int, ...]

    def start(self, memory: Any) -> Tree:
        state: Any = self.model.start(memory)
        first = next(leaves(state))
        for token in self.tokens:
            tokens_B = torch.full((len(first),), token, device=first.device)
            _, state, _ = self.model.step(tokens_B, state, memory)
        return state

    def step(self, tokens_R: Tensor, state: Any, memory: Any) -> tuple[Tensor, Any, Tensor | None]:
        return self.model.step(tokens_R, state, memory)
