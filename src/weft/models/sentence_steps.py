"""Search steps of a Transformer for one sentence on a CPU.

Plain counterpart: `Seq2Seq.step`, for any number of sentences. Held to it by tests/models/test_sentence_steps.py, up to
rounding. What one sentence allows:

- Few rows are multiplied by weights that are laid out for that (`weft.kernels.few_rows`).
- All hypotheses have the same source, of keys K and values V. Per head, with the projections of queries and outputs,

      softmax((x W_Q + b_Q) Kᵀ / √d) V W_O = softmax(x (W_Q Kᵀ / √d) + b_Q Kᵀ / √d) (V W_O)

  and the products in parentheses are computed once.
- The keys and values of all hypotheses are in one pool, in the order in which they were computed: they are never
  copied. The state of a hypothesis is a mask: which of them belong to its own tokens.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

import torch
from torch import Tensor, nn
from torch.nn import functional

from weft.attention.step_attention import KeysValues
from weft.kernels.few_rows import MAX_ROWS, FewRowsWeights, few_rows_linear
from weft.models.cpu_step import has_plain_layers, normalize
from weft.models.interface import StepOutput, mean_of_heads
from weft.models.positions import Sinusoidal
from weft.models.seq2seq import Seq2Seq
from weft.models.transformer import TransformerLayer
from weft.models.transformer_decoder import TransformerDecoder, TransformerMemory

FIRST_CAPACITY = 32
"""Tokens of each hypothesis that the pool has room for at first; it doubles when it is full."""


def sentence_steps(
    model: Seq2Seq, memory: TransformerMemory, *, rows: int, return_attention: bool
) -> SentenceSteps | None:
    """The steps of one sentence with ``rows`` hypotheses; None where this module has none."""
    decoder, keys_BHSD = model.decoder, memory.layers[0].keys
    sources, _, length, width = keys_BHSD.shape
    assert isinstance(decoder, TransformerDecoder)
    if sources != 1 or rows > MAX_ROWS or length > 2 * width or keys_BHSD.dtype != torch.float32:
        return None  # a source of more than 2 d tokens makes W_Q Kᵀ larger than W_Q and K
    if not has_plain_layers(decoder.stack, keys_BHSD) or not all(map(_has_plain_maps, decoder.stack.layers)):
        return None
    return SentenceSteps(model, decoder, memory, rows=rows, return_attention=return_attention)


def _has_plain_maps(layer: TransformerLayer) -> bool:
    """Whether its linear maps are nothing but a matrix and a bias: neither adapters nor 8-bit products."""
    own, cross, network = layer.self_attention, layer.cross_attention, layer.feed_forward
    assert cross is not None and network is not None
    maps: list[Any] = [
        own.query_key_value, own.output, cross.query, cross.output, network.linear1, network.linear2
    ]  # fmt: skip
    return all(type(one) is nn.Linear and one.bias is not None and one.weight.is_contiguous() for one in maps)


class _Layer(NamedTuple):
    """What the steps read of a layer."""

    query_key_value: FewRowsWeights
    output: FewRowsWeights
    source_keys_ND: Tensor
    """W_Q Kᵀ / √d for N = H × S pairs of a head and a source token."""
    source_bias_N: Tensor
    """b_Q Kᵀ / √d, and the mask of the source."""
    source_values_ND: Tensor
    """V W_O, and the bias of W_O: the weights of each head sum to one."""
    linear1: FewRowsWeights
    linear2: FewRowsWeights
    activation: Callable[[Tensor], Tensor]
    norms: tuple[nn.Module, nn.Module, nn.Module]

    @classmethod
    def of(cls, layer: TransformerLayer, source: KeysValues, mask_B11S: Tensor, rows: int) -> _Layer:
        own, cross, network = layer.self_attention, layer.cross_attention, layer.feed_forward
        assert cross is not None and network is not None
        keys_HSD, values_HSD = source.keys[0], source.values[0]
        heads, length, width = keys_HSD.shape
        scale = 1.0 / math.sqrt(width)
        query: Any = cross.query
        query_HDE = query.weight.view(heads, width, -1)
        bias_HS1 = torch.bmm(keys_HSD, query.bias.view(heads, width, 1)).mul_(scale)
        output_HDE = cross.output.weight.view(-1, heads, width).permute(1, 2, 0)
        return cls(
            _few_rows(own.query_key_value, rows),
            _few_rows(own.output, rows),
            torch.bmm(keys_HSD, query_HDE).mul_(scale).view(heads * length, -1),
            (bias_HS1[:, :, 0] + mask_B11S[0, :, 0]).flatten(),
            torch.bmm(values_HSD, output_HDE).add_(cross.output.bias / heads).view(heads * length, -1),
            _few_rows(network.linear1, rows),
            _few_rows(network.linear2, rows),
            network.activation,
            (layer.self_attention_residual.norm, layer.cross_attention_residual.norm, layer.feed_forward_residual.norm),
        )


def _few_rows(linear: nn.Linear, rows: int) -> FewRowsWeights:
    return FewRowsWeights.of(linear, linear.weight, linear.bias, rows=rows)


class _Storage(NamedTuple):
    """Where a layer writes the queries, keys and values of new tokens, and what it reads: views of one tensor.

    Of all layers together, each has another axis in front.
    """

    new_RE: Tensor
    queries_HRD: Tensor
    keys_HDP: Tensor
    values_HPD: Tensor


class SentenceSteps:
    """A `StepModel` for one search of one sentence, whose steps are taken one after the other.

    The state is the mask (R, P): 0 where one of the P tokens in the pool is of the hypothesis, −∞ elsewhere.
    """

    def __init__(
        self,
        model: Seq2Seq,
        decoder: TransformerDecoder,
        memory: TransformerMemory,
        *,
        rows: int,
        return_attention: bool,
    ) -> None:
        stack = decoder.stack
        self.embedding_VE, self.decoder, self.output = model.target_embedding.weight_VE, decoder, model.output
        self.embedding_scale, self.embedding_norm = stack.embedding_scale, stack.embedding_norm
        sinusoids = stack.positions.table if isinstance(stack.positions, Sinusoidal) else None
        self.positions: Any = sinusoids or stack.positions
        self.sinusoids_PD: Tensor | None = None if sinusoids is None else sinusoids.values_PD
        self.input_projection, self.readout = (
            _unless_identity(one) for one in (stack.input_projection, decoder.readout)
        )
        self.final_norm, self.pre_norm = stack.final_norm, stack.final_norm is not None
        self.return_attention = return_attention
        parts = zip(stack.layers, memory.layers, strict=True)
        self.layers = [_Layer.of(layer, source, memory.mask_B11S, rows) for layer, source in parts]
        self.output_weights = FewRowsWeights.of(self.output, self.output.weight_VD, self.output.bias_V, rows=rows)
        self.heads, self.head_width = memory.layers[0].keys.shape[1::2]
        self.scale = 1.0 / math.sqrt(self.head_width)
        self.own_RR = torch.full((rows, rows), -math.inf).fill_diagonal_(0.0)
        """The mask of the tokens of a step: each belongs to its own hypothesis."""
        self.pool = self._new_pool(FIRST_CAPACITY * rows)
        self.times = {0: 0}
        """The position of the next token, by the number of tokens in the pool."""

    def _new_pool(self, capacity: int) -> _Storage:
        """Storage of all layers for this many tokens."""
        pool_LPE = torch.empty(len(self.layers), capacity, 3 * self.heads * self.head_width)
        queries_LPHD, keys_LPHD, values_LPHD = pool_LPE.unflatten(2, (3, self.heads, self.head_width)).unbind(2)
        return _Storage(
            pool_LPE, queries_LPHD.transpose(1, 2), keys_LPHD.permute(0, 2, 3, 1), values_LPHD.transpose(1, 2)
        )

    def start(self, memory: TransformerMemory) -> Tensor:
        return memory.mask_B11S.new_zeros(1, 0)

    def step(self, tokens_R: Tensor, state: Tensor, memory: TransformerMemory) -> StepOutput:
        rows, stored = state.shape
        state_RP = torch.cat([state, self.own_RR[:rows, :rows]], 1)
        time = self.times[stored]
        self.times[stored + rows] = time + 1
        stream_RD = self._embed(tokens_R, time)
        weights: dict[int, Tensor] = {}
        for number, (layer, storage) in enumerate(zip(self.layers, self._storage(stored, rows), strict=True)):
            norm1, norm2, norm3 = layer.norms
            output_RD = self._self_attention(layer, self._input(norm1, stream_RD), state_RP, storage)
            stream_RD = self._added(norm1, stream_RD + output_RD)
            scores_RN = functional.linear(self._input(norm2, stream_RD), layer.source_keys_ND, layer.source_bias_N)
            weights_RHS = torch.softmax(scores_RN.view(rows, self.heads, -1), -1)
            added_RD = torch.addmm(stream_RD, weights_RHS.view(rows, -1), layer.source_values_ND)
            stream_RD = self._added(norm2, added_RD)
            if self.return_attention and number in self.decoder.alignment:
                weights[number] = weights_RHS
            hidden_RF = layer.activation(few_rows_linear(self._input(norm3, stream_RD), layer.linear1))
            stream_RD = self._added(norm3, stream_RD + few_rows_linear(hidden_RF, layer.linear2))
        stream_RD = stream_RD if self.final_norm is None else normalize(self.final_norm, stream_RD)
        attention_RS = mean_of_heads(weights, self.decoder.alignment) if self.return_attention else None
        return StepOutput(self._logits(stream_RD), state_RP, attention_RS)

    def _embed(self, tokens_R: Tensor, time: int) -> Tensor:
        """What `TransformerStack.embed` gives."""
        stream_RD = torch.embedding(self.embedding_VE, tokens_R).mul_(self.embedding_scale)
        stream_RD = stream_RD if self.input_projection is None else self.input_projection(stream_RD)
        if self.sinusoids_PD is not None:
            if time >= self.sinusoids_PD.shape[0]:
                self.sinusoids_PD = self.positions(time + 1)
            stream_RD = stream_RD.add_(self.sinusoids_PD[time])
        elif self.positions is not None:
            stream_RD = stream_RD.add_(self.positions(torch.tensor([time]), time + 1))
        return stream_RD if self.embedding_norm is None else normalize(self.embedding_norm, stream_RD)

    def _storage(self, stored: int, rows: int) -> Iterator[_Storage]:
        """Of each layer, with ``rows`` tokens more than ``stored``."""
        total = stored + rows
        if total > self.pool.new_RE.shape[1]:
            larger = self._new_pool(2 * self.pool.new_RE.shape[1])
            larger.new_RE[:, :stored] = self.pool.new_RE[:, :stored]
            self.pool = larger
        new_LPE, queries_LHPD, keys_LHDP, values_LHPD = self.pool
        parts = (
            new_LPE.narrow(1, stored, rows),
            queries_LHPD.narrow(2, stored, rows),
            keys_LHDP.narrow(3, 0, total),
            values_LHPD.narrow(2, 0, total),
        )
        return map(_Storage, *(part.unbind(0) for part in parts))

    def _self_attention(self, layer: _Layer, stream_RD: Tensor, state_RP: Tensor, storage: _Storage) -> Tensor:
        new_RE, queries_HRD, keys_HDP, values_HPD = storage
        new_RE.copy_(few_rows_linear(stream_RD, layer.query_key_value))
        scores_HRP = torch.baddbmm(state_RP, queries_HRD, keys_HDP, alpha=self.scale)
        attended_RHD = torch.bmm(torch.softmax(scores_HRP, -1), values_HPD).transpose(0, 1)
        return few_rows_linear(attended_RHD.reshape(stream_RD.shape[0], -1), layer.output)

    def _input(self, norm: nn.Module, stream_RD: Tensor) -> Tensor:
        """The input of a sub-layer."""
        return normalize(norm, stream_RD) if self.pre_norm else stream_RD

    def _added(self, norm: nn.Module, added_RD: Tensor) -> Tensor:
        """The stream after the output of a sub-layer was added."""
        return added_RD if self.pre_norm else normalize(norm, added_RD)

    def _logits(self, stream_RD: Tensor) -> Tensor:
        states_RD = stream_RD if self.readout is None else self.readout(stream_RD)
        return self.output.logits(few_rows_linear(states_RD, self.output_weights).contiguous())


def _unless_identity(module: nn.Module) -> nn.Module | None:
    return None if isinstance(module, nn.Identity) else module
