"""Models with several sources: the columns of a source, each with its own encoder or all with the same one.

The columns of a row are in one sequence of ids, each closed by the end token (`weft.text.columns`). The states of all
columns are in one sequence too, in the same order; `Encoded.columns_N` tells them apart. The final state is that of all
columns, concatenated.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import chain
from typing import cast

import torch
from torch import Tensor, nn

from weft.attention.ragged_attention import AttentionRecord, ReturnAttention
from weft.models.architecture import PartArchitecture, part_architecture_of
from weft.models.build import make_single_encoder
from weft.models.interface import Encoded, Encoder
from weft.models.layers import Embedding
from weft.models.recurrent import StackState, final_state
from weft.ragged import CapturableLayout, FixedLayout, Layout, Ragged
from weft.recipe import ModelSettings
from weft.text.specials import END


def columns_of(source: Ragged, count: int) -> Tensor:
    """(N,) the column of every token: the number of end tokens before it in its row, at most ``count`` − 1."""
    layout = source.layout
    is_end_N = (source.values == END).long()
    ended_N = is_end_N.cumsum(0) - is_end_N
    first_N = layout.device_offsets.long()[layout.row_ids]
    return (ended_N - ended_N[first_N]).clamp(max=count - 1)


class ColumnRagged(Ragged):
    """Embedded sources, and the column of every token."""

    def __init__(self, values: Tensor, layout: Layout, columns_N: Tensor) -> None:
        super().__init__(values, layout)
        self.columns_N = columns_N


class ColumnEmbedding(Embedding):
    """A source embedding that also tells the columns apart."""

    def __init__(self, embedding: Embedding, count: int) -> None:
        nn.Module.__init__(self)
        self.weight_VE = embedding.weight_VE
        self.dropout = embedding.dropout
        self.columns = count

    def ragged(self, ids: Ragged) -> ColumnRagged:
        return ColumnRagged(self(ids.values), ids.layout, columns_of(ids, self.columns))


class SourceColumnLayout(CapturableLayout):
    """The columns of a batch as rows: those of the first row, then those of the second, …; as many tokens in all.

    Everything is computed on the device, and no shape depends on the lengths, as in a `FixedLayout`.
    """

    def __init__(self, layout: Layout, columns_N: Tensor, count: int) -> None:
        self.device = layout.device
        self.rows, self.total, self.longest = layout.rows * count, layout.total, layout.longest
        self.row_ids = layout.row_ids * count + columns_N
        ones_N = torch.ones_like(self.row_ids)
        self.device_lengths = ones_N.new_zeros(self.rows).index_add(0, self.row_ids, ones_N)
        ends = self.device_lengths.cumsum(0)
        self.device_offsets = torch.cat([ends.new_zeros(1), ends]).to(torch.int32)
        self.positions = torch.arange(self.total, device=self.device) - (ends - self.device_lengths)[self.row_ids]
        self.padded_indices = self.row_ids * self.longest + self.positions
        positions_S = torch.arange(self.longest, device=self.device)
        self.masked_BS = positions_S >= self.device_lengths.clamp(min=1)[:, None]


class ColumnEncoders(nn.Module):
    """Encoders of the columns of a source: one per column, one that reads every column separately, or one for all."""

    def __init__(self, settings: ModelSettings) -> None:
        super().__init__()
        sources = settings.sources
        self.count = sources.count
        self.reads_all = sources.encoders == "joint"
        encoders = [make_single_encoder(settings) for _ in range(self.count if sources.encoders == "separate" else 1)]
        self.encoders = cast(Sequence[Encoder], nn.ModuleList(cast(Sequence[nn.Module], encoders)))

    def forward(self, embedded: Ragged, *, return_attention: ReturnAttention = False) -> Encoded:
        """The states of all columns, in the order of the tokens."""
        assert isinstance(embedded, ColumnRagged)
        columns_N = embedded.columns_N
        if self.reads_all:
            encoded = self.encoders[0](embedded, return_attention=return_attention)
            return encoded._replace(columns_N=columns_N)
        layout: Layout = SourceColumnLayout(embedded.layout, columns_N, self.count)
        if not isinstance(embedded.layout, FixedLayout):
            lengths_BK = layout.device_lengths.cpu().view(-1, self.count)
            if lengths_BK.min() > 0:  # else a column is missing, and has no final state
                if len(self.encoders) > 1:
                    return self._encode_columns(embedded, lengths_BK, return_attention)
                layout = Layout(lengths_BK.flatten(), embedded.device)
        return self._encode_rows(embedded, layout, return_attention)

    def part_architecture(self, module: str) -> PartArchitecture:
        """The architecture of all encoders; a user's own may have none."""
        parts = [part_architecture_of(one, f"{module}.encoders.{number}") for number, one in enumerate(self.encoders)]
        stacks, attentions = zip(*parts, strict=True)
        return PartArchitecture(tuple(chain(*stacks)), tuple(chain(*attentions)))

    def _encode_rows(self, embedded: ColumnRagged, layout: Layout, return_attention: ReturnAttention) -> Encoded:
        """Every encoder reads every column as a separate row; only the states of its own column are used."""
        rows = Ragged(embedded.values, layout)
        encoded = [encoder(rows, return_attention=return_attention) for encoder in self.encoders]
        states_ND = encoded[0].states.values
        for column, other in enumerate(encoded[1:], 1):
            states_ND = torch.where((embedded.columns_N == column)[:, None], other.states.values, states_ND)
        encoded *= self.count // len(encoded)
        finals = [_every(final_state(one), self.count, column) for column, one in enumerate(encoded)]
        records = [
            [record._replace(weights_BHTS=record.weights_BHTS[column :: self.count]) for record in one.attention]
            for column, one in enumerate(encoded)
        ]
        attention = _merge_records(records, layout.device_lengths.view(-1, self.count), embedded.layout.longest)
        return Encoded(embedded.like(states_ND), _concatenate(finals), attention, embedded.columns_N)

    def _encode_columns(self, embedded: ColumnRagged, lengths_BK: Tensor, return_attention: ReturnAttention) -> Encoded:
        """Each encoder reads its own column only; the lengths are known on the CPU."""
        order_N = torch.argsort(embedded.columns_N, stable=True)
        values = embedded.values.index_select(0, order_N).split(lengths_BK.sum(0).tolist())
        encoded = [
            encoder(Ragged(values_ND, Layout(lengths_B, embedded.device)), return_attention=return_attention)
            for encoder, values_ND, lengths_B in zip(self.encoders, values, lengths_BK.unbind(1), strict=True)
        ]
        states_ND = torch.cat([one.states.values for one in encoded]).index_select(0, torch.argsort(order_N))
        attention = _merge_records([one.attention for one in encoded], lengths_BK, embedded.layout.longest)
        final = _concatenate([final_state(one) for one in encoded])
        return Encoded(embedded.like(states_ND), final, attention, embedded.columns_N)


def _every(state: StackState, step: int, first: int) -> StackState:
    return tuple(tuple(part[first::step] for part in layer) for layer in state)


def _concatenate(states: Sequence[StackState]) -> StackState:
    """The states of several encoders as one, side by side."""
    return tuple(
        tuple(torch.cat(parts, -1) for parts in zip(*layers, strict=True)) for layers in zip(*states, strict=True)
    )


def _merge_records(
    records: Sequence[Sequence[AttentionRecord]], lengths_BK: Tensor, longest: int
) -> tuple[AttentionRecord, ...]:
    """The self-attention of every column in its place among the tokens of all; ``records``: those of each encoder."""
    merged: list[AttentionRecord] = []
    for layers in zip(*records, strict=True):
        rows, heads = layers[0].weights_BHTS.shape[:2]
        weights_BHSS = layers[0].weights_BHTS.new_zeros(rows, heads, longest, longest)
        for row, lengths in enumerate(lengths_BK.tolist()):
            start = 0
            for record, length in zip(layers, lengths, strict=True):
                own = slice(start, start + length)
                weights_BHSS[row, :, own, own] = record.weights_BHTS[row, :, :length, :length]
                start += length
        merged.append(layers[0]._replace(weights_BHTS=weights_BHSS))
    return tuple(merged)
