"""Multi-head attention: several attentions side by side, each over its own projections of the states.

    head_h = Attention(X W_h^Q, Y W_h^K, Y W_h^V);   out = [head_1; …; head_H] W^O      Vaswani et al. 2017, 3.2.2

With fewer key–value heads than heads, neighboring heads share one (Ainslie et al. 2023).
"""

from __future__ import annotations

from typing import NamedTuple

import torch
from torch import Tensor, nn

from weft.attention.ragged_attention import (
    AttentionPattern,
    AttentionRecorder,
    StepKeysValues,
    step_attention,
    step_cross_attention,
    step_self_attention,
)
from weft.attention.relative_positions import Rotation


class KeysValues(NamedTuple):
    """What may be looked at: (N, H, D) each, or (R, H, T, D) each for a search's own past."""

    keys: Tensor
    values: Tensor


class KVCache(NamedTuple):
    """What a search has said, with room for more: shapes stay as they are from step to step.

    Item t of row r lies in row ``table_RT[r, t]`` of the layers, so that choosing among hypotheses moves nothing but
    the table.
    """

    layers: tuple[KeysValues, ...]
    """(R, H, T, D) each; written in place."""
    table_RT: Tensor
    time_1: Tensor
    """Where the next token goes: how many there are."""

    def select_rows(self, rows: Tensor) -> KVCache:
        return self._replace(table_RT=self.table_RT.index_select(0, rows))

    def keep_rows(self, rows: Tensor) -> KVCache:
        """Only the given rows, with a store and a table of their own."""
        table_RT = self.table_RT.index_select(0, rows)
        places_T = torch.arange(table_RT.shape[1], device=table_RT.device)

        def gather(part_RHTD: Tensor) -> Tensor:
            return part_RHTD.transpose(1, 2)[table_RT, places_T].transpose(1, 2).contiguous()

        layers = tuple(KeysValues(gather(one.keys), gather(one.values)) for one in self.layers)
        return self._replace(layers=layers, table_RT=_own(table_RT))

    def with_capacity(self, capacity: int, *, return_attention: bool) -> KVCache:
        """With room for so many tokens in all."""
        missing = capacity - self.table_RT.shape[1]
        if missing <= 0:
            return self

        def pad(part_RHTD: Tensor) -> Tensor:
            return torch.nn.functional.pad(part_RHTD, (0, 0, 0, missing))

        layers = tuple(KeysValues(pad(one.keys), pad(one.values)) for one in self.layers)
        table_RT = torch.nn.functional.pad(self.table_RT, (0, missing))
        filled_RT = torch.arange(capacity, device=table_RT.device) < self.time_1
        return self._replace(layers=layers, table_RT=torch.where(filled_RT, table_RT, _own(table_RT)))

    @classmethod
    def of(cls, layers: tuple[KeysValues, ...], room: int) -> KVCache:
        """A past that grew by itself, given room."""
        rows, heads, time, size = layers[0].keys.shape
        device = layers[0].keys.device
        if not time:  # one piece of memory for all
            whole = layers[0].keys.new_zeros(len(layers), 2, rows, heads, room, size)
            layers = tuple(KeysValues(*layer.unbind(0)) for layer in whole.unbind(0))
            table_RT = torch.arange(rows, device=device)[:, None].expand(-1, room).contiguous()
            return cls(layers, table_RT, torch.zeros(1, dtype=torch.int64, device=device))
        table_RT = torch.arange(rows, device=device)[:, None].expand(-1, time).contiguous()
        return cls(layers, table_RT, torch.full((1,), time, device=device)).with_capacity(room, return_attention=False)


def _own(table_RT: Tensor) -> Tensor:
    return torch.arange(len(table_RT), device=table_RT.device)[:, None].expand_as(table_RT).contiguous()


class MultiHead(nn.Module):
    """The projections of one attention. ``items``: width of what is looked at, where it is not the queries' stream."""

    def __init__(
        self, width: int, *, heads: int, key_value_heads: int, items: int | None = None, dropout: float = 0.0
    ) -> None:
        super().__init__()
        self.heads = heads
        self.shared = key_value_heads
        self.size = width // heads
        self.dropout = dropout
        queries, both = heads * self.size, 2 * self.shared * self.size
        self.of_self = nn.Linear(width, queries + both) if items is None else None
        self.of_queries = nn.Linear(width, queries) if items is not None else None
        self.of_items = nn.Linear(items, both) if items is not None else None
        self.out = nn.Linear(queries, width)
        of_item = self.shared * self.size
        for linear, parts in (
            (self.of_self, [queries, of_item, of_item]),
            (self.of_queries, [queries]),
            (self.of_items, [of_item, of_item]),
            (self.out, [width]),
        ):
            if linear is not None:
                _initialize(linear, parts)

    def look_at_self(
        self,
        stream_ND: Tensor,
        sight: AttentionPattern,
        rotation: Rotation | None = None,
        watch: AttentionRecorder | None = None,
    ) -> Tensor:
        """Every token of the stream over the tokens it may see."""
        queries_NHD, own = self._split_self(stream_ND, rotation)
        return self._answer(queries_NHD, own, sight, watch)

    def source_attention(
        self, stream_ND: Tensor, items_MD: Tensor, sight: AttentionPattern, watch: AttentionRecorder | None = None
    ) -> Tensor:
        """Every token of the stream over the items of its row."""
        assert self.of_queries is not None
        queries_NHD = self.of_queries(stream_ND).unflatten(-1, (self.heads, self.size))
        return self._answer(queries_NHD, self.keys_values(items_MD), sight, watch)

    def keys_values(self, items_MD: Tensor) -> KeysValues:
        """Keys and values of items to look across at."""
        assert self.of_items is not None
        keys, values = self.of_items(items_MD).unflatten(-1, (2, self.shared, self.size)).unbind(-3)
        return KeysValues(keys, values)

    def own_keys_values(self, stream_ND: Tensor, rotation: Rotation | None) -> KeysValues:
        """Keys and values of the stream itself, for a search to look back at."""
        return self._split_self(stream_ND, rotation)[1]

    def step_at_self(
        self,
        stream_RD: Tensor,
        past: KeysValues,
        rotation: Rotation | None,
        bias: Tensor | None,
        prefix: StepKeysValues | None,
    ) -> tuple[Tensor, KeysValues, Tensor]:
        """One token a row over a prefix, its past and itself: the answer, the longer past, the weights (R, H, S)."""
        queries_RHD, own = self._split_self(stream_RD, rotation)
        longer = KeysValues(
            torch.cat([past.keys, own.keys[:, :, None]], 2), torch.cat([past.values, own.values[:, :, None]], 2)
        )
        parts = [StepKeysValues(longer.keys, longer.values, bias)]
        answers_RHD, weights_RHS = step_attention(queries_RHD, parts if prefix is None else [prefix, *parts])
        return self.out(answers_RHD.flatten(1)), longer, weights_RHS

    def step_across(self, stream_RD: Tensor, items: StepKeysValues) -> tuple[Tensor, Tensor]:
        """One token a row over the items of its source: the answer and the weights (R, H, S)."""
        assert self.of_queries is not None
        queries_RHD = self.of_queries(stream_RD).unflatten(-1, (self.heads, self.size))
        answers_RHD, weights_RHS = step_attention(queries_RHD, [items])
        return self.out(answers_RHD.flatten(1)), weights_RHS

    def step_in_place(
        self, stream_RD: Tensor, past: KVCache, rotation: Rotation | None, bias_HT: Tensor | None, number: int
    ) -> Tensor:
        """The same in a past with room: this token's keys and values are written into layer ``number`` of it."""
        assert self.of_self is not None
        all_RHD = self.of_self(stream_RD).unflatten(-1, (self.heads + 2 * self.shared, self.size))
        if rotation is not None:
            turned = rotation.turn(all_RHD[:, : self.heads + self.shared])
            all_RHD = torch.cat([turned, all_RHD[:, self.heads + self.shared :]], 1)
        answers_RHD = step_self_attention(
            all_RHD, self.heads, *past.layers[number], past.table_RT, past.time_1, bias_HT, notes_row=number == 0
        )
        return self.out(answers_RHD.flatten(1))

    def step_across_unseen(self, stream_RD: Tensor, items: StepKeysValues) -> Tensor:
        """`step_across` where nobody wants the weights."""
        assert self.of_queries is not None
        queries_RHD = self.of_queries(stream_RD).unflatten(-1, (self.heads, self.size))
        return self.out(step_cross_attention(queries_RHD, items).flatten(1))

    def _split_self(self, stream_ND: Tensor, rotation: Rotation | None) -> tuple[Tensor, KeysValues]:
        assert self.of_self is not None
        all_NHD = self.of_self(stream_ND).unflatten(-1, (self.heads + 2 * self.shared, self.size))
        queries_NHD, keys_NHD, values_NHD = all_NHD.split([self.heads, self.shared, self.shared], 1)
        if rotation is not None:
            queries_NHD, keys_NHD = rotation.turn(queries_NHD), rotation.turn(keys_NHD)
        return queries_NHD, KeysValues(keys_NHD, values_NHD)

    def _answer(
        self, queries_NHD: Tensor, items: KeysValues, sight: AttentionPattern, watch: AttentionRecorder | None
    ) -> Tensor:
        share = self.dropout if self.training else 0.0
        answers_NHD = sight.attend(queries_NHD, items.keys, items.values, dropout=share, watch=watch)
        return self.out(answers_NHD.flatten(1))


def _initialize(linear: nn.Linear, parts: list[int]) -> None:
    """Glorot for every projection by itself, though they lie in one matrix; zero biases."""
    for part in linear.weight.data.split(parts):
        nn.init.xavier_uniform_(part)
    nn.init.zeros_(linear.bias)
