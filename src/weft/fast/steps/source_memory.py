"""Keys and values of the source, laid out as the search steps read them.

Equal to `TransformerDecoder.build_memory`; tests/fast/steps/test_source_memory.py. On a GPU the states are padded
before they are projected: fewer kernels matter more than smaller ones. On a CPU keys and values are contiguous in the
order in which the products of every step read them, which would otherwise copy them.
"""

from __future__ import annotations

import torch

from weft.attention.step_attention import KeysValues
from weft.models.encoders import Encoded
from weft.models.transformer_decoder import TransformerDecoder, TransformerMemory


def applies(self: TransformerDecoder, encoded: Encoded) -> bool:
    """Not in training on a GPU, where padding would be computed with."""
    return not (encoded.states.values.is_cuda and torch.is_grad_enabled())


def build_memory(self: TransformerDecoder, encoded: Encoded) -> TransformerMemory:
    """See `TransformerDecoder.build_memory`."""
    states = encoded.states
    padded_BSD = states.to_padded() if states.values.is_cuda else None
    layers = []
    for layer in self.stack.layers:
        assert layer.cross_attention is not None
        if padded_BSD is not None:
            keys_BHSD, values_BHSD = (part.transpose(1, 2) for part in layer.cross_attention.keys_values(padded_BSD))
        else:
            keys_values = layer.cross_attention.keys_values(states.values)
            keys_BHSD, values_BHSD = (states.like(part).to_padded().transpose(1, 2) for part in keys_values)
            keys_BHSD = keys_BHSD.transpose(2, 3).contiguous().transpose(2, 3)
            values_BHSD = values_BHSD.contiguous()
        layers.append(KeysValues(keys_BHSD, values_BHSD))
    return TransformerMemory(tuple(layers), self.source_mask(encoded))
