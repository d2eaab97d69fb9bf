"""Transformer layers and stacks   Vaswani et al. 2017, and what came after, as options.

A layer is a list of sub-layers f with a norm placement:

    post    x ← norm(x + f(x))              as published
    pre     x ← x + f(norm(x))              Xiong et al. 2020; a last norm closes the stack

f is self-attention, attention over the source, and the position-wise feed-forward network. A layer without the
last is "attention-only".
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import NamedTuple, cast

import torch
from torch import Tensor, nn
from torch.nn import functional

from weft.attention import (
    AlibiBias,
    AttentionPattern,
    AttentionRecorder,
    Bias,
    KeysValues,
    KVCache,
    MultiHead,
    Rotation,
    StepKeysValues,
    T5Bias,
    rotation,
)
from weft.models.layers import add_dropped, dropout
from weft.models.positions import Learned, Sinusoidal

NORMS: dict[str, Callable[[int], nn.Module]] = {
    "layer": lambda width: nn.LayerNorm(width, eps=1e-5),
    "rms": lambda width: nn.RMSNorm(width, eps=1e-5),
}
ACTIVATIONS: dict[str, Callable[[Tensor], Tensor]] = {
    "relu": functional.relu_,  # what it is given is needed by nobody else
    "gelu": functional.gelu,
    "swiglu": lambda both: functional.silu(both.chunk(2, -1)[0]) * both.chunk(2, -1)[1],
}
POSITIONS = ("sinusoidal", "learned", "relative", "rotary", "alibi", "none")


class Shape(NamedTuple):
    """The settings of a stack, whichever side it is on."""

    width: int
    layers: int
    heads: int
    key_value_heads: int = 0
    """0: as many as heads."""
    feed_forward: int = 0
    """Width of the feed-forward network; 0: none (attention-only)."""
    activation: str = "relu"
    norm: str = "layer"
    placement: str = "post"
    positions: str = "sinusoidal"
    max_positions: int = 1024
    scale: bool = True
    """Multiply embeddings by the root of their width."""
    embedding_dropout: float = 0.0
    residual_dropout: float = 0.0
    attention_dropout: float = 0.0
    activation_dropout: float = 0.0


class FeedForward(nn.Module):
    """W₂ act(W₁ x + b₁) + b₂   Vaswani et al. 2017, eq. 2; swiglu: W₂ (silu(W₁ x) ⊙ V x)   Shazeer 2020."""

    def __init__(self, width: int, inner: int, *, activation: str, dropout: float = 0.0) -> None:
        super().__init__()
        self.activation = ACTIVATIONS[activation]
        self.dropout = dropout
        self.enter = nn.Linear(width, inner * (2 if activation == "swiglu" else 1))
        self.leave = nn.Linear(inner, width)
        for linear in (self.enter, self.leave):
            nn.init.xavier_uniform_(linear.weight)
            nn.init.zeros_(linear.bias)

    def forward(self, stream_ND: Tensor) -> Tensor:
        return self.leave(dropout(self.activation(self.enter(stream_ND)), self.dropout, self.training))


class Around(nn.Module):
    """What stands around a sub-layer: residual, dropout and norm."""

    def __init__(self, shape: Shape) -> None:
        super().__init__()
        self.norm = NORMS[shape.norm](shape.width)
        self.first = shape.placement == "pre"
        self.dropout = shape.residual_dropout

    def before(self, stream_ND: Tensor) -> Tensor:
        return normed(self.norm, stream_ND) if self.first else stream_ND

    def after(self, stream_ND: Tensor, found_ND: Tensor) -> Tensor:
        added_ND = add_dropped(stream_ND, found_ND, self.dropout, self.training)
        return added_ND if self.first else normed(self.norm, added_ND)

    def enter(self, stream_ND: Tensor, pending_ND: Tensor | None) -> tuple[Tensor, Tensor]:
        """In a search: what is still to be added is added; the stream, and what the sub-layer is given."""
        if not self.first:
            return stream_ND, stream_ND
        return (
            (stream_ND, normed(self.norm, stream_ND))
            if pending_ND is None
            else joined(self.norm, stream_ND, pending_ND)
        )

    def leave(self, stream_ND: Tensor, found_ND: Tensor) -> tuple[Tensor, Tensor | None]:
        """In a search: the stream, and what is still to be added to it."""
        return (stream_ND, found_ND) if self.first else (joined(self.norm, stream_ND, found_ND)[1], None)


def joined(norm: nn.Module, stream_ND: Tensor, found_ND: Tensor) -> tuple[Tensor, Tensor]:
    """x + f and its norm."""
    if stream_ND.is_cuda and stream_ND.shape[-1] <= 8192 and isinstance(norm, nn.LayerNorm | nn.RMSNorm):
        from weft.kernels.triton.add_norm import add_norm

        return add_norm(stream_ND, found_ND, norm.weight, getattr(norm, "bias", None), norm.eps or 0.0)
    added_ND = stream_ND + found_ND
    return added_ND, normed(norm, added_ND)


def normed(norm: nn.Module, stream_ND: Tensor) -> Tensor:
    """A norm whose result keeps the stream's type, also where norms are computed in full precision."""
    return norm(stream_ND).to(stream_ND.dtype)


class TransformerLayer(nn.Module):
    """Self-attention, attention over a source where there is one, feed-forward where there is one."""

    def __init__(self, shape: Shape, *, items: int | None = None) -> None:
        """``items``: width of the source's states; None: there is no source."""
        super().__init__()
        heads, share = shape.heads, shape.attention_dropout
        shared = shape.key_value_heads or heads
        self.own = MultiHead(shape.width, heads=heads, key_value_heads=shared, dropout=share)
        self.around_own = Around(shape)
        self.cross = self.around_cross = self.feed_forward = self.around_feed_forward = None
        if items is not None:
            self.cross = MultiHead(shape.width, heads=heads, key_value_heads=shared, items=items, dropout=share)
            self.around_cross = Around(shape)
        if shape.feed_forward:
            self.feed_forward = FeedForward(
                shape.width, shape.feed_forward, activation=shape.activation, dropout=shape.activation_dropout
            )
            self.around_feed_forward = Around(shape)

    def forward(
        self,
        stream_ND: Tensor,
        sight: AttentionPattern,
        rotation: Rotation | None = None,
        items_MD: Tensor | None = None,
        across: AttentionPattern | None = None,
        watch: AttentionRecorder | None = None,
    ) -> Tensor:
        found_ND = self.own.look_at_self(self.around_own.before(stream_ND), sight, rotation, watch)
        stream_ND = self.around_own.after(stream_ND, found_ND)
        if self.cross is not None and self.around_cross is not None and items_MD is not None and across is not None:
            found_ND = self.cross.source_attention(self.around_cross.before(stream_ND), items_MD, across, watch)
            stream_ND = self.around_cross.after(stream_ND, found_ND)
        return self._feed_forward(stream_ND)

    def step(
        self,
        stream_RD: Tensor,
        past: KeysValues,
        rotation: Rotation | None,
        bias: Tensor | None,
        prefix: StepKeysValues | None = None,
        items: StepKeysValues | None = None,
    ) -> tuple[Tensor, KeysValues, Tensor]:
        """One token a row: the stream, the longer past, and the weights (R, H, S) over the source, else over itself."""
        found_RD, past, weights_RHS = self.own.step_at_self(
            self.around_own.before(stream_RD), past, rotation, bias, prefix
        )
        stream_RD = self.around_own.after(stream_RD, found_RD)
        if self.cross is not None and self.around_cross is not None and items is not None:
            found_RD, weights_RHS = self.cross.step_across(self.around_cross.before(stream_RD), items)
            stream_RD = self.around_cross.after(stream_RD, found_RD)
        return self._feed_forward(stream_RD), past, weights_RHS

    def step_in_place(
        self,
        stream_RD: Tensor,
        pending_RD: Tensor | None,
        past: KVCache,
        number: int,
        rotation: Rotation | None,
        bias_HT: Tensor | None,
        items: StepKeysValues,
        looks: bool,
    ) -> tuple[Tensor, Tensor | None, Tensor | None]:
        """The same in a past with room, as layer ``number``: the stream, what is still to be added to it and, where it
        looks, the weights (R, H, S)."""
        assert self.cross is not None and self.around_cross is not None
        stream_RD, asking_RD = self.around_own.enter(stream_RD, pending_RD)
        found_RD = self.own.step_in_place(asking_RD, past, rotation, bias_HT, number)
        stream_RD, pending_RD = self.around_own.leave(stream_RD, found_RD)
        weights_RHS = None
        stream_RD, asking_RD = self.around_cross.enter(stream_RD, pending_RD)
        if looks:
            found_RD, weights_RHS = self.cross.step_across(asking_RD, items)
        else:
            found_RD = self.cross.step_across_unseen(asking_RD, items)
        stream_RD, pending_RD = self.around_cross.leave(stream_RD, found_RD)
        if self.feed_forward is not None and self.around_feed_forward is not None:
            stream_RD, asking_RD = self.around_feed_forward.enter(stream_RD, pending_RD)
            stream_RD, pending_RD = self.around_feed_forward.leave(stream_RD, self.feed_forward(asking_RD))
        return stream_RD, pending_RD, weights_RHS

    def _feed_forward(self, stream_ND: Tensor) -> Tensor:
        if self.feed_forward is None or self.around_feed_forward is None:
            return stream_ND
        found_ND = self.feed_forward(self.around_feed_forward.before(stream_ND))
        return self.around_feed_forward.after(stream_ND, found_ND)


class TransformerStack(nn.Module):
    """Layers, with what enters them (embeddings and positions) and the norm that closes a pre-norm stack."""

    def __init__(self, shape: Shape, *, inputs: int, both_ways: bool, items: int | None = None) -> None:
        """``inputs``: width of the embeddings; ``both_ways``: whether tokens see what comes after them."""
        super().__init__()
        self.shape = shape
        self.size = shape.width
        self.scale = math.sqrt(inputs) if shape.scale else 1.0
        self.enter = nn.Identity() if inputs == shape.width else nn.Linear(inputs, shape.width)
        self.absolute: Sinusoidal | Learned | None = None
        if shape.positions == "sinusoidal":
            self.absolute = Sinusoidal(shape.width)
        elif shape.positions == "learned":
            self.absolute = Learned(shape.width, count=shape.max_positions)
        self.relative: Bias | None = None
        if shape.positions == "alibi":
            self.relative = AlibiBias(shape.heads)
        elif shape.positions == "relative":
            self.relative = T5Bias(shape.heads, both_ways=both_ways)
        layers = [TransformerLayer(shape, items=items) for _ in range(shape.layers)]
        self.layers = cast(Sequence[TransformerLayer], nn.ModuleList(layers))
        self.last_norm = NORMS[shape.norm](shape.width) if shape.placement == "pre" else None

    @property
    def max_length(self) -> int | None:
        """The longest sequence it can read; None: any."""
        return self.shape.max_positions if isinstance(self.absolute, Learned) else None

    def begin(self, embedded_NE: Tensor, places_N: Tensor, longest: int) -> Tensor:
        """x = √d E[y] + PE(place), with dropout   Vaswani et al. 2017, 3.4, 5.4."""
        stream_ND = self.enter(embedded_NE * self.scale)
        if torch.is_autocast_enabled(stream_ND.device.type):
            stream_ND = stream_ND.to(torch.get_autocast_dtype(stream_ND.device.type))
        if self.absolute is not None:
            stream_ND = stream_ND + self.absolute(places_N, longest).to(stream_ND.dtype)
        return dropout(stream_ND, self.shape.embedding_dropout, self.training)

    def end(self, stream_ND: Tensor, pending_ND: Tensor | None = None) -> Tensor:
        """The stream as it leaves; ``pending_ND``: what is still to be added to it."""
        if self.last_norm is None:
            return stream_ND
        return (
            normed(self.last_norm, stream_ND)
            if pending_ND is None
            else joined(self.last_norm, stream_ND, pending_ND)[1]
        )

    def rotation(self, places_N: Tensor, dtype: torch.dtype) -> Rotation | None:
        """The turn of queries and keys at these places, where positions are rotary."""
        if self.shape.positions != "rotary":
            return None
        return rotation(places_N, self.shape.width // self.shape.heads, dtype)

    def bias(self, queries: Tensor, items: Tensor) -> Tensor | None:
        """What distances add to the scores, for places (…, T) and (…, S): (…, H, T, S)."""
        return None if self.relative is None else self.relative(items[..., None, :] - queries[..., :, None])

    def own_bias(self, longest: int, like: Tensor) -> Tensor | None:
        """The same where every row's places are 0, 1, 2, …: (1, H, T, T)."""
        places_T = torch.arange(longest, device=like.device)
        found = self.bias(places_T, places_T)
        return None if found is None else found[None]

    def empty_past(self, rows: int, like: Tensor) -> tuple[KeysValues, ...]:
        """The past of a search before its first step."""
        heads, size = self.shape.key_value_heads or self.shape.heads, self.shape.width // self.shape.heads
        none = like.new_zeros(rows, heads, 0, size)
        return tuple(KeysValues(none, none) for _ in self.layers)
