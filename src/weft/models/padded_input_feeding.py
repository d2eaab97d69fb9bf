"""Input feeding over padded batches on a GPU: from a recurrent decoder to the arguments of its kernels.

The results are those of `RecurrentDecoder._forward_steps`: tests/contracts/test_gpu.py.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

import torch
from torch import Tensor, nn
from torch.nn import functional

from weft.attention.attention import Attention
from weft.attention.normalizers import softmax
from weft.attention.scores import Dot, General, HiddenLayerScore
from weft.kernels.deferred_gradients import as_tensor
from weft.kernels.layer_kernels import has_lstm_kernels
from weft.ragged import PaddedTimeMajor, Ragged

if TYPE_CHECKING:
    from weft.models.recurrent_decoder import Memory, RecurrentDecoder

MAX_SOURCE_LENGTH = 256
"""Source positions that the kernels support."""
SCORES = (Dot.forward, General.forward, HiddenLayerScore.forward)
"""The scores that the kernels compute."""

Forward = Callable[[Ragged, "Memory", bool], tuple[Tensor, Tensor | None]]


def padded_input_feeding(decoder: RecurrentDecoder, embedded: Ragged) -> Forward | None:
    """The forward pass by `weft.kernels.triton.input_feeding`, where it applies; it returns no attention weights."""
    is_padded = isinstance(embedded.layout.time_major, PaddedTimeMajor) and has_lstm_kernels(embedded.values)
    if not is_padded or not _is_supported(decoder):
        return None

    def forward(embedded: Ragged, memory: Memory, return_attention: bool) -> tuple[Tensor, Tensor | None]:
        if memory.keys is None or memory.keys.mask_BS.shape[1] > MAX_SOURCE_LENGTH:
            return decoder._forward_steps(embedded, memory, return_attention)
        return _forward(decoder, embedded, memory), None

    return forward


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
        and type(attention.score).forward in SCORES
        and decoder.stack.is_plain_lstm
        and not decoder.feeds_summary
    )


def _forward(decoder: RecurrentDecoder, embedded: Ragged, memory: Memory) -> Tensor:
    """(N, O) ã_t of every target token."""
    from weft.kernels.triton.input_feeding import FeedingSource, FeedingWeights, feed_inputs

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
        FeedingSource(as_tensor(keys.keys_BSD), as_tensor(keys.values_BSD), keys.mask_BS, *hidden),
        states=list(states),
        cells=list(cells),
        probability=decoder.dropout if decoder.training else 0.0,
    )
    return order.unsort(outputs_TBO.flatten(0, 1))
