"""Few prompts read by one CUDA graph: launching the kernels takes longer than they do.

A graph belongs to a number of prompts and a length. Prompts are padded on the right to a multiple of 32 tokens, which
changes nothing for the tokens before; a shape is recorded when it occurs for the second time. Plain counterpart:
`PrefixLM.read_prompts`; tests/fast/recording/test_prompts.py compares them.

All prompts on a GPU are read together, and padded, so that the steps of a search have few shapes. Equal to
`weft.models.prompted_lm.read_prompts` up to rounding, and to `PromptedLM.encode`, whose memory may be padded;
tests/fast/recording/test_prompts_read_at_once.py.
"""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor
from torch.nn import functional

from weft.attention.multihead import KeysValues
from weft.fast.recording.compilation import is_rehearsing
from weft.fast.recording.encoder import MAX_GRAPHS, MAX_ROWS
from weft.fast.recording.recorder import RecordedFunction, Recorder
from weft.fast.steps.kv_cache import LENGTH_MULTIPLE
from weft.models.interface import Model, ReadsPrompts
from weft.models.prefix_lm import PrefixLM, PrefixMemory, PrefixState
from weft.models.prompted_lm import PromptedLM, PromptMemory, rectangle
from weft.runtime.replaceable import plain_of


class PromptGraph:
    """One recorded shape with its buffers."""

    def __init__(self, model: PrefixLM, tokens_BT: Tensor, memory: PrefixMemory, recorder: Recorder[Any]) -> None:
        self.tokens_BT = tokens_BT.clone()
        tokens = rectangle(self.tokens_BT)  # whose values are the same memory
        self.reading = RecordedFunction(lambda: model.read_prompts(tokens, memory).layers, recorder)

    def replay(self, tokens_BT: Tensor, length: int) -> PrefixState:
        """The state after the first ``length`` tokens of these prompts, in new tensors."""
        self.tokens_BT.copy_(tokens_BT)
        layers = self.reading.replay()
        return PrefixState(tuple(KeysValues(*(part[:, :, :length].clone() for part in layer)) for layer in layers))


class PromptGraphs(Recorder[PromptGraph]):
    """The graphs of one Transformer language model on one GPU."""

    def __init__(self, model: PrefixLM) -> None:
        super().__init__(MAX_GRAPHS)
        self.model = model

    @torch.no_grad()
    def read(self, tokens_BT: Tensor, memory: PrefixMemory) -> PrefixState:
        """The state after prompts of one length."""
        rows, length = tokens_BT.shape
        missing = -length % LENGTH_MULTIPLE
        shape, limit = (rows, length + missing), self.model.stack.max_positions
        is_long = limit is not None and length + missing > limit
        if rows > MAX_ROWS or is_long or is_rehearsing() or self.is_new(shape):
            return self.model.read_prompts(rectangle(tokens_BT), memory)
        padded_BT = functional.pad(tokens_BT, (0, missing))
        with self.lock:
            graph = self.graph(shape, lambda: PromptGraph(self.model, padded_BT, memory, self))
            return graph.replay(padded_BT, length)


def has_many_shapes(self: PromptedLM, prompts_BM: Tensor) -> bool:
    return prompts_BM.is_cuda


def encode_padded(self: PromptedLM, prompts_BM: Tensor) -> PromptMemory:
    """Encode prompts padded on the right to a multiple of `LENGTH_MULTIPLE`."""
    memory: PromptMemory = plain_of(PromptedLM.encode)(self, prompts_BM)
    return memory._replace(prompts_BM=functional.pad(prompts_BM, (0, -prompts_BM.shape[1] % LENGTH_MULTIPLE)))


def reads_at_once(model: Model, tokens_BM: Tensor, memory: Any) -> bool:
    return tokens_BM.is_cuda and isinstance(model, ReadsPrompts)


def read_prompts(model: Model, tokens_BM: Tensor, memory: Any) -> Any:
    """The state after tokens, by one pass over all of them."""
    assert isinstance(model, ReadsPrompts)
    return model.read_prompts(rectangle(tokens_BM), memory)
