"""Prompts of a language model on a GPU: read in parallel, and padded, so that the steps of a search have few shapes.

Equal to `weft.models.prompted_lm.read_prompts` up to rounding, and to `PromptedLM.encode`, whose memory may be padded;
tests/fast/steps/test_prompts.py.
"""

from __future__ import annotations

from typing import Any

from torch import Tensor
from torch.nn import functional

from weft.fast.steps.kv_cache import LENGTH_MULTIPLE
from weft.models.interface import Model, ReadsPrompts
from weft.models.prompted_lm import PromptedLM, PromptMemory, rectangle
from weft.runtime.replaceable import plain_of


def has_many_shapes(self: PromptedLM, prompts_BM: Tensor) -> bool:
    return prompts_BM.is_cuda


def encode_padded(self: PromptedLM, prompts_BM: Tensor) -> PromptMemory:
    """With prompts padded on the right to a multiple of `LENGTH_MULTIPLE`."""
    memory: PromptMemory = plain_of(PromptedLM.encode)(self, prompts_BM)
    return memory._replace(prompts_BM=functional.pad(prompts_BM, (0, -prompts_BM.shape[1] % LENGTH_MULTIPLE)))


def reads_at_once(model: Model, tokens_BM: Tensor, memory: Any) -> bool:
    return tokens_BM.is_cuda and isinstance(model, ReadsPrompts)


def read_prompts(model: Model, tokens_BM: Tensor, memory: Any) -> Any:
    """The state after tokens, by one pass over all of them."""
    assert isinstance(model, ReadsPrompts)
    return model.read_prompts(rectangle(tokens_BM), memory)
