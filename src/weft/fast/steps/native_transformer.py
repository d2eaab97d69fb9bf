"""Search steps of a Transformer for one sentence on a CPU, each of them one call of compiled code.

Equal to `Seq2Seq.step` up to rounding; tests/fast/steps/test_native_transformer.py. All layers of a step are computed
by native/transformer.c, in fp32 or with 8-bit weights, by as many threads as PyTorch has; Python embeds the tokens
before, and no tensor is allocated between two layers. A product of a few rows takes as long as reading its weights, and
they are read in the order in which they are stored: no copies are needed.

Keys and values of all hypotheses are in one pool, in the order in which they were computed, and are never moved. The
state of a hypothesis is the places of its own tokens there.
"""

from __future__ import annotations

import ctypes
from typing import Any, cast

import torch
from torch import Tensor, nn

from weft.attention.multihead import CrossAttention, SelfAttention
from weft.attention.normalizers import softmax
from weft.attention.ragged_attention import mean_of_heads
from weft.attention.relative_positions import rotation
from weft.fast.cpu.compiled import Linear, Norm, few_rows_linear, is_native_linear, library, pointer
from weft.fast.cpu.int8 import Int8Linear
from weft.fast.steps.quantization import Int8Output
from weft.models.interface import StepOutput
from weft.models.layers import Output
from weft.models.positions import Sinusoidal
from weft.models.seq2seq import Seq2Seq
from weft.models.transformer import ACTIVATIONS, TransformerLayer, TransformerStack
from weft.models.transformer_decoder import TransformerDecoder, TransformerMemory

MAX_ROWS = 16
"""The most hypotheses: products of more rows are bound by arithmetic, at which PyTorch's are better."""
FIRST_CAPACITY = 32
"""Tokens of each hypothesis that the pool has room for at first; it doubles when it is full."""
_ACTIVATIONS = {
    ACTIVATIONS[name]: kind
    for name, kind in {
        "relu": 0, "gelu": 1, "gelu_tanh": 2, "silu": 3, "swiglu": 19, "geglu": 17, "geglu_tanh": 18
    }.items()
}  # fmt: skip
"""Numbers of the activations in native/transformer.c: 16 more where they are gated."""


class _Layer(ctypes.Structure):
    _fields_ = (
        ("norms", Norm * 3),
        *((name, Linear) for name in ("query_key_value", "output", "query", "source_output", "linear1", "linear2")),
        *((name, ctypes.c_void_p) for name in ("tokens", "keys", "values", "bias", "source_weights")),
    )


class _Decoder(ctypes.Structure):
    _fields_ = (
        ("layers", ctypes.c_void_p),
        ("mask", ctypes.c_void_p),
        ("turn", ctypes.c_void_p),
        ("final_norm", Norm),
        *(
            (name, ctypes.c_int32)
            for name in (
                "count", "width", "heads", "kv_heads", "head_width", "inner", "activation", "is_pre_norm", "source",
                "bias_stride", "threads",
            )
        ),
    )  # fmt: skip


def native_steps(
    model: Seq2Seq, memory: TransformerMemory, *, rows: int, return_attention: bool
) -> NativeSteps | None:
    """The steps of one sentence with ``rows`` hypotheses; None where this module has none."""
    decoder, keys_BHSD = cast(TransformerDecoder, model.decoder), memory.layers[0].keys
    if len(keys_BHSD) != 1 or not keys_BHSD.shape[2] or rows > MAX_ROWS or keys_BHSD.dtype != torch.float32:
        return None
    if keys_BHSD.device.type != "cpu" or decoder.training or torch.is_grad_enabled():
        return None
    if library() is None or not _is_covered(decoder.stack) or not _is_native_output(model.output):
        return None
    return NativeSteps(model, decoder, memory, return_attention=return_attention)


def _is_covered(stack: TransformerStack) -> bool:
    """Whether every layer has both attentions, with softmax, and a feed-forward network, of maps that C can read."""
    return not torch.is_autocast_enabled("cpu") and all(
        type(layer.self_attention) is SelfAttention
        and type(layer.cross_attention) is CrossAttention
        and layer.feed_forward is not None
        and layer.self_attention.normalize is softmax  # edited weights need their own axes
        and layer.cross_attention.normalize is softmax
        and layer.feed_forward.activation in _ACTIVATIONS
        and all(map(is_native_linear, _maps(layer)))
        for layer in stack.layers
    )


def _maps(layer: TransformerLayer) -> list[nn.Module]:
    own, cross, network = layer.self_attention, layer.cross_attention, layer.feed_forward
    assert cross is not None and network is not None
    return [own.query_key_value, own.output, cross.query, cross.output, network.linear1, network.linear2]


def _is_native_output(output: Output) -> bool:
    return isinstance(output, Int8Output) or (
        type(output).scores is Output.scores
        and output.weight_VD.dtype == torch.float32
        and output.weight_VD.is_contiguous()
    )


class NativeSteps:
    """A `StepModel` for one search of one sentence, whose steps are taken one after the other.

    The state (R, T) is the places of the tokens of each hypothesis in the pool.
    """

    def __init__(
        self, model: Seq2Seq, decoder: TransformerDecoder, memory: TransformerMemory, *, return_attention: bool
    ) -> None:
        stack = decoder.stack
        self.model, self.decoder, self.stack, self.settings = model, decoder, stack, stack.settings
        self.embedding_VE, self.embedding_scale = model.target_embedding.weight_VE, stack.embedding_scale
        self.sinusoids_PD = stack.positions.table.values_PD if isinstance(stack.positions, Sinusoidal) else None
        self.logits = model.output.logits
        self.output = _output_map(model.output)
        self.return_attention = return_attention
        self.native = library()
        self.stored = 0
        """The number of tokens in the pool."""
        attention = stack.layers[0].self_attention
        self.kept: list[Tensor] = [memory.mask_B11S.contiguous()]
        """What C reads and nothing else keeps alive."""
        self.layers = (_Layer * len(stack.layers))(
            *(self._layer(layer, *source) for layer, source in zip(stack.layers, memory.layers, strict=True))
        )
        network = stack.layers[0].feed_forward
        assert network is not None
        activation = _ACTIVATIONS[network.activation]
        self.c = _Decoder(
            layers=ctypes.addressof(self.layers),
            mask=pointer(self.kept[0]),
            final_norm=Norm.of(stack.final_norm),
            count=len(stack.layers),
            width=stack.width,
            heads=attention.heads,
            kv_heads=attention.kv_heads,
            head_width=attention.head_width,
            inner=self.layers[0].linear2.inputs,
            activation=activation,
            is_pre_norm=stack.final_norm is not None,
            source=memory.layers[0].keys.shape[2],
        )
        self.entry = (attention.heads + 2 * attention.kv_heads) * attention.head_width
        self.pool_LPE = torch.empty(len(stack.layers), 0, self.entry)
        self.positions = 0
        """Positions that the tables of rotations and biases have."""

    def _layer(self, layer: TransformerLayer, keys_1HSD: Tensor, values_1HSD: Tensor) -> _Layer:
        keys, values = keys_1HSD.contiguous(), values_1HSD.contiguous()
        self.kept += [keys, values]
        residuals = (layer.self_attention_residual, layer.cross_attention_residual, layer.feed_forward_residual)
        norms = (Norm * 3)(*(Norm.of(residual.norm) for residual in residuals))
        maps = map(Linear.of_module, _maps(layer))
        return _Layer(norms, *maps, None, pointer(keys), pointer(values), None, None)

    def start(self, memory: TransformerMemory) -> Tensor:
        return torch.zeros(1, 0, dtype=torch.int64)

    def step(self, tokens_R: Tensor, state: Tensor, memory: TransformerMemory) -> StepOutput:
        rows, time = state.shape
        if self.stored + rows > self.pool_LPE.shape[1]:
            self._grow_pool(rows)
        places_RT = torch.cat([state, torch.arange(self.stored, self.stored + rows)[:, None]], 1)
        stream_RD = self._embed(tokens_R, time)
        if self.settings.positions in ("rotary", "relative", "alibi"):
            self._set_position(time)
        weights_LRHS = self._keep_weights(rows) if self.return_attention else None
        self.c.threads = torch.get_num_threads()
        self.native.weft_transformer_step(
            ctypes.byref(self.c), stream_RD.data_ptr(), rows, time, self.stored, places_RT.data_ptr()
        )
        self.stored += rows
        readout = self.decoder.readout
        states_RD = stream_RD if isinstance(readout, nn.Identity) else readout(stream_RD)
        attention_RS = None
        if weights_LRHS is not None:
            chosen = {number: weights_LRHS[number] for number in self.decoder.alignment}
            attention_RS = mean_of_heads(chosen, self.decoder.alignment)
        return StepOutput(self.logits(few_rows_linear(states_RD, self.output)), places_RT, attention_RS)

    def _embed(self, tokens_R: Tensor, time: int) -> Tensor:
        """Equal to `TransformerStack.embed`."""
        embedded_RE = torch.embedding(self.embedding_VE, tokens_R)
        table_PD = self.sinusoids_PD
        if table_PD is None or time >= len(table_PD) or self.stack.embedding_norm is not None:
            positions_R = torch.full((len(tokens_R),), time)
            return self.stack.embed(embedded_RE, positions_R, time + 1).contiguous()
        stream_RD = embedded_RE.mul_(self.embedding_scale)
        if not isinstance(self.stack.input_projection, nn.Identity):
            stream_RD = self.stack.input_projection(stream_RD)
        return stream_RD.add_(table_PD[time])

    def _keep_weights(self, rows: int) -> Tensor:
        """Where the weights of this step's cross-attention are written."""
        weights_LRHS = torch.empty(len(self.layers), rows, self.c.heads, self.c.source)
        for layer, weights_RHS in zip(self.layers, weights_LRHS, strict=True):
            layer.source_weights = pointer(weights_RHS)
        return weights_LRHS

    def _grow_pool(self, rows: int) -> None:
        larger_LPE = torch.empty(len(self.layers), 2 * self.stored + FIRST_CAPACITY * rows, self.entry)
        larger_LPE[:, : self.stored] = self.pool_LPE[:, : self.stored]
        self.pool_LPE = larger_LPE
        for layer, pool_PE in zip(self.layers, larger_LPE, strict=True):
            layer.tokens = pointer(pool_PE)

    def _set_position(self, time: int) -> None:
        """The rotation of a position, or the biases of distances up to it, in tables that grow."""
        if time >= self.positions:
            self.positions = max(2 * time, FIRST_CAPACITY)
            positions_T = torch.arange(self.positions)
            if self.settings.positions == "rotary":
                turn = rotation(positions_T, self.settings.head_width)
                self.turns_TD = torch.stack(turn, -1).flatten(1)
            else:
                biases = self.stack.position_biases(positions_T[-1:], positions_T)
                # from distances 1 − T … 0 to 0 … T − 1; layers that share a table share the tensor
                self.biases = [bias_H1T[:, 0].flip(1).contiguous() for bias_H1T in biases if bias_H1T is not None]
                self.c.bias_stride = self.positions
                for layer, bias_HT in zip(self.layers, self.biases, strict=True):
                    layer.bias = pointer(bias_HT)
        if self.settings.positions == "rotary":
            self.c.turn = self.turns_TD[time].data_ptr()


def _output_map(output: Output) -> Linear:
    if isinstance(output, Int8Output):
        assert isinstance(output.linear, Int8Linear)
        return Linear.of_module(output.linear)
    return Linear.of(output.weight_VD, output.bias_V)
