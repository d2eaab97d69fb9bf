"""Scaled dot-product attention over ragged batches.

    out_i = Σ_j α_ij v_j,   α_i = softmax_j(q_i·k_j / √d + b_ij)      Vaswani et al. 2017, eq. 1, in every head

Queries, keys and values are stored end to end (N, H, D). They are padded, the equation is computed as written, and the
padding is removed again; only weights that are returned (`return_attention`) stay padded, as `AttentionRecords`.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from functools import cached_property
from typing import Literal, NamedTuple, Protocol

import torch
from torch import Tensor
from torch.nn import functional

from weft.attention.normalizers import Normalizer, softmax
from weft.ragged import CapturableLayout, DeviceLayout, FixedLayout, Layout, Ragged, additive_mask
from weft.runtime.replaceable import replaceable


class AttentionPattern(Protocol):
    """The keys that each query attends to."""

    def attend(
        self,
        queries_NHD: Tensor,
        keys_NHD: Tensor,
        values_NHD: Tensor,
        *,
        dropout: float = 0.0,
        normalize: Normalizer = softmax,
        recorder: AttentionRecorder | None = None,
    ) -> Tensor:
        """The outputs (N, H, D). With fewer key–value heads than query heads, neighboring heads share one."""


def patterns_by_layer(
    make: Callable[[Tensor | None], AttentionPattern], biases: Sequence[Tensor | None]
) -> list[AttentionPattern]:
    """The pattern of each layer by its bias; layers that share a bias share the pattern, and what it computes once."""
    different = {id(bias): bias for bias in biases}
    made = {key: make(bias) for key, bias in different.items()}
    return [made[id(bias)] for bias in biases]


def repeat_heads(values_NHD: Tensor, queries_NHD: Tensor) -> Tensor:
    """Keys or values with as many heads as the queries: each repeated for the neighboring heads that share it."""
    groups = queries_NHD.shape[1] // values_NHD.shape[1]
    return values_NHD.repeat_interleave(groups, 1) if groups > 1 else values_NHD


class RaggedAttention:
    """Every query attends to the keys of its row: to all of them or, if ``causal``, to those up to its position.

    If a row has fewer queries than keys, the queries have the last positions: query T is at the position of key S.
    """

    def __init__(
        self, kind: str, queries: Layout, keys: Layout, *, causal: bool = False, bias: Tensor | None = None
    ) -> None:
        """``kind``: see `AttentionRecord`; ``bias``: added to the scores, (1 or B, H, T, S)."""
        self.kind = kind
        self.queries = queries
        self.keys = keys
        self.causal = causal
        self.bias = bias

    @replaceable
    def attend(
        self,
        queries_NHD: Tensor,
        keys_NHD: Tensor,
        values_NHD: Tensor,
        *,
        dropout: float = 0.0,
        normalize: Normalizer = softmax,
        recorder: AttentionRecorder | None = None,
    ) -> Tensor:
        """See `AttentionPattern`."""
        queries = Ragged(queries_NHD, self.queries)
        keys, values = (Ragged(repeat_heads(part, queries_NHD), self.keys) for part in (keys_NHD, values_NHD))
        queries_BHTD, keys_BHSD, values_BHSD = (part.to_padded().transpose(1, 2) for part in (queries, keys, values))
        scores_BHTS = queries_BHTD @ keys_BHSD.transpose(2, 3) / math.sqrt(queries_BHTD.shape[-1])
        weights_BHTS = normalize(scores_BHTS + self.mask(queries_BHTD.dtype))
        if recorder is not None:
            recorder(self.kind, weights_BHTS)
        outputs_BHTD = functional.dropout(weights_BHTS, dropout) @ values_BHSD
        return queries.from_padded(outputs_BHTD.transpose(1, 2)).values

    @cached_property
    def _masked_BTS(self) -> Tensor:
        """True where a query does not attend. A row without keys masks nothing: none of its outputs is used."""
        device = self.queries.device
        positions_S = torch.arange(self.keys.longest, device=device)
        lengths_B = self.keys.device_lengths.clamp(min=1)
        masked_BTS = (positions_S >= lengths_B[:, None])[:, None]
        if self.causal:
            first_B = lengths_B - self.queries.device_lengths.clamp(min=1)
            positions_BT = torch.arange(self.queries.longest, device=device) + first_B[:, None]
            masked_BTS = masked_BTS | (positions_S > positions_BT[:, :, None])
        return masked_BTS

    def mask(self, dtype: torch.dtype) -> Tensor:
        """The additive mask, bias included, (1 or B, 1 or H, T, S); computed once for all layers."""
        if dtype not in self._masks:
            masked_B1TS = self._masked_BTS[:, None]
            if self.bias is None:
                self._masks[dtype] = additive_mask(masked_B1TS, dtype)
            else:
                self._masks[dtype] = self.bias.to(dtype).masked_fill(masked_B1TS, float("-inf"))
        return self._masks[dtype]

    @cached_property
    def _masks(self) -> dict[torch.dtype, Tensor]:
        return {}


class PrefixAttention:
    """Sources and targets in one stream, all sources first: a source attends to itself in both directions, a target to
    its source and its own history   Dong et al. 2019 (UniLM); Raffel et al. 2020, figure 4."""

    def __init__(
        self,
        source: Layout,
        target: Layout,
        joined: Layout | None = None,
        *,
        source_bias: Tensor | None = None,
        target_bias: Tensor | None = None,
    ) -> None:
        """``joined``: both layouts by `join_layouts`, if the caller has them."""
        joined = join_layouts(source, target) if joined is None else joined
        self.source = RaggedAttention("encoder", source, source, bias=source_bias)
        self.target = RaggedAttention("decoder", target, joined, causal=True, bias=target_bias)

    @cached_property
    def _interleaved(self) -> Tensor:
        """(N,) indices into the stream in the order source 1, target 1, source 2, target 2, …"""
        source, target, joined = self.source.queries, self.target.queries, self.target.keys
        rows, positions = joined.row_ids, joined.positions
        target_positions = positions - source.device_lengths[rows]
        in_source = source.device_offsets[rows] + positions
        in_target = source.total + target.device_offsets[rows] + target_positions
        return torch.where(target_positions < 0, in_source, in_target)

    def attend(
        self,
        queries_NHD: Tensor,
        keys_NHD: Tensor,
        values_NHD: Tensor,
        *,
        dropout: float = 0.0,
        normalize: Normalizer = softmax,
        recorder: AttentionRecorder | None = None,
    ) -> Tensor:
        """See `AttentionPattern`."""
        split = self.source.queries.total
        outputs: list[Tensor] = []
        if split:
            source = (part[:split] for part in (queries_NHD, keys_NHD, values_NHD))
            outputs.append(self.source.attend(*source, dropout=dropout, normalize=normalize, recorder=recorder))
        keys_NHD, values_NHD = (part.index_select(0, self._interleaved) for part in (keys_NHD, values_NHD))
        outputs.append(
            self.target.attend(
                queries_NHD[split:], keys_NHD, values_NHD, dropout=dropout, normalize=normalize, recorder=recorder
            )
        )
        return torch.cat(outputs)


def join_layouts(first: Layout, second: Layout) -> Layout:
    """Each row of the first layout, followed by that of the second: the source and the target of a prefix LM."""
    if isinstance(first, FixedLayout) or isinstance(second, FixedLayout):
        return JoinedLayout(first, second)
    return Layout(first.lengths + second.lengths, first.device)


class JoinedLayout(CapturableLayout, DeviceLayout):
    """A joined layout for updates that are replayed as CUDA graphs. ``longest`` is a bound."""

    def __init__(self, first: Layout, second: Layout) -> None:
        self.device = first.device
        self.rows, self.total = first.rows, first.total + second.total
        self.longest = first.longest + second.longest
        self.device_lengths = first.device_lengths + second.device_lengths


ReturnAttention = bool | Literal["alignment"]
"""The attention weights that a model returns: none, those of every layer, or (cheaper) those of the decoder's layers
that are the word alignment, which are all that `alignment_weights` needs."""


class AttentionRecord(NamedTuple):
    """The weights of all heads of one attention of a model."""

    kind: str
    """"encoder" (self-attention over the source), "decoder" (over the target's history), "cross" (over the source),
    "copy" (over the source, by which a Transformer copies) or "history" (of a recurrent language model over its
    previous states)."""
    layer: int
    """From 0."""
    weights_BHTS: Tensor
    alignment_heads: tuple[int, ...] | None = None
    """The heads used as the word alignment; None: not specified."""


AttentionRecorder = Callable[[str, Tensor], None]
"""Called with the kind and the weights (B, H, T, S) of each attention of one layer."""


class AttentionRecords(list[AttentionRecord]):
    """The attention weights that a stack returns."""

    def __init__(
        self, return_attention: ReturnAttention, alignment: Mapping[int, tuple[int, ...] | None] | None = None
    ) -> None:
        """``alignment``: the heads that are the word alignment, by layer (None: all of them); none in an encoder."""
        super().__init__()
        self.return_attention = return_attention
        self.alignment = alignment or {}

    def recorder(self, layer: int) -> AttentionRecorder | None:
        """The recorder for the weights of a layer; None if they are not returned."""
        if self.return_attention is True or (self.return_attention and layer in self.alignment):
            heads = self.alignment.get(layer)
            return lambda kind, weights_BHTS: self.append(AttentionRecord(kind, layer, weights_BHTS, heads))
        return None


def alignment_weights(records: Sequence[AttentionRecord], source: Layout) -> Tensor | None:
    """(B, T, S) one weight for every target and source position: the mean over the heads of one layer.

    If a Transformer copies, those of the attention by which it does: they explain the output. Else the heads that
    model.decoder.alignment_heads names or, if it names none, those of the layer below the top one, which aligns best
    (Garg et al. 2019, 4.2). Without cross-attention these are the decoder's weights over the source
    tokens, renormalized; for a recurrent language model, the weights over its own history. None if there are no such
    weights. Rows past the end of a target have no meaning.
    """
    copying = [record for record in records if record.kind == "copy"]
    aligned = copying or [record for record in records if record.kind in ("cross", "history")]
    if not aligned and source.longest:
        aligned = [record for record in records if record.kind == "decoder"]
    if not aligned:
        return None
    if heads := {record.layer: record.alignment_heads for record in aligned if record.alignment_heads}:
        return mean_of_heads({record.layer: record.weights_BHTS for record in aligned}, heads)
    record = aligned[alignment_layer(len(aligned))]
    weights_BTS = record.weights_BHTS.mean(1)
    if record.kind != "decoder":
        return weights_BTS
    return renormalize(weights_BTS[:, :, : source.longest].masked_fill(source.masked_BS[:, None], 0.0))


AlignmentHeads = Mapping[int, tuple[int, ...] | None]
"""The heads that are the word alignment, by layer; None: all heads of the layer."""


def mean_of_heads(weights: Mapping[int, Tensor], heads: AlignmentHeads) -> Tensor:
    """The mean over heads, the second axis of the weights of each layer."""
    parts = [
        weights[layer] if numbers is None else torch.stack([weights[layer][:, number] for number in numbers], 1)
        for layer, numbers in heads.items()
    ]
    return (parts[0] if len(parts) == 1 else torch.cat(parts, 1)).mean(1)


def alignment_layer(layers: int) -> int:
    """The number of the layer whose attention counts as the alignment   Garg et al. 2019, 4.2."""
    return max(layers - 2, 0)


def renormalize(weights: Tensor) -> Tensor:
    """Weights scaled so that they sum to one."""
    return weights / weights.sum(-1, keepdim=True).clamp(min=torch.finfo(weights.dtype).tiny)
