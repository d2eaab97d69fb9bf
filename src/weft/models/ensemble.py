"""Ensembles: the mean of several models' next-token distributions   Sutskever et al. 2014, 3.4.

    arithmetic   p(y_t | …) = Σ_m w_m p_m(y_t | …)          a token is likely if any member finds it likely
    geometric    p(y_t | …) ∝ Π_m p_m(y_t | …)^{w_m}        a token is unlikely if any member finds it unlikely

A token to which a member with sparse outputs gives no probability has none in a geometric mean; where every token is
one of these, the arithmetic mean takes its place.

The members may be of any kind and size if they have the same vocabularies. An ensemble is searched and scored like a
model. It has no output layer, so it is not trained; its attention is the mean of its members' alignments.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any, cast

import torch
from torch import Tensor, nn

from weft.attention.ragged_attention import AttentionRecord, ReturnAttention, alignment_weights
from weft.errors import SearchError, nearest
from weft.models.architecture import Architecture, architecture_of
from weft.models.interface import HasMaxTargetLength, HasOutputLayer, Model, ModelOutput, StepOutput
from weft.ragged import Ragged

MEANS = ("arithmetic", "geometric")


class Ensemble(nn.Module):
    """A weighted mean of models. Memory and state are tuples with one entry per member."""

    def __init__(
        self, members: Sequence[Model], *, mean: str = "arithmetic", weights: Sequence[float] | None = None
    ) -> None:
        """``weights``: the members' weights, normalized to sum to one; None: equal weights."""
        super().__init__()
        if mean not in MEANS:
            raise SearchError(f"ensemble: the mean {mean!r} is unknown; {nearest(mean, MEANS)}")
        _check_vocabularies(members)
        weights = [1.0] * len(members) if weights is None else weights
        if len(weights) != len(members):
            raise SearchError(f"ensemble: {len(members)} members but {len(weights)} weights; expected one for each")
        if not all(0 < weight < math.inf for weight in weights):
            raise SearchError(f"ensemble: the weights are {list(weights)}; expected positive numbers")
        self.members = nn.ModuleList(cast(Sequence[nn.Module], members))
        self.mean = mean
        self.weights = tuple(weight / math.fsum(weights) for weight in weights)
        outputs = [member.output_layer() for member in members if isinstance(member, HasOutputLayer)]
        self.has_sparse_member = any(output.loss == "entmax15" for output in outputs)

    def architecture(self) -> Architecture:
        members = [architecture_of(member).inside(f"members.{number}") for number, member in enumerate(self.members)]
        return Architecture("ensemble", members=tuple(members))

    def _members(self) -> list[Model]:
        return cast(list[Model], list(self.members))

    def max_target_length(self, source_length: int) -> int | None:
        """The longest target that every member can produce; None: unlimited."""
        limits = [
            member.max_target_length(source_length)
            for member in self._members()
            if isinstance(member, HasMaxTargetLength)
        ]
        return min((limit for limit in limits if limit is not None), default=None)

    def encode(self, source: Ragged) -> tuple[Any, ...]:
        return tuple(member.encode(source) for member in self._members())

    def start(self, memory: tuple[Any, ...]) -> tuple[Any, ...]:
        return tuple(member.start(part) for member, part in zip(self._members(), memory, strict=True))

    def step(self, tokens_R: Tensor, state: tuple[Any, ...], memory: tuple[Any, ...]) -> StepOutput:
        parts = zip(self._members(), state, memory, strict=True)
        outputs = [member.step(tokens_R, member_state, member_memory) for member, member_state, member_memory in parts]
        return StepOutput(
            self._mean_logits([output.logits_RV for output in outputs]),
            tuple(output.state for output in outputs),
            self._mean_attention([output.attention_RS for output in outputs]),
        )

    def forward(self, source: Ragged, inputs: Ragged, *, return_attention: ReturnAttention = False) -> ModelOutput:
        """Logits as those of `step`. The attention is one record: the mean of the members' alignment weights."""
        requested: ReturnAttention = "alignment" if return_attention else False
        outputs: list[ModelOutput] = [member(source, inputs, return_attention=requested) for member in self._members()]
        weights_BTS = self._mean_attention([alignment_weights(output.attention, source.layout) for output in outputs])
        attention = () if weights_BTS is None else (AttentionRecord("cross", 0, weights_BTS[:, None]),)
        return ModelOutput(self._mean_logits([output.logits_NV for output in outputs]), attention)

    def _mean_logits(self, logits: Sequence[Tensor]) -> Tensor:
        """The mean as logits, at least in float32: log p for the arithmetic mean, log p + constant for the other."""
        mean_NV = self._mean_of_kind(self.mean, logits)
        if self.mean == "arithmetic" or not self.has_sparse_member:
            return mean_NV
        impossible_N1 = mean_NV.amax(-1, keepdim=True).isneginf()
        return torch.where(impossible_N1, self._mean_of_kind("arithmetic", logits), mean_NV)

    def _mean_of_kind(self, kind: str, logits: Sequence[Tensor]) -> Tensor:
        mean_NV: Tensor | None = None
        for weight, logits_NV in zip(self.weights, logits, strict=True):
            log_NV = logits_NV.log_softmax(-1, dtype=torch.promote_types(logits_NV.dtype, torch.float32))
            if kind == "arithmetic":
                log_NV = log_NV + math.log(weight)
                mean_NV = log_NV if mean_NV is None else torch.logaddexp(mean_NV, log_NV)
            else:
                mean_NV = log_NV * weight if mean_NV is None else mean_NV + log_NV * weight
        assert mean_NV is not None
        return mean_NV

    def _mean_attention(self, attention: Sequence[Tensor | None]) -> Tensor | None:
        """The mean over the members that have attention; it sums to one as theirs does."""
        pairs = [(weight, part) for weight, part in zip(self.weights, attention, strict=True) if part is not None]
        if not pairs:
            return None
        total = math.fsum(weight for weight, _ in pairs)
        dtype = torch.promote_types(pairs[0][1].dtype, torch.float32)
        return torch.stack([part.to(dtype) * (weight / total) for weight, part in pairs]).sum(0)


def _check_vocabularies(members: Sequence[Model]) -> None:
    """Check that the vocabularies have the same sizes, which are known for weft's own models only."""
    if not members:
        raise SearchError("ensemble: it has no members; expected at least one model")
    described = [architecture_of(member) for member in members]
    copying = [member.copies for member in described]
    if any(copying) and not all(copying):
        raise SearchError(
            f"ensemble: model {copying.index(True) + 1} copies from the source (model.copy), model "
            f"{copying.index(False) + 1} does not; use models that all do"
        )
    sizes = [(number, size) for number, member in enumerate(described, 1) if (size := _vocabulary_sizes(member))]
    for number, (source, target) in sizes[1:]:
        first, (first_source, first_target) = sizes[0]
        if target != first_target:
            raise SearchError(
                f"ensemble: model {number} knows {target} target tokens, model {first} {first_target}; "
                "train them with the same tokenizer"
            )
        if source != first_source:
            raise SearchError(
                f"ensemble: model {number} knows {source or 'no'} source tokens, model {first} "
                f"{first_source or 'none'}; train them with the same tokenizer and task"
            )


def _vocabulary_sizes(model: Architecture) -> tuple[int, int] | None:
    """Vocabulary sizes of source (0 for a language model) and target; None for a model of another kind."""
    source, target = model.source_embedding, model.target_embedding
    return None if target is None else (0 if source is None else source.vocabulary, target.vocabulary)
