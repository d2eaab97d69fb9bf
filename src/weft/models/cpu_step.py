"""Search steps of a Transformer decoder on a CPU in few calls: of a step of one sentence they take most of the time.

Plain counterpart: the loop over layers of `TransformerStack.step`, which covers every kind of layer, by modules. Held
to it by tests/models/test_cpu_step.py, bit for bit.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any, cast

import torch
from torch import Tensor, nn
from torch.nn import functional

from weft.attention.multihead import CrossAttention, SelfAttention
from weft.attention.normalizers import softmax
from weft.attention.step_attention import History, KeysValues, StepKeysValues
from weft.models.residual import ResidualBlock
from weft.models.transformer import TransformerLayer, TransformerStack


def has_plain_layers(stack: TransformerStack, stream_RD: Tensor) -> bool:
    """Whether this module can step the layers: on a CPU, without dropout or gradients, and with plain attention."""
    if stream_RD.device.type != "cpu" or stack.training or torch.is_grad_enabled():
        return False
    settings = stack.settings
    if settings.positions in ("rotary", "relative", "alibi") or settings.heads != settings.kv_heads:
        return False
    return not torch.is_autocast_enabled("cpu") and all(map(_is_plain, stack.layers))


def _is_plain(layer: TransformerLayer) -> bool:
    own, cross = layer.self_attention, layer.cross_attention
    if type(own) is not SelfAttention or type(cross) is not CrossAttention or layer.feed_forward is None:
        return False
    return own.normalize is softmax and cross.normalize is softmax  # edited weights need their own axes


def step_layers(
    stack: TransformerStack,
    stream_RD: Tensor,
    history: Sequence[History],
    sources: Sequence[StepKeysValues],
    returned: Sequence[int],
) -> tuple[Tensor, tuple[KeysValues, ...], dict[int, Tensor]]:
    """The stream after all layers, the longer history, and the weights (R, H, S) over the source of some layers."""
    longer: list[KeysValues] = []
    weights: dict[int, Tensor] = {}
    for number, layer in enumerate(stack.layers):
        modules: dict[str, Any] = layer._modules  # attributes of modules are slow to look up
        residual = modules["self_attention_residual"]
        output_RD, own = _self_attention(modules["self_attention"], _input(residual, stream_RD), history[number])
        stream_RD = _add(residual, stream_RD, output_RD)
        longer.append(own)
        residual = modules["cross_attention_residual"]
        cross, inputs_RD = modules["cross_attention"], _input(residual, stream_RD)
        output_RD, weights_BHKS = _cross_attention(cross, inputs_RD, sources[number])
        stream_RD = _add(residual, stream_RD, output_RD)
        if number in returned:
            weights[number] = weights_BHKS.transpose(1, 2).flatten(0, 1)
        residual, network = modules["feed_forward_residual"], modules["feed_forward"]
        hidden_RF = network.activation(_linear(network, "linear1", _input(residual, stream_RD)))
        stream_RD = _add(residual, stream_RD, _linear(network, "linear2", hidden_RF))
    return stream_RD, tuple(longer), weights


def _self_attention(attention: SelfAttention, stream_RD: Tensor, history: History) -> tuple[Tensor, KeysValues]:
    """The output, and the longer history."""
    rows, heads, width = stream_RD.shape[0], attention.heads, attention.head_width
    projected = _linear(attention, "query_key_value", stream_RD)
    queries_RHD, keys_RHD, values_RHD = projected.view(rows, 3, heads, width).unbind(1)
    longer = history.append(KeysValues(keys_RHD, values_RHD))
    keys_NTD, values_NTD = longer.keys.flatten(0, 1), longer.values.flatten(0, 1)
    scores_N1T = torch.bmm(queries_RHD.reshape(rows * heads, 1, width), keys_NTD.transpose(1, 2))
    weights_N1T = torch.softmax(scores_N1T.div_(math.sqrt(width)), -1)
    return _linear(attention, "output", torch.bmm(weights_N1T, values_NTD).view(rows, heads * width)), longer


def _cross_attention(attention: CrossAttention, stream_RD: Tensor, source: StepKeysValues) -> tuple[Tensor, Tensor]:
    """The output, and the weights (B, H, K, S) of the K rows of each source."""
    keys_BHSD, values_BHSD, bias = source
    rows, heads, width, sources = stream_RD.shape[0], attention.heads, attention.head_width, keys_BHSD.shape[0]
    queries_RD = _linear(attention, "query", stream_RD)
    queries_BHKD = queries_RD.view(sources, rows // sources, heads, width).transpose(1, 2)
    scores_BHKS = torch.matmul(queries_BHKD, keys_BHSD.transpose(2, 3)).div_(math.sqrt(width))
    if bias is not None:
        scores_BHKS += bias
    weights_BHKS = torch.softmax(scores_BHKS, -1)
    outputs_BHKD = torch.matmul(weights_BHKS, values_BHSD)
    return _linear(attention, "output", outputs_BHKD.transpose(1, 2).reshape(rows, heads * width)), weights_BHKS


def _input(residual: ResidualBlock, stream_RD: Tensor) -> Tensor:
    """What `ResidualBlock.input` gives."""
    return _normalize(residual, stream_RD) if residual.pre_norm else stream_RD


def _add(residual: ResidualBlock, stream_RD: Tensor, output_RD: Tensor) -> Tensor:
    """What `ResidualBlock.add` gives without dropout."""
    added_RD = stream_RD + output_RD
    return added_RD if residual.pre_norm else _normalize(residual, added_RD)


def _normalize(residual: ResidualBlock, stream_RD: Tensor) -> Tensor:
    return normalize(residual._modules["norm"], stream_RD)


def normalize(norm: Any, stream_RD: Tensor) -> Tensor:
    """A norm, in one call where it is a layer norm."""
    if type(norm) is not nn.LayerNorm:
        return cast(Tensor, norm(stream_RD))
    parameters = norm._parameters
    return torch.layer_norm(stream_RD, norm.normalized_shape, parameters["weight"], parameters["bias"], norm.eps)


def _linear(module: nn.Module, name: str, inputs_RD: Tensor) -> Tensor:
    """The product itself where a linear map is nothing else; 8-bit products and adapters are called as modules."""
    linear: Any = module._modules[name]
    if type(linear) is not nn.Linear:
        return cast(Tensor, linear(inputs_RD))
    parameters: dict[str, Any] = linear._parameters
    return functional.linear(inputs_RD, parameters["weight"], parameters["bias"])
