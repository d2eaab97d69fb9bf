"""Which modules, and which sources, the kernels of one sentence can read: all other models take other steps.

C reads addresses, so everything that it takes for granted is looked at here; tests/fast/steps/test_native_coverage.py.
"""

from __future__ import annotations

import torch
from torch import Tensor, nn

from weft.attention.multihead import CrossAttention, SelfAttention
from weft.attention.normalizers import softmax
from weft.fast.cpu.compiled import Linear
from weft.fast.cpu.int8 import Int8Linear
from weft.fast.steps.quantization import Int8Output
from weft.models.layers import Output
from weft.models.transformer import ACTIVATIONS, TransformerLayer, TransformerStack
from weft.models.transformer_decoder import TransformerMemory

ACTIVATION_NUMBERS = {
    ACTIVATIONS[name]: kind
    for name, kind in {
        "relu": 0, "gelu": 1, "gelu_tanh": 2, "silu": 3, "swiglu": 19, "geglu": 17, "geglu_tanh": 18
    }.items()
}  # fmt: skip
"""Numbers of the activations in native/transformer.c: 16 more where they are gated."""


def are_floats(*tensors: Tensor | None) -> bool:
    """Whether C can read all of them."""
    return all(
        tensor is None or (tensor.dtype == torch.float32 and tensor.is_cpu and tensor.is_contiguous())
        for tensor in tensors
    )


def is_covered_memory(memory: TransformerMemory) -> bool:
    """Whether it is one sentence, which is not empty, with one mask for all heads."""
    keys_BHSD = memory.layers[0].keys
    sources, _, length, _ = keys_BHSD.shape
    return (
        sources == 1
        and length > 0
        and memory.mask_B11S.shape == (1, 1, 1, length)
        and all(part.shape == keys_BHSD.shape for layer in memory.layers for part in layer)
        and all(
            part.dtype == torch.float32 and part.is_cpu
            for part in (memory.mask_B11S, *(part for layer in memory.layers for part in layer))
        )
    )


def is_covered_stack(stack: TransformerStack) -> bool:
    """Whether every layer has both attentions, with softmax, and a feed-forward network, of modules that C can read."""
    return (
        not torch.is_autocast_enabled("cpu")
        and (stack.final_norm is None or _is_native_norm(stack.final_norm))
        and all(
            type(layer.self_attention) is SelfAttention
            and type(layer.cross_attention) is CrossAttention
            and layer.feed_forward is not None
            and layer.self_attention.normalize is softmax  # edited weights need their own axes
            and layer.cross_attention.normalize is softmax
            and layer.feed_forward.activation in ACTIVATION_NUMBERS
            and all(map(is_native_map, maps_of(layer)))
            and all(map(_is_native_norm, norms_of(layer)))
            for layer in stack.layers
        )
    )


def maps_of(layer: TransformerLayer) -> list[nn.Module]:
    own, cross, network = layer.self_attention, layer.cross_attention, layer.feed_forward
    assert cross is not None and network is not None
    return [own.query_key_value, own.output, cross.query, cross.output, network.linear1, network.linear2]


def norms_of(layer: TransformerLayer) -> list[nn.Module]:
    residuals = (layer.self_attention_residual, layer.cross_attention_residual, layer.feed_forward_residual)
    return [residual.norm for residual in residuals]


def is_observed(module: nn.Module) -> bool:
    """Whether the calls of a module are observed or changed by hooks."""
    return bool(module._forward_hooks or module._forward_pre_hooks)


def is_native_map(linear: nn.Module) -> bool:
    """Whether C can read a map: a matrix and a bias in fp32 or in 8-bit integers, without adapters."""
    if is_observed(linear):
        return False
    if type(linear) is Int8Linear:
        return True
    return type(linear) is nn.Linear and are_floats(linear.weight, linear.bias)


def _is_native_norm(norm: nn.Module) -> bool:
    """Whether C can read a norm: with weights, and a layer norm also with biases."""
    if is_observed(norm):
        return False
    if type(norm) is nn.LayerNorm:
        return norm.weight is not None and norm.bias is not None and are_floats(norm.weight, norm.bias)
    return type(norm) is nn.RMSNorm and norm.weight is not None and are_floats(norm.weight)


def is_native_output(output: Output) -> bool:
    if is_observed(output):
        return False
    if type(output) is Int8Output:
        return not is_observed(output.linear)
    return type(output).scores is Output.scores and are_floats(output.weight_VD, output.bias_V)


def has_plain_logits(output: Output) -> bool:
    """Whether the logits are the scores that C computes: those of cross-entropy."""
    return type(output) in (Output, Int8Output) and output.loss == Output.loss


def native_map(linear: nn.Module) -> Linear:
    """A linear map as C reads it."""
    if isinstance(linear, Int8Linear):
        return linear.native_map()
    assert isinstance(linear, nn.Linear)
    return Linear.of(linear.weight, linear.bias)


def output_map(output: Output) -> Linear:
    if isinstance(output, Int8Output):
        return native_map(output.linear)
    return Linear.of(output.weight_VD, output.bias_V)
