"""Encoders over padded batches: one source, or the columns of several."""

from __future__ import annotations

from typing import Any, NamedTuple

import torch
from torch import Tensor

from weft.interop.onnx.padded import Layers, run_stack, run_transformer
from weft.models.hard_attention import HardAttentionSeq2Seq
from weft.models.interface import Encoder
from weft.models.recurrent import RecurrentEncoder
from weft.models.seq2seq import Seq2Seq
from weft.models.source_columns import ColumnEncoders
from weft.models.transformer import TransformerEncoder
from weft.ragged import additive_mask
from weft.text.specials import END


class EncoderStates(NamedTuple):
    """The output of an encoder, padded."""

    states_BSD: Tensor
    final: Any
    """The last state of every layer; the mean of the states if the encoder is not recurrent."""
    columns_BS: Tensor | None = None
    """The column of every token, if there are several sources."""


def encode(model: Seq2Seq | HardAttentionSeq2Seq, ids_BS: Tensor, tokens_BS: Tensor) -> EncoderStates:
    """The states of a padded batch of sources; ``tokens_BS``: True at a token."""
    embedded_BSE = model.source_embedding(ids_BS)
    encoder = model.encoder
    if not isinstance(encoder, ColumnEncoders):
        return _encode(encoder, embedded_BSE, tokens_BS)
    is_end_BS = (ids_BS == END).long()
    columns_BS = (is_end_BS.cumsum(1) - is_end_BS).clamp(max=encoder.count - 1)
    if encoder.reads_all:
        return _encode(encoder.encoders[0], embedded_BSE, tokens_BS)._replace(columns_BS=columns_BS)
    return _encode_columns(encoder, embedded_BSE, tokens_BS, columns_BS)


def _encode_columns(
    encoders: ColumnEncoders, embedded_BSE: Tensor, tokens_BS: Tensor, columns_BS: Tensor
) -> EncoderStates:
    """Each column moved to the start of its row, encoded separately, and its states moved back.

    Every source must have all columns; an empty one is an end token alone.
    """
    places_S = torch.arange(embedded_BSE.shape[1])
    states_BSD, finals = None, []
    for column in range(encoders.count):
        own_BS = (columns_BS == column) & tokens_BS
        lengths_B1 = own_BS.sum(1, keepdim=True)
        starts_B1 = ((columns_BS < column) & tokens_BS).sum(1, keepdim=True)
        moved_BSE = _take(embedded_BSE, (places_S + starts_B1).clamp(max=embedded_BSE.shape[1] - 1))
        encoder = encoders.encoders[column % len(encoders.encoders)]
        encoded = _encode(encoder, moved_BSE, places_S < lengths_B1.clamp(min=1))  # never all −∞
        back_BSD = _take(encoded.states_BSD, (places_S - starts_B1).clamp(min=0))
        states_BSD = back_BSD if states_BSD is None else torch.where(own_BS[..., None], back_BSD, states_BSD)
        finals.append(encoded.final)
    assert states_BSD is not None
    final = tuple(
        tuple(torch.cat(parts, -1) for parts in zip(*layers, strict=True)) for layers in zip(*finals, strict=True)
    )
    return EncoderStates(states_BSD, final, columns_BS)


def _take(values_BSD: Tensor, places_BS: Tensor) -> Tensor:
    return values_BSD.gather(1, places_BS[..., None].expand(-1, -1, values_BSD.shape[2]))


def _encode(encoder: Encoder, embedded_BSE: Tensor, tokens_BS: Tensor) -> EncoderStates:
    if isinstance(encoder, RecurrentEncoder):
        if encoder.reverse_source:
            states_BSD, final = run_stack(encoder.stack, embedded_BSE.flip(1), tokens_BS.flip(1))
            return EncoderStates(states_BSD.flip(1), final)
        return EncoderStates(*run_stack(encoder.stack, embedded_BSE, tokens_BS))
    assert isinstance(encoder, TransformerEncoder)
    stack, longest = encoder.stack, embedded_BSE.shape[1]
    mask_B11S = additive_mask(~tokens_BS, embedded_BSE.dtype)[:, None, None]
    biases = with_mask(stack.self_attention_biases(longest, embedded_BSE.device), mask_B11S)
    states_BSD, _ = run_transformer(stack, embedded_BSE, Layers(torch.arange(longest), biases))
    weights_BS1 = tokens_BS[..., None].to(states_BSD.dtype)
    means_BD = (states_BSD * weights_BS1).sum(1) / weights_BS1.sum(1)
    return EncoderStates(states_BSD, ((means_BD,),))


def with_mask(biases: list[Tensor | None], mask: Tensor) -> list[Tensor | None]:
    """Bias and mask of each layer; layers that share a bias share the sum."""
    sums = {id(bias): mask if bias is None else bias + mask for bias in biases}
    return [sums[id(bias)] for bias in biases]
