"""A model with edited attention. It is a `Model` itself, so it can be searched, scored and inspected like any other.

Its attentions are copies that share all parameters and have an `EditedNormalizer` each; the model that was given stays
as it is. Every step of a search has its own copies, since a row of weights is edited at one step alone.
"""

from __future__ import annotations

import copy
from dataclasses import replace
from functools import lru_cache
from typing import Any, NamedTuple, cast

import torch
from torch import Tensor, nn

from weft.attention.edits import AttentionEdits, EditedNormalizer
from weft.attention.ragged_attention import AttentionRecord, ReturnAttention
from weft.errors import SearchError, plural
from weft.models.architecture import Architecture, architecture_of
from weft.models.interface import (
    CopyProbabilities,
    HasCopyProbabilities,
    HasMaxTargetLength,
    Model,
    ModelOutput,
    StepOutput,
)
from weft.ragged import Ragged
from weft.tree import leaves

STEPS_KEPT = 4
"""Steps whose copies are kept: beams step once, inspections again."""


class EditedState(NamedTuple):
    """The state of a hypothesis."""

    state: Any
    """The state of the model."""
    steps_R: Tensor
    """Number of steps taken; the same for all rows."""


def edit_attention(model: Model, edits: AttentionEdits) -> Model:
    """The model with these edits; itself if there are none."""
    if not edits:
        return model
    check_editable(model, edits)
    edited = EditedCopyingModel if isinstance(model, HasCopyProbabilities) and not edits.rows else EditedModel
    return cast(Model, edited(model, edits))


def check_editable(model: Model, edits: AttentionEdits) -> None:
    """Fail if the model does not have the attention to be edited."""
    described = architecture_of(model)
    if described.members:
        raise SearchError("edits: this is an ensemble; edit the attention of one model at a time")
    if described.kind == "hard_attention":
        raise SearchError("edits: this model has hard attention (model.attention.hard), whose weights cannot be edited")
    roles = [attention.role for attention in described.attentions]
    if edits.of_source and not any(role.reads_source for role in roles):
        raise SearchError("edits: this model has no attention to a source")
    sizes = {(attention.role.kind, attention.role.layer): attention.heads for attention in described.attentions}
    for head in edits.heads_off:
        heads = max((sizes[role.kind, role.layer] for role in roles if role.includes(head)), default=0)
        if not 1 <= head.head <= heads:
            raise SearchError(f"heads_off: this model has no {head}; see its heads with `heads`")
    for row in edits.rows:
        readers = {role.layer: sizes[role.kind, role.layer] for role in roles if role.kind in ("cross", "prefix")}
        if row.layer is not None and row.layer - 1 not in readers:
            raise SearchError(f"attention: layer {row.layer}; this model has {plural(len(readers), 'layer')}")
        if row.head is not None and not 1 <= row.head <= max(readers.values()):
            raise SearchError(f"attention: head {row.head}; this model has {plural(max(readers.values()), 'head')}")


class EditedModel(nn.Module):
    """A model with edits; see `weft.models.interface.Model`."""

    def __init__(self, model: Model, edits: AttentionEdits) -> None:
        super().__init__()
        self.model = model
        self.edits = edits
        self._at = lru_cache(maxsize=STEPS_KEPT)(self._copy)
        self.train(model.training)

    def _copy(self, step: int | None) -> Model:
        """The model as it is at a step; None: at all steps of whole targets."""
        replaced: dict[int, nn.Module] = {}
        for attention in architecture_of(self.model).attentions:
            module = cast(nn.Module, self.model).get_submodule(attention.module)
            twin = copy.copy(module)
            twin.normalize = EditedNormalizer(module.normalize, self.edits, attention.role, step)  # type: ignore[assignment, arg-type]
            replaced[id(module)] = twin
        return cast(Model, _with_modules(cast(nn.Module, self.model), replaced))

    def architecture(self) -> Architecture:
        return replace(architecture_of(self.model).inside("model"), edited=True)

    def max_target_length(self, source_length: int) -> int | None:
        model = self.model
        return model.max_target_length(source_length) if isinstance(model, HasMaxTargetLength) else None

    def encode(self, source: Ragged) -> Any:
        self.edits.check_length(source.layout.longest)
        return self._at(None).encode(source)

    def start(self, memory: Any) -> EditedState:
        state = self.model.start(memory)
        first = next(leaves(state))
        return EditedState(state, torch.zeros(len(first), dtype=torch.int64, device=first.device))

    def step(self, tokens_R: Tensor, state: EditedState, memory: Any) -> StepOutput:
        step = int(state.steps_R[0]) if len(state.steps_R) else 0
        output = self._at(step).step(tokens_R, state.state, memory)
        return output._replace(state=EditedState(output.state, state.steps_R + 1))

    def forward(self, source: Ragged, inputs: Ragged, *, return_attention: ReturnAttention = False) -> ModelOutput:
        self.edits.check_length(source.layout.longest)
        decoder = architecture_of(self.model).decoder
        is_recurrent = decoder is not None and decoder.family == "recurrent"
        if is_recurrent and self.edits.rows:  # its steps cannot tell which they are
            return self._forward_steps(source, inputs, bool(return_attention))
        return self._at(None)(source, inputs, return_attention=return_attention)

    def _forward_steps(self, source: Ragged, inputs: Ragged, return_attention: bool) -> ModelOutput:
        """One step after the other, for all rows."""
        memory = self.encode(source)
        state: Any = self.start(memory)
        logits, weights = [], []
        for tokens_B in inputs.to_padded().unbind(1):
            output = self.step(tokens_B, state, memory)
            state = output.state
            logits.append(output.logits_RV)
            weights.append(output.attention_RS)
        attention: tuple[AttentionRecord, ...] = ()
        rows = [weights_BS for weights_BS in weights if weights_BS is not None]
        if return_attention and rows:
            attention = (AttentionRecord("cross", 0, torch.stack(rows, 1)[:, None]),)
        return ModelOutput(inputs.from_padded(torch.stack(logits, 1)).values, attention)


class EditedCopyingModel(EditedModel):
    """A model that copies, with edited attention."""

    def copy_probabilities(self, source: Ragged, inputs: Ragged, targets_N: Tensor) -> CopyProbabilities:
        """See `HasCopyProbabilities`."""
        return cast(HasCopyProbabilities, self._at(None)).copy_probabilities(source, inputs, targets_N)


def _with_modules(module: nn.Module, replaced: dict[int, nn.Module]) -> nn.Module:
    """A copy that shares parameters, buffers and all modules but those that are replaced, or contain one that is."""
    if id(module) in replaced:
        return replaced[id(module)]
    children = {name: child and _with_modules(child, replaced) for name, child in module._modules.items()}
    if all(child is module._modules[name] for name, child in children.items()):
        return module
    twin = copy.copy(module)
    twin._modules = children
    return twin
