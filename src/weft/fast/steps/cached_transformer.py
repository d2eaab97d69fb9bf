"""Search steps of a Transformer in a key–value cache of fixed capacity.

Equal to `TransformerDecoder.step` with a `TransformerState` and `PrefixLM.step` with a `PrefixState`, whose tensors
grow; tests/fast/steps/test_cached_transformer.py. Here no shape depends on the number of tokens and nothing waits for
the device, so that a step can be captured as a CUDA graph; on CUDA each residual addition is fused with the norm that
follows it. `weft.fast.steps.fixed_capacity` gives a state its cache.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import torch
from torch import Tensor, nn

from weft.attention.multihead import KeysValues, SelfAttention, StepKeysValues
from weft.attention.ragged_attention import AlignmentHeads, mean_of_heads, renormalize
from weft.attention.relative_positions import Rotation
from weft.fast.steps.kv_cache import KVCache, attention_output
from weft.fast.torch_private import addmm_activation
from weft.models.interface import StepOutput
from weft.models.layers import ResidualBlock, normalize
from weft.models.positions import Sinusoidal
from weft.models.prefix_lm import PrefixLM, PrefixMemory
from weft.models.transformer import ACTIVATIONS, FeedForward, TransformerLayer, TransformerStack
from weft.models.transformer_decoder import TransformerDecoder, TransformerMemory


class CachedState(NamedTuple):
    """The state of hypotheses whose keys and values are in a cache."""

    cache: KVCache

    @staticmethod
    def of(
        layers: tuple[KeysValues, ...], tokens: int, *, return_attention: bool, is_written: bool = True
    ) -> CachedState:
        """The history of a plain state, with storage for at least ``tokens`` more tokens; see `KVCache.of`."""
        cache = KVCache.of(layers, tokens, is_written=is_written)
        return CachedStateWithAttention(cache) if return_attention else CachedState(cache)


class CachedStateWithAttention(CachedState):
    """A `CachedState` of a search that returns attention weights: a separate type, as states hold only tensors."""


def is_cached_decoder(self: TransformerDecoder, embedded_RE: Tensor, state: object, memory: TransformerMemory) -> bool:
    return isinstance(state, CachedState)


def decoder_step(
    self: TransformerDecoder, embedded_RE: Tensor, state: CachedState, memory: TransformerMemory
) -> tuple[Tensor, CachedState, Tensor | None]:
    """See `TransformerDecoder.step`."""
    stream_RD, state, attention_RS = cached_step(self.stack, embedded_RE, state, memory.step_sources(), self.alignment)
    return self.readout(stream_RD), state, attention_RS


def is_cached_lm(self: PrefixLM, tokens_R: Tensor, state: object, memory: PrefixMemory) -> bool:
    return isinstance(state, CachedState)


def lm_step(self: PrefixLM, tokens_R: Tensor, state: CachedState, memory: PrefixMemory) -> StepOutput:
    """See `PrefixLM.step`."""
    lengths_R = memory.lengths_B.repeat_interleave(len(tokens_R) // len(memory.lengths_B))
    sources = self.step_sources(memory, state.cache.length)
    embedded_RE = self.target_embedding(tokens_R)
    stream_RD, state, attention_RS = cached_step(
        self.stack, embedded_RE, state, sources, {self.alignment_layer: None}, lengths_R
    )
    if attention_RS is not None:
        attention_RS = renormalize(attention_RS[:, : memory.mask_B11S.shape[-1]])
    return StepOutput(self.output(self.readout(stream_RD)), state, attention_RS)


class CachedStep(NamedTuple):
    """The result of `cached_step`."""

    stream_RD: Tensor
    """The residual stream after the final norm."""
    state: CachedState
    attention_RS: Tensor | None
    """Mean weights of the heads that are the word alignment, if the state asks for them: over the source or, without
    cross-attention, over the source and the cache."""


def cached_step(
    stack: TransformerStack,
    embedded_RE: Tensor,
    state: CachedState,
    source: Sequence[StepKeysValues | None],
    alignment: AlignmentHeads,
    source_lengths_R: Tensor | None = None,
) -> CachedStep:
    """One token per row; ``source``: keys and values of the source for each layer.

    Without cross-attention the source, if any, is a prefix of the history: positions continue those of the source,
    whose lengths are given.
    """
    cache = state.cache
    longest = cache.capacity
    if source_lengths_R is not None and source[0] is not None:
        longest += source[0].keys_BHSD.shape[2]
    longest = min(longest, stack.max_positions or longest)  # finished rows may run past the last position
    stream_RD, rotation, longer_1 = _embed(stack, embedded_RE, cache.length, source_lengths_R, longest)
    stream = _Stream(stream_RD)
    biases: list[Tensor | None] = [None] * len(stack.layers)
    if stack.relative_bias is not None:
        history_T = torch.arange(cache.capacity, device=embedded_RE.device)
        biases = _contiguous(stack.position_biases(cache.length, history_T))
    if embedded_RE.is_cuda and not isinstance(state, CachedStateWithAttention):
        from weft.fast.steps.few_rows_transformer import is_small, small_layers

        if is_small(stack, stream.values_RD):
            stream = _Stream(small_layers(stack, stream.values_RD, cache, rotation, biases, source))
            state = state._replace(cache=cache._replace(length=longer_1))
            return CachedStep(stream.close(stack.final_norm), state, None)
    weights: dict[int, Tensor] = {}
    for number, (layer, keys_values) in enumerate(zip(stack.layers, source, strict=True)):
        residual, attention = layer.self_attention_residual, layer.self_attention
        returned = number in alignment and isinstance(state, CachedStateWithAttention)
        prefix = keys_values if layer.cross_attention is None else None
        projected_RD = attention.query_key_value(stream.input(residual))
        projected_RHD = rotate_projected(attention, attention.split_heads(projected_RD), rotation)
        given = (number, projected_RHD, biases[number], attention.normalize, prefix)
        if returned and prefix is not None:
            outputs_RHD, weights[number] = cache.step_with_weights(*given)
        else:
            outputs_RHD = cache.step(*given)
        output_RD = attention.output(outputs_RHD.flatten(1))
        stream.add(residual, output_RD)
        if layer.cross_attention is not None and keys_values is not None:
            weights_RHS = _cross_attention(layer, stream, keys_values, return_attention=returned)
            if weights_RHS is not None:
                weights[number] = weights_RHS
        if layer.feed_forward is not None:
            residual = layer.feed_forward_residual
            stream.add(residual, _feed_forward(layer.feed_forward, stream.input(residual)))
    attention_RS = mean_of_heads(weights, alignment) if weights else None
    state = state._replace(cache=cache._replace(length=longer_1))
    return CachedStep(stream.close(stack.final_norm), state, attention_RS)


def _embed(
    stack: TransformerStack, embedded_RE: Tensor, length_1: Tensor, source_lengths_R: Tensor | None, longest: int
) -> tuple[Tensor, Rotation | None, Tensor]:
    """The input of the first layer, the rotation of its position, and the length after this step."""
    plain = isinstance(stack.input_projection, nn.Identity) and stack.embedding_norm is None
    if embedded_RE.is_cuda and plain and isinstance(stack.positions, Sinusoidal) and source_lengths_R is None:
        from weft.fast.triton.embed_step import embed_step

        table_PD, scale = stack.positions.table(longest), stack.embedding_scale
        stream_RD, longer_1 = embed_step(embedded_RE, table_PD, length_1, longest=longest, scale=scale)
        return stream_RD, None, longer_1
    next_R = length_1 if source_lengths_R is None else length_1 + source_lengths_R
    positions_R = next_R.clamp(max=longest - 1).expand(len(embedded_RE))
    stream_RD = stack.embed(embedded_RE, positions_R, longest)
    return stream_RD, stack.rotation(positions_R, stream_RD.dtype), length_1 + 1


def rotate_projected(attention: SelfAttention, projected_RHD: Tensor, rotation: Rotation | None) -> Tensor:
    """Queries, keys and values, one head after the other, of which the first two are rotated, if positions are."""
    if rotation is None:
        return projected_RHD
    rotated, values_RHD = projected_RHD.split([attention.heads + attention.kv_heads, attention.kv_heads], 1)
    return torch.cat([rotation.rotate(rotated), values_RHD], 1)


def _feed_forward(network: FeedForward, stream_RD: Tensor) -> Tensor:
    """The output of the network; on CUDA the ReLU is part of the product."""
    first, second = network.linear1, network.linear2
    is_plain = type(first) is type(second) is nn.Linear and first.weight.dtype == stream_RD.dtype
    if stream_RD.is_cuda and is_plain and network.activation is ACTIVATIONS["relu"]:
        return second(addmm_activation(first.bias, stream_RD, first.weight.t()))
    return network(stream_RD)


def _contiguous(biases: Sequence[Tensor | None]) -> list[Tensor | None]:
    """The biases (H, T) of one query; what layers share is copied once."""
    different = {id(bias): bias for bias in biases}
    copies = {key: None if bias is None else bias[:, 0].contiguous() for key, bias in different.items()}
    return [copies[id(bias)] for bias in biases]


def _cross_attention(
    layer: TransformerLayer, stream: _Stream, source: StepKeysValues, *, return_attention: bool
) -> Tensor | None:
    """The weights (R, H, S), if they are to be returned."""
    attention, residual = layer.cross_attention, layer.cross_attention_residual
    assert attention is not None
    weights_RHS = None
    if return_attention:
        output_RD, weights_RHS = attention.step(stream.input(residual), source)
    else:
        queries_RHD = attention.split_heads(attention.query(stream.input(residual)))
        output_RD = attention.output(attention_output(queries_RHD, source, attention.normalize).flatten(1))
    stream.add(residual, output_RD)
    return weights_RHS


class _Stream:
    """The residual stream. In a pre-norm stack the output of a sub-layer is added together with the next norm."""

    def __init__(self, values_RD: Tensor) -> None:
        self.values_RD = values_RD
        self.pending_RD: Tensor | None = None
        """Still to be added to the values."""

    def input(self, residual: ResidualBlock) -> Tensor:
        """Equal to `ResidualBlock.input`."""
        return self._normalized(residual.norm) if residual.pre_norm else self.values_RD

    def add(self, residual: ResidualBlock, output_RD: Tensor) -> None:
        """Equal to `ResidualBlock.add`; there is no dropout in a search."""
        if residual.pre_norm:
            self.pending_RD = output_RD
        else:
            self.values_RD = add_and_normalize(residual.norm, self.values_RD, output_RD)[1]

    def close(self, final_norm: nn.Module | None) -> Tensor:
        """Equal to `TransformerStack.normalize` after the last layer."""
        return self.values_RD if final_norm is None else self._normalized(final_norm)

    def _normalized(self, norm: nn.Module) -> Tensor:
        if self.pending_RD is None:
            return normalize(norm, self.values_RD)
        self.values_RD, normalized_RD = add_and_normalize(norm, self.values_RD, self.pending_RD)
        self.pending_RD = None
        return normalized_RD


def add_and_normalize(norm: nn.Module, stream_RD: Tensor, output_RD: Tensor) -> tuple[Tensor, Tensor]:
    """x + f and its norm; on CUDA by one kernel."""
    if stream_RD.is_cuda and isinstance(norm, nn.LayerNorm | nn.RMSNorm):
        from weft.fast.triton.add_norm import MAX_WIDTH, add_norm

        if stream_RD.shape[-1] <= MAX_WIDTH:
            bias_D = norm.bias if isinstance(norm, nn.LayerNorm) else None
            return add_norm(stream_RD, output_RD, norm.weight, bias_D, norm.eps or 0.0)
    added_RD = stream_RD + output_RD
    return added_RD, normalize(norm, added_RD)
