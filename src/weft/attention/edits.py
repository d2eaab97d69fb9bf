"""Edits of attention weights: what a model says if it looks elsewhere. The sources of a batch are one text.

    blocked      e_j = −∞ for every blocked source position j: α'_j = 0, and with softmax the others are scaled so that
                 they sum to one again
    rows         α'_tj = m_t w_j at step t: the given weights w, Σ_j w_j = 1, with the mass m_t that the source had (1,
                 unless the attention is over source and history together)
    heads_off    α' = 0: the head adds nothing to the output of its layer

An edit takes the place of the normalizer of an attention, so that whatever reads the weights (contexts, copying, the
history of coverage, records) reads the edited ones. With local attention the factor of the window still applies.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import NamedTuple

import torch
from torch import Tensor

from weft.attention.normalizers import Normalizer
from weft.errors import SearchError


class Head(NamedTuple):
    """A head of a model, counted from 1 as in `weft.translation.results.HeadAttention`."""

    kind: str
    """"encoder", "decoder", "cross" or "copy"."""
    layer: int
    head: int

    def __str__(self) -> str:
        return f"{self.kind} layer {self.layer}, head {self.head}"


class AttentionRow(NamedTuple):
    """The weights over the source with which one output token is made."""

    step: int
    """The position of the token, from 0."""
    weights: tuple[float, ...]
    """One for every source token, its end token included; they are scaled to sum to one."""
    layer: int | None = None
    """Counted from 1, as is `head`; None: all."""
    head: int | None = None


@dataclass(frozen=True)
class AttentionEdits:
    """All edits of one search. An empty one changes nothing."""

    blocked: tuple[int, ...] = ()
    """Positions of source tokens, from 0."""
    rows: tuple[AttentionRow, ...] = ()
    heads_off: tuple[Head, ...] = ()

    def __post_init__(self) -> None:
        if any(position < 0 for position in self.blocked):
            raise SearchError(f"blocked: position {min(self.blocked)}; positions of source tokens count from 0")
        for row in self.rows:
            if row.step < 0:
                raise SearchError(f"attention: step {row.step}; steps count from 0")
            if not all(0.0 <= weight < math.inf for weight in row.weights) or not sum(row.weights) > 0.0:
                raise SearchError(f"attention: the weights of step {row.step} are not all ≥ 0 with a positive sum")

    def __bool__(self) -> bool:
        return bool(self.blocked or self.rows or self.heads_off)

    @property
    def of_source(self) -> bool:
        """Whether attention to the source is edited, beside heads that are off."""
        return bool(self.blocked or self.rows)

    def check_length(self, tokens: int) -> None:
        """Fail if a source of this length does not have the positions that are edited."""
        if self.blocked and max(self.blocked) >= tokens:
            raise SearchError(f"blocked: position {max(self.blocked)}; the source has {tokens} tokens, counted from 0")
        if len(set(self.blocked)) == tokens:
            raise SearchError(f"blocked: all {tokens} tokens of the source; leave at least one, such as the end token")
        for row in self.rows:
            if len(row.weights) != tokens:
                raise SearchError(
                    f"attention: {len(row.weights)} weights at step {row.step}; the source has {tokens} tokens, "
                    "the end token included"
                )


class AttentionRole(NamedTuple):
    """The role of an attention in its model."""

    kind: str
    """The kind of a `Head`; "prefix": a stack that reads source and target, so encoder and decoder in one."""
    layer: int
    """From 0."""
    multihead: bool = True
    """Whether its weights have an axis of heads, the second."""

    @property
    def reads_source(self) -> bool:
        return self.kind in ("cross", "copy", "prefix")

    def includes(self, head: Head) -> bool:
        same_kind = head.kind == self.kind or (self.kind == "prefix" and head.kind in ("encoder", "decoder"))
        return same_kind and head.layer == self.layer + 1


class EditedNormalizer:
    """A normalizer followed by the edits that concern one attention."""

    def __init__(self, normalize: Normalizer, edits: AttentionEdits, role: AttentionRole, step: int | None) -> None:
        """``step``: the step of all queries; None: the queries are those of steps 0, 1, …"""
        self.normalize = normalize
        self.role = role
        self.step = step
        self.blocked = edits.blocked if role.reads_source else ()
        layers = (None, role.layer + 1)
        self.rows = [row for row in edits.rows if role.reads_source and (role.kind == "copy" or row.layer in layers)]
        self.heads_off = [head.head - 1 for head in edits.heads_off if role.includes(head)]

    def __call__(self, scores: Tensor) -> Tensor:
        """The weights of any of the shapes that attentions have: (B, T, S), (R, H, S) or (B, H, T, S)."""
        if self.blocked:
            scores = scores.index_fill(-1, torch.tensor(self.blocked, device=scores.device), float("-inf"))
            weights = self.normalize(scores).nan_to_num(0.0)  # a window may have nothing but blocked positions
        else:
            weights = self.normalize(scores)
        for row in self.rows:
            weights = self._with_row(weights, row)
        if self.heads_off and not self.role.multihead:
            return torch.zeros_like(weights)
        if self.heads_off:
            weights = weights.clone()
            weights[:, self.heads_off] = 0.0
        return weights

    def _with_row(self, weights: Tensor, row: AttentionRow) -> Tensor:
        source = len(row.weights)
        if self.role.kind == "prefix" and weights.shape[-1] == source:  # of the source over itself
            return weights
        if self.step is not None and row.step != self.step:
            return weights
        if self.step is None and row.step >= weights.shape[-2]:
            return weights
        weights = weights.clone()
        view = weights if self.step is not None else weights[..., row.step, :]
        if self.role.multihead and row.head is not None:
            view = view[:, row.head - 1]
        given_S = torch.tensor(row.weights, dtype=weights.dtype, device=weights.device)
        view[..., :source] = view[..., :source].sum(-1, keepdim=True) * (given_S / given_S.sum())
        return weights
