"""Search steps of a Transformer for one sentence on a CPU.

Equal to `Seq2Seq.step` up to rounding; tests/fast/steps/test_one_sentence_transformer.py. What one sentence allows:

- Few rows are multiplied by weights that are laid out for that (`weft.fast.layers.few_rows_linear`).
- All hypotheses have the same source, of keys K and values V. Per head, with the projections of queries and outputs,

      softmax((x W_Q + b_Q) Kᵀ / √d) V W_O = softmax(x (W_Q Kᵀ / √d) + b_Q Kᵀ / √d) (V W_O)

  and the products in parentheses are computed once.
- The keys and values of all hypotheses are in one pool, in the order in which they were computed: they are never
  copied. The state of a hypothesis is a mask: which of them belong to its own tokens.

Rotary positions rotate queries and keys where they are in the pool; biases by distance are added to the mask.

`one_sentence_steps` chooses these steps where they apply, else those of the model
(`weft.search.loop.steps_for`); tests/fast/steps/test_one_sentence_transformer_choose.py.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Any, NamedTuple, cast
from weakref import WeakKeyDictionary

import torch
from torch import Tensor, nn
from torch.nn import functional

from weft.attention.multihead import CrossAttention, Heads, KeysValues, SelfAttention
from weft.attention.normalizers import softmax
from weft.attention.ragged_attention import mean_of_heads
from weft.attention.relative_positions import rotation
from weft.fast.cpu import compiled
from weft.fast.layers.few_rows_linear import MAX_ROWS, FewRowsWeights, few_rows_linear
from weft.models.architecture import architecture_of
from weft.models.interface import StepOutput
from weft.models.positions import Sinusoidal
from weft.models.seq2seq import Seq2Seq
from weft.models.transformer import TransformerLayer, TransformerStack
from weft.models.transformer_decoder import TransformerDecoder, TransformerMemory
from weft.search.interface import SearchRequest, StepModel
from weft.translation.engines.torch import StartedModel

if TYPE_CHECKING:
    from weft.models.seq2seq import Seq2Seq

FIRST_CAPACITY = 32
"""Tokens of each hypothesis that the pool has room for at first; it doubles when it is full."""


def is_one_sentence_on_cpu(model: StepModel, request: SearchRequest, *, rows: int, return_attention: bool) -> bool:
    return len(request.max_lengths) == 1 and torch.device(request.device).type == "cpu"


def one_sentence_steps(model: StepModel, request: SearchRequest, *, rows: int, return_attention: bool) -> StepModel:
    """The steps of a search of one sentence."""
    return find_one_sentence_steps(model, request.memory, rows=rows, return_attention=return_attention) or model


def find_one_sentence_steps(model: StepModel, memory: Any, *, rows: int, return_attention: bool) -> StepModel | None:
    """The faster steps of a model for one sentence; None: it has none."""
    if isinstance(model, StartedModel):
        steps = find_one_sentence_steps(model.model, memory, rows=rows, return_attention=return_attention)
        return None if steps is None else StartedModel(steps, model.tokens)
    if isinstance(model, nn.Module) and is_plain_transformer(model):
        seq2seq, wanted = cast("Seq2Seq", model), {"rows": rows, "return_attention": return_attention}
        if compiled.loaded is not None:
            from weft.fast.steps.native_transformer import native_steps

            if (native := native_steps(seq2seq, memory, **wanted)) is not None:
                return native
        return sentence_steps(seq2seq, memory, **wanted)
    return None


_plain_transformers: WeakKeyDictionary[nn.Module, bool] = WeakKeyDictionary()


def is_plain_transformer(model: nn.Module) -> bool:
    """Whether a model is one of weft's encoder–decoders with a Transformer; it is asked once."""
    if model not in _plain_transformers:
        described = architecture_of(model)
        is_plain = described.kind == "seq2seq" and described.is_plain and described.is_transformer
        _plain_transformers[model] = is_plain
    return _plain_transformers[model]


def sentence_steps(
    model: Seq2Seq, memory: TransformerMemory, *, rows: int, return_attention: bool
) -> SentenceSteps | None:
    """The steps of one sentence with ``rows`` hypotheses; None where this module has none."""
    decoder, keys_BHSD = cast(TransformerDecoder, model.decoder), memory.layers[0].keys
    sources, _, length, width = keys_BHSD.shape
    if sources != 1 or rows > MAX_ROWS or length > 2 * width or keys_BHSD.dtype != torch.float32:
        return None  # a source of more than 2 d tokens makes W_Q Kᵀ larger than W_Q and K
    if keys_BHSD.device.type != "cpu" or decoder.training or torch.is_grad_enabled() or not _is_covered(decoder.stack):
        return None
    return SentenceSteps(model, decoder, memory, rows=rows, return_attention=return_attention)


def _is_covered(stack: TransformerStack) -> bool:
    """Whether every layer has both attentions, with softmax, and a feed-forward network, of plain linear maps."""
    return not torch.is_autocast_enabled("cpu") and all(
        type(layer.self_attention) is SelfAttention
        and type(layer.cross_attention) is CrossAttention
        and layer.feed_forward is not None
        and layer.self_attention.normalize is softmax  # edited weights need their own axes
        and layer.cross_attention.normalize is softmax
        and _has_plain_maps(layer)
        for layer in stack.layers
    )


def _has_plain_maps(layer: TransformerLayer) -> bool:
    """Whether its linear maps are nothing but a matrix and a bias: neither adapters nor 8-bit products."""
    own, cross, network = layer.self_attention, layer.cross_attention, layer.feed_forward
    assert cross is not None and network is not None
    maps: list[Any] = [
        own.query_key_value, own.output, cross.query, cross.output, network.linear1, network.linear2
    ]  # fmt: skip
    return all(type(one) is nn.Linear and one.bias is not None and one.weight.is_contiguous() for one in maps)


Norm = Callable[[Tensor], Tensor]


def _norm(norm: nn.Module) -> Norm:
    """A norm, without the calls of a module."""
    if isinstance(norm, nn.LayerNorm):
        shape, weight_D, bias_D, epsilon = norm.normalized_shape, norm.weight, norm.bias, norm.eps
        return lambda stream_RD: torch.layer_norm(stream_RD, shape, weight_D, bias_D, epsilon)
    assert isinstance(norm, nn.RMSNorm)
    rms_shape, rms_weight_D, rms_epsilon = norm.normalized_shape, norm.weight, norm.eps
    return lambda stream_RD: torch.rms_norm(stream_RD, rms_shape, rms_weight_D, rms_epsilon)


class _Layer(NamedTuple):
    """The weights of a layer as the steps read them."""

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
    norms: tuple[Norm, Norm, Norm]

    @classmethod
    def of(cls, layer: TransformerLayer, source: KeysValues, mask_B11S: Tensor, rows: int) -> _Layer:
        own, cross, network = layer.self_attention, layer.cross_attention, layer.feed_forward
        assert cross is not None and network is not None
        keys_HSD, values_HSD = (part[0].repeat_interleave(cross.heads // cross.kv_heads, 0) for part in source)
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
            (
                _norm(layer.self_attention_residual.norm),
                _norm(layer.cross_attention_residual.norm),
                _norm(layer.feed_forward_residual.norm),
            ),
        )


def _few_rows(linear: nn.Linear, rows: int) -> FewRowsWeights:
    return FewRowsWeights.of(linear, linear.weight, linear.bias, rows=rows)


class _Storage(NamedTuple):
    """Views of one tensor: where a layer writes the queries, keys and values of new tokens, and where it reads.

    K key–value heads are shared by G heads each. For all layers together, each view has another axis in front.
    """

    new_RE: Tensor
    rotated_RHC: Tensor | None
    """The new queries and keys as complex numbers (pairs of neighboring values), if positions are rotary."""
    queries_KGRD: Tensor
    keys_KDP: Tensor
    values_KPD: Tensor


class _Pool:
    """The queries, keys and values of all tokens of all hypotheses, in the order in which they were computed."""

    def __init__(self, layers: int, heads: Heads, capacity: int, *, is_rotary: bool) -> None:
        """``capacity``: the number of tokens that fit."""
        queries, keys_values, width = heads
        self.layers, self.heads, self.capacity, self.is_rotary = layers, heads, capacity, is_rotary
        pool_LPE = torch.empty(layers, capacity, (queries + 2 * keys_values) * width)
        all_LPHD = pool_LPE.unflatten(2, (-1, width))
        queries_LPHD, keys_LPKD, values_LPKD = all_LPHD.split([queries, keys_values, keys_values], 2)
        rotated_LPHD = all_LPHD[:, :, : queries + keys_values]
        self.views = _Storage(
            pool_LPE,
            torch.view_as_complex(rotated_LPHD.unflatten(3, (-1, 2))) if is_rotary else None,
            queries_LPHD.unflatten(2, (keys_values, -1)).permute(0, 2, 3, 1, 4),
            keys_LPKD.permute(0, 2, 3, 1),
            values_LPKD.transpose(1, 2),
        )

    def grown(self, stored: int) -> _Pool:
        """One with twice the room, and the same tokens."""
        larger = _Pool(self.layers, self.heads, 2 * self.capacity, is_rotary=self.is_rotary)
        larger.views.new_RE[:, :stored] = self.views.new_RE[:, :stored]
        return larger

    def storage(self, stored: int, rows: int) -> Iterator[_Storage]:
        """The storage of each layer, with ``rows`` tokens more than ``stored``."""
        new_LPE, rotated_LPHC, queries_LKGPD, keys_LKDP, values_LKPD = self.views
        parts = (
            new_LPE.narrow(1, stored, rows),
            queries_LKGPD.narrow(3, stored, rows),
            keys_LKDP.narrow(3, 0, stored + rows),
            values_LKPD.narrow(2, 0, stored + rows),
        )
        new, queries, keys, values = (part.unbind(0) for part in parts)
        rotated = [None] * self.layers if rotated_LPHC is None else rotated_LPHC.narrow(1, stored, rows).unbind(0)
        return map(_Storage, new, rotated, queries, keys, values)


class _Positions:
    """Rotations and biases by position, in tables that grow."""

    def __init__(self, stack: TransformerStack) -> None:
        self.stack = stack
        self.is_rotary = stack.settings.positions == "rotary"
        self.has_biases = stack.relative_bias is not None
        attention = stack.layers[0].self_attention
        self.groups = attention.heads // attention.kv_heads
        self.count = 0

    def _grow(self, time: int) -> None:
        if time >= self.count:
            self.count = max(2 * time, FIRST_CAPACITY)
            positions_T = torch.arange(self.count)
            if self.is_rotary:
                self.rotations_TC = torch.complex(*rotation(positions_T, self.stack.settings.head_width))
            self.biases_HT = [
                None if bias_H1T is None else bias_H1T[:, 0]  # of the distances 1 − T … 0
                for bias_H1T in self.stack.position_biases(positions_T[-1:], positions_T)
            ]

    def rotation(self, time: int) -> Tensor | None:
        """The complex numbers (D/2,) by which queries and keys are multiplied."""
        if not self.is_rotary:
            return None
        self._grow(time)
        return self.rotations_TC[time]

    def masks(self, state_RP: Tensor, times_P: Tensor, time: int) -> list[Tensor]:
        """The additive masks (K, G × R, P) of each layer: the state and the biases of distances."""
        groups = self.groups
        if not self.has_biases:
            return [state_RP.repeat(groups, 1) if groups > 1 else state_RP] * len(self.stack.layers)
        self._grow(time)
        indices_P = times_P + (self.count - 1 - time)
        masks: dict[int, Tensor] = {}
        for bias_HT in self.biases_HT:
            if id(bias_HT) not in masks:
                assert bias_HT is not None
                bias_KG1P = bias_HT.index_select(1, indices_P).view(-1, groups, 1, len(times_P))
                masks[id(bias_HT)] = (bias_KG1P + state_RP).flatten(1, 2)
        return [masks[id(bias_HT)] for bias_HT in self.biases_HT]


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
        self.embedding_scale = stack.embedding_scale
        self.embedding_norm = None if stack.embedding_norm is None else _norm(stack.embedding_norm)
        sinusoids = stack.positions.table if isinstance(stack.positions, Sinusoidal) else None
        self.positions: Any = sinusoids or stack.positions
        self.sinusoids_PD: Tensor | None = None if sinusoids is None else sinusoids.values_PD
        self.input_projection, self.readout = (
            _unless_identity(one) for one in (stack.input_projection, decoder.readout)
        )
        self.final_norm = None if stack.final_norm is None else _norm(stack.final_norm)
        self.pre_norm = self.final_norm is not None
        self.return_attention = return_attention
        parts = zip(stack.layers, memory.layers, strict=True)
        self.layers = [_Layer.of(layer, source, memory.mask_B11S, rows) for layer, source in parts]
        self.output_weights = FewRowsWeights.of(self.output, self.output.weight_VD, self.output.bias_V, rows=rows)
        attention = stack.layers[0].self_attention
        self.heads = attention.heads
        self.scale = 1.0 / math.sqrt(attention.head_width)
        self.own_RR = torch.full((rows, rows), -math.inf).fill_diagonal_(0.0)
        """The mask of the tokens of a step: each belongs to its own hypothesis."""
        heads = Heads(attention.heads, attention.kv_heads, attention.head_width)
        self.relative = _Positions(stack)
        self.pool = _Pool(len(self.layers), heads, FIRST_CAPACITY * rows, is_rotary=self.relative.is_rotary)
        self.times = {0: 0}
        """The position of the next token, by the number of tokens in the pool."""
        self.times_P = torch.zeros(0, dtype=torch.int64)
        """The positions of the tokens in the pool."""

    def start(self, memory: TransformerMemory) -> Tensor:
        return memory.mask_B11S.new_zeros(1, 0)

    def step(self, tokens_R: Tensor, state: Tensor, memory: TransformerMemory) -> StepOutput:
        rows, stored = state.shape
        state_RP = torch.cat([state, self.own_RR[:rows, :rows]], 1)
        time = self.times[stored]
        self.times[stored + rows] = time + 1
        if self.relative.has_biases:
            self.times_P = torch.cat([self.times_P[:stored], torch.full((rows,), time)])
        if stored + rows > self.pool.capacity:
            self.pool = self.pool.grown(stored)
        turn_C, masks = self.relative.rotation(time), self.relative.masks(state_RP, self.times_P, time)
        stream_RD = self._embed(tokens_R, time)
        weights: dict[int, Tensor] = {}
        for number, (layer, storage) in enumerate(zip(self.layers, self.pool.storage(stored, rows), strict=True)):
            norm1, norm2, norm3 = layer.norms
            output_RD = self._self_attention(layer, self._input(norm1, stream_RD), storage, masks[number], turn_C)
            stream_RD = self._added(norm1, stream_RD + output_RD)
            scores_RN = functional.linear(self._input(norm2, stream_RD), layer.source_keys_ND, layer.source_bias_N)
            weights_RHS = torch.softmax(scores_RN.view(rows, self.heads, -1), -1)
            added_RD = torch.addmm(stream_RD, weights_RHS.view(rows, -1), layer.source_values_ND)
            stream_RD = self._added(norm2, added_RD)
            if self.return_attention and number in self.decoder.alignment:
                weights[number] = weights_RHS
            hidden_RF = layer.activation(few_rows_linear(self._input(norm3, stream_RD), layer.linear1))
            stream_RD = self._added(norm3, stream_RD + few_rows_linear(hidden_RF, layer.linear2))
        stream_RD = stream_RD if self.final_norm is None else self.final_norm(stream_RD)
        attention_RS = mean_of_heads(weights, self.decoder.alignment) if self.return_attention else None
        return StepOutput(self._logits(stream_RD), state_RP, attention_RS)

    def _embed(self, tokens_R: Tensor, time: int) -> Tensor:
        """Equal to `TransformerStack.embed`."""
        stream_RD = torch.embedding(self.embedding_VE, tokens_R).mul_(self.embedding_scale)
        stream_RD = stream_RD if self.input_projection is None else self.input_projection(stream_RD)
        if self.sinusoids_PD is not None:
            if time >= self.sinusoids_PD.shape[0]:
                self.sinusoids_PD = self.positions(time + 1)
            stream_RD = stream_RD.add_(self.sinusoids_PD[time])
        elif self.positions is not None:
            stream_RD = stream_RD.add_(self.positions(torch.tensor([time]), time + 1))
        return stream_RD if self.embedding_norm is None else self.embedding_norm(stream_RD)

    def _self_attention(
        self, layer: _Layer, stream_RD: Tensor, storage: _Storage, mask: Tensor, turn_C: Tensor | None
    ) -> Tensor:
        new_RE, rotated_RHC, queries_KGRD, keys_KDP, values_KPD = storage
        new_RE.copy_(few_rows_linear(stream_RD, layer.query_key_value))
        if rotated_RHC is not None and turn_C is not None:
            rotated_RHC.mul_(turn_C)
        kv_heads, groups, rows, width = queries_KGRD.shape
        queries_KQD = queries_KGRD.reshape(kv_heads, groups * rows, width)
        scores_KQP = torch.baddbmm(mask, queries_KQD, keys_KDP, alpha=self.scale)
        attended_KQD = torch.bmm(torch.softmax(scores_KQP, -1), values_KPD)
        attended_RKGD = attended_KQD.view(kv_heads, groups, rows, width).permute(2, 0, 1, 3)
        return few_rows_linear(attended_RKGD.reshape(rows, -1), layer.output)

    def _input(self, norm: Norm, stream_RD: Tensor) -> Tensor:
        """The input of a sub-layer."""
        return norm(stream_RD) if self.pre_norm else stream_RD

    def _added(self, norm: Norm, added_RD: Tensor) -> Tensor:
        """The stream after the output of a sub-layer was added."""
        return added_RD if self.pre_norm else norm(added_RD)

    def _logits(self, stream_RD: Tensor) -> Tensor:
        states_RD = stream_RD if self.readout is None else self.readout(stream_RD)
        return self.output.logits(few_rows_linear(states_RD, self.output_weights).contiguous())


def _unless_identity(module: nn.Module) -> nn.Module | None:
    return None if isinstance(module, nn.Identity) else module
