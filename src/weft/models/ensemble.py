"""Ensembles: several models that say one sentence together   Sutskever et al. 2014, 3.4.

    arithmetic   p(y_t | …) = Σ_m w_m p_m(y_t | …)          a token is likely if any member finds it likely
    geometric    p(y_t | …) ∝ Π_m p_m(y_t | …)^{w_m}        a token is unlikely if any member finds it unlikely

The members may be of any kind and size, as long as the same ids mean the same on both sides. An ensemble is searched
and scored like a model; it has no states and no output layer of its own, so it is not trained, and its heads are those
of its members.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any, cast

import torch
from torch import Tensor, nn

from weft.attention import AttentionRecord
from weft.errors import SearchError, nearest
from weft.models.interface import (
    HasMaxTargetLength,
    ModelOutput,
    StepOutput,
    alignment_weights,
)
from weft.models.language_model import RecurrentLanguageModel
from weft.models.prefix_lm import PrefixLM
from weft.models.seq2seq import Seq2Seq
from weft.ragged import Ragged

Member = Seq2Seq | RecurrentLanguageModel | PrefixLM
MEANS = ("arithmetic", "geometric")


class Ensemble(nn.Module):
    """A (weighted) mean of the members' next-token distributions. Memory and state are tuples, one item a member."""

    def __init__(
        self, members: Sequence[Member], *, mean: str = "arithmetic", shares: Sequence[float] | None = None
    ) -> None:
        """``shares``: how much each member counts, made to sum to one; equal ones if not given."""
        super().__init__()
        if mean not in MEANS:
            raise SearchError(f"ensemble: the mean {mean!r} is unknown; {nearest(mean, MEANS)}")
        _check(members)
        shares = [1.0] * len(members) if shares is None else shares
        if len(shares) != len(members):
            raise SearchError(f"ensemble: {len(members)} members but {len(shares)} shares; expected one for each")
        if not all(0 < share < math.inf for share in shares):
            raise SearchError(f"ensemble: the shares are {list(shares)}; expected positive numbers")
        self.members = nn.ModuleList(members)
        self.mean = mean
        self.shares = tuple(share / math.fsum(shares) for share in shares)

    def _each(self) -> list[Member]:
        return cast(list[Member], list(self.members))

    def max_target_length(self, source_length: int) -> int | None:
        """The longest target that every member can produce; None: unlimited."""
        limits = [
            limit
            for member in self._each()
            if isinstance(member, HasMaxTargetLength) and (limit := member.max_target_length(source_length)) is not None
        ]
        return min(limits, default=None)

    def encode(self, source: Ragged) -> tuple[Any, ...]:
        return tuple(member.encode(source) for member in self._each())

    def start(self, memory: tuple[Any, ...]) -> tuple[Any, ...]:
        return tuple(member.start(own) for member, own in zip(self._each(), memory, strict=True))

    def step(self, tokens_R: Tensor, state: tuple[Any, ...], memory: tuple[Any, ...]) -> StepOutput:
        outputs = [
            member.step(tokens_R, member_state, member_memory)
            for member, member_state, member_memory in zip(self._each(), state, memory, strict=True)
        ]
        return StepOutput(
            self._combine([output.logits_RV for output in outputs]),
            tuple(output.state for output in outputs),
            self._mean_attention([output.attention_RS for output in outputs]),
        )

    def forward(self, source: Ragged, inputs: Ragged, *, return_attention: bool = False) -> ModelOutput:
        """Logits as those of `step`. The attention is one record: the mean of the members' alignment weights."""
        outputs: list[ModelOutput] = [
            member(source, inputs, return_attention=return_attention) for member in self._each()
        ]
        weights_BTS = self._mean_attention([alignment_weights(output.attention, source.layout) for output in outputs])
        attention = () if weights_BTS is None else (AttentionRecord("cross", 0, weights_BTS[:, None]),)
        return ModelOutput(self._combine([output.logits_NV for output in outputs]), attention)

    def _combine(self, logits: Sequence[Tensor]) -> Tensor:
        """The mean as logits, in float32 at least: log p where it is arithmetic, log p + a constant if geometric."""
        mixed_NV: Tensor | None = None
        for share, logits_NV in zip(self.shares, logits, strict=True):
            log_NV = logits_NV.log_softmax(-1, dtype=torch.promote_types(logits_NV.dtype, torch.float32))
            if self.mean == "arithmetic":
                log_NV = log_NV + math.log(share)
                mixed_NV = log_NV if mixed_NV is None else torch.logaddexp(mixed_NV, log_NV)
            else:
                mixed_NV = log_NV * share if mixed_NV is None else mixed_NV + log_NV * share
        assert mixed_NV is not None
        return mixed_NV

    def _mean_attention(self, weights: Sequence[Tensor | None]) -> Tensor | None:
        """The mean attention of the members that have one; it sums to one as theirs do."""
        found = [(share, one) for share, one in zip(self.shares, weights, strict=True) if one is not None]
        if not found:
            return None
        total = math.fsum(share for share, _ in found)
        wide = torch.promote_types(found[0][1].dtype, torch.float32)
        return torch.stack([one.to(wide) * (share / total) for share, one in found]).sum(0)


def _check(members: Sequence[Member]) -> None:
    """That the members read the same ids and say the same ids, as far as sizes tell."""
    if not members:
        raise SearchError("ensemble: it has no members; expected at least one model")
    first = _sizes(members[0])
    for number, member in enumerate(members[1:], 2):
        source, target = _sizes(member)
        if target != first[1]:
            raise SearchError(
                f"ensemble: model {number} knows {target} target tokens, model 1 {first[1]}; "
                "train them with the same tokenizer"
            )
        if source != first[0]:
            raise SearchError(
                f"ensemble: model {number} knows {source or 'no'} source tokens, model 1 {first[0] or 'none'}; "
                "train them with the same tokenizer and task"
            )


def _sizes(model: Member) -> tuple[int, int]:
    """How many source and target tokens a model knows; a language model has no source."""
    source = None if isinstance(model, RecurrentLanguageModel) else model.source_embedding
    return 0 if source is None else len(source.weight_VE), len(model.output.bias_V)
