"""Input feeding over padded batches on a GPU: from a recurrent decoder to the arguments of its kernels.

A version of `weft.models.recurrent_decoder.RecurrentDecoder.run`; tests/contracts/test_gpu.py.
"""

from __future__ import annotations

import torch
from torch import Tensor, nn
from torch.nn import functional

from weft.attention.attention import Attention
from weft.attention.normalizers import softmax
from weft.attention.scores import HiddenLayerScore
from weft.fast.layers.layer_kernels import has_recurrent_kernels
from weft.fast.layers.recurrent_decoder import is_plain_lstm
from weft.models.recurrent_decoder import Memory, RecurrentDecoder
from weft.ragged import CapturableLayout, Ragged

MAX_SOURCE_LENGTH = 256
"""Source positions that the kernels support."""


def is_padded_input_feeding(
    decoder: RecurrentDecoder, embedded: Ragged, memory: Memory, return_attention: bool
) -> bool:
    """Whether the kernels can be used; they compute no attention weights."""
    is_padded = isinstance(embedded.layout, CapturableLayout) and has_recurrent_kernels(embedded.values)
    has_keys = memory.keys is not None and memory.keys.mask_BS.shape[1] <= MAX_SOURCE_LENGTH
    return is_padded and has_keys and not return_attention and _is_supported(decoder)


def padded_input_feeding(
    decoder: RecurrentDecoder, embedded: Ragged, memory: Memory, return_attention: bool
) -> tuple[Tensor, None]:
    """The forward pass by `weft.fast.triton.input_feeding`."""
    return _forward(decoder, embedded, memory), None


def _is_supported(decoder: RecurrentDecoder) -> bool:
    """Whether these are LSTM layers whose attention is the softmax of a dot product or of a score by a hidden layer."""
    attention, readout = decoder.attention, decoder.readout
    if not (decoder.input_feeding and decoder.attends_after and isinstance(attention, Attention)):
        return False
    plain_linears = all(type(module) is nn.Linear for module in (readout, *attention.score.children()))
    return (
        plain_linears
        and attention.normalize is softmax
        and attention.window is None
        and attention.features is None
        and attention.score.form is not None
        and is_plain_lstm(decoder.stack)
        and not decoder.feeds_summary
    )


def _forward(decoder: RecurrentDecoder, embedded: Ragged, memory: Memory) -> Tensor:
    """(N, O) ã_t of every target token."""
    from weft.fast.triton.input_feeding import FeedingSource, FeedingWeights, feed_inputs

    assert memory.keys is not None and decoder.readout is not None and decoder.attention is not None
    keys, score = memory.keys, decoder.attention.score
    hidden = (score.query_weight_AD, score.vector) if isinstance(score, HiddenLayerScore) else (None, None)
    layers = [decoder.stack.weights(level) for level in range(len(decoder.stack.layers))]
    size, order = decoder.embedding_size, embedded.layout.time_major
    biases = [layer.input_bias_G + layer.state_bias_G for layer in layers]
    inputs = [layers[0].input_GD[:, size:], *(layer.input_GD for layer in layers[1:])]
    joint = [torch.cat([part_GD, layer.state_GD], 1) for part_GD, layer in zip(inputs, layers, strict=True)]
    input_NG = order.sort(functional.linear(embedded.values, layers[0].input_GD[:, :size], biases[0]))
    states, cells = zip(*memory.initial, strict=True)
    outputs_TBO = feed_inputs(
        input_NG.view(len(order.batch_sizes), -1, input_NG.shape[1]),
        FeedingWeights(joint, biases[1:], decoder.readout.weight, decoder.readout.bias),
        FeedingSource(keys.keys_BSD, keys.values_BSD, keys.mask_BS, *hidden),
        states=list(states),
        cells=list(cells),
        probability=decoder.dropout if decoder.training else 0.0,
    )
    return order.unsort(outputs_TBO.flatten(0, 1))
