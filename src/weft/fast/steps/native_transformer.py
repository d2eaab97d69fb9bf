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
from collections.abc import Iterable
from typing import Any, cast

import torch
from torch import Tensor, nn

from weft.attention.ragged_attention import mean_of_heads
from weft.attention.relative_positions import rotation
from weft.fast.cpu import compiled
from weft.fast.cpu.compiled import Linear, Norm, check_memory, few_rows_linear, pointer
from weft.fast.steps.native_coverage import (
    ACTIVATION_NUMBERS,
    are_floats,
    has_plain_logits,
    is_covered_memory,
    is_covered_stack,
    is_native_output,
    maps_of,
    native_map,
    norms_of,
    output_map,
)
from weft.models.interface import StepOutput
from weft.models.positions import Sinusoidal
from weft.models.seq2seq import Seq2Seq
from weft.models.transformer import TransformerLayer
from weft.models.transformer_decoder import TransformerDecoder, TransformerMemory
from weft.search.interface import StepModel

MAX_ROWS = 16
"""The most hypotheses: products of more rows are bound by arithmetic, at which PyTorch's are better."""
MAX_POOL_FLOATS = 2**24
"""The most floats that a greedy search in one call allocates for keys and values, before its first token."""
FIRST_CAPACITY = 32
"""Tokens that the pool has room for at least; it doubles when it is full."""


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
        ("turns", ctypes.c_void_p),
        ("final_norm", Norm),
        *(
            (name, ctypes.c_int32)
            for name in (
                "count", "width", "heads", "kv_heads", "head_width", "inner", "activation", "is_pre_norm", "source",
                "bias_stride", "threads",
            )
        ),
    )  # fmt: skip


class _Tokens(ctypes.Structure):
    """Embeddings and positions as native/transformer.c adds them."""

    _fields_ = (("embedding", ctypes.c_void_p), ("positions", ctypes.c_void_p), ("scale", ctypes.c_float))


def native_or_sentence_steps(
    model: Seq2Seq, memory: TransformerMemory, *, rows: int, return_attention: bool
) -> StepModel | None:
    """The native steps of one sentence; where there are none, those in PyTorch."""
    from weft.fast.steps.one_sentence_transformer import sentence_steps

    native = native_steps(model, memory, rows=rows, return_attention=return_attention)
    return native or sentence_steps(model, memory, rows=rows, return_attention=return_attention)


def native_steps(model: Seq2Seq, memory: TransformerMemory, *, rows: int, return_attention: bool) -> NativeSteps | None:
    """The steps of one sentence with ``rows`` hypotheses; None where this module has none."""
    decoder = cast(TransformerDecoder, model.decoder)
    if compiled.loaded is None or rows > MAX_ROWS or decoder.training or torch.is_grad_enabled():
        return None
    if not (is_covered_stack(decoder.stack) and is_covered_memory(memory) and is_native_output(model.output)):
        return None
    if not are_floats(model.target_embedding.weight_VE):
        return None
    steps = NativeSteps(model, decoder, memory, return_attention=return_attention)
    return steps if steps.has_equal_layers() else None


def _weights(modules: Iterable[nn.Module]) -> list[Tensor]:
    return [weights.detach() for module in modules for weights in module._parameters.values() if weights is not None]


class NativeSteps:
    """A `StepModel` for one search of one sentence, whose steps are taken one after the other.

    The state (R, T) is the places of the tokens of each hypothesis in the pool.
    """

    def __init__(
        self, model: Seq2Seq, decoder: TransformerDecoder, memory: TransformerMemory, *, return_attention: bool
    ) -> None:
        stack = decoder.stack
        self.model, self.decoder, self.stack, self.settings = model, decoder, stack, stack.settings
        self.embedding_VE, self.embedding_scale = model.target_embedding.weight_VE.detach(), stack.embedding_scale
        self.sinusoids_PD = stack.positions.table.values_PD if isinstance(stack.positions, Sinusoidal) else None
        self.logits = model.output.logits
        self.output = output_map(model.output)
        self.return_attention = return_attention
        self.native = compiled.loaded
        self.stored = 0
        """The number of tokens in the pool."""
        attention = stack.layers[0].self_attention
        self.kept: list[Tensor] = [memory.mask_B11S.contiguous(), *_weights([model.output])]
        """Tensors that C reads: they stay alive if the model is moved, or gets other weights, during the search."""
        self.layers = (_Layer * len(stack.layers))(
            *(self._layer(layer, *source) for layer, source in zip(stack.layers, memory.layers, strict=True))
        )
        network = stack.layers[0].feed_forward
        assert network is not None
        activation = ACTIVATION_NUMBERS[network.activation]
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
        self.source_shape = memory.layers[0].keys.shape
        self.entry = (attention.heads + 2 * attention.kv_heads) * attention.head_width
        if stack.final_norm is not None:
            self.kept += _weights([stack.final_norm])
        self.pool_LPE = torch.empty(len(stack.layers), 0, self.entry)
        self.positions = 0
        """Positions that the tables of rotations and biases have."""

    def _layer(self, layer: TransformerLayer, keys_1HSD: Tensor, values_1HSD: Tensor) -> _Layer:
        keys, values = keys_1HSD.contiguous(), values_1HSD.contiguous()
        self.kept += [keys, values]
        norms = (Norm * 3)(*map(Norm.of, norms_of(layer)))
        maps = maps_of(layer)
        self.kept += _weights([*maps, *norms_of(layer)])
        return _Layer(norms, *map(native_map, maps), None, pointer(keys), pointer(values), None, None)

    def has_equal_layers(self) -> bool:
        """Whether all layers have the sizes that C takes for those of all of them."""
        c, queries = self.c, self.c.heads * self.c.head_width
        wide = 2 * c.inner if c.activation >= 16 else c.inner
        expected = [
            (c.width, self.entry), (queries, c.width), (c.width, queries), (queries, c.width),
            (c.width, wide), (c.inner, c.width),
        ]  # fmt: skip
        attentions = [one for layer in self.stack.layers for one in (layer.self_attention, layer.cross_attention)]
        return (
            all(
                [
                    (one.inputs, one.outputs)
                    for one in (
                        layer.query_key_value,
                        layer.output,
                        layer.query,
                        layer.source_output,
                        layer.linear1,
                        layer.linear2,
                    )
                ]
                == expected
                for layer in self.layers
            )
            and {(one.heads, one.kv_heads, one.head_width) for one in attentions if one is not None}
            == {(c.heads, c.kv_heads, c.head_width)}
            and self.source_shape == (1, c.kv_heads, c.source, c.head_width)
            and self.settings.head_width == c.head_width
        )

    def start(self, memory: TransformerMemory) -> Tensor:
        return torch.zeros(1, 0, dtype=torch.int64)

    def step(self, tokens_R: Tensor, state: Tensor, memory: TransformerMemory) -> StepOutput:
        rows, time = state.shape
        self._reserve_tokens(self.stored + rows)
        places_RT = torch.cat([state, torch.arange(self.stored, self.stored + rows)[:, None]], 1)
        stream_RD = self._embed(tokens_R, time)
        self._reserve_positions(time + 1)
        weights_LRHS = self._keep_weights(rows) if self.return_attention else None
        self.c.threads = torch.get_num_threads()
        check_memory(
            self.native.weft_transformer_step(
                ctypes.byref(self.c), pointer(stream_RD), rows, time, self.stored, pointer(places_RT)
            )
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

    def _reserve_tokens(self, count: int) -> None:
        """Make the pool large enough for ``count`` tokens."""
        if count <= self.pool_LPE.shape[1]:
            return
        larger_LPE = torch.empty(len(self.layers), max(2 * count, FIRST_CAPACITY), self.entry)
        larger_LPE[:, : self.stored] = self.pool_LPE[:, : self.stored]
        self.pool_LPE = larger_LPE
        for layer, pool_PE in zip(self.layers, larger_LPE, strict=True):
            layer.tokens = pointer(pool_PE)

    def _reserve_positions(self, count: int) -> None:
        """Make the tables of rotations, or of biases by distance, long enough for ``count`` positions."""
        if count <= self.positions or self.settings.positions not in ("rotary", "relative", "alibi"):
            return
        self.positions = max(2 * count, FIRST_CAPACITY)
        positions_T = torch.arange(self.positions)
        if self.settings.positions == "rotary":
            self.turns_TD = torch.stack(rotation(positions_T, self.settings.head_width), -1).flatten(1)
            self.c.turns = pointer(self.turns_TD)
            return
        biases = self.stack.position_biases(positions_T[-1:], positions_T)
        # from distances 1 − T … 0 to 0 … T − 1
        self.biases = [bias_H1T[:, 0].flip(1).contiguous() for bias_H1T in biases if bias_H1T is not None]
        self.c.bias_stride = self.positions
        for layer, bias_HT in zip(self.layers, self.biases, strict=True):
            layer.bias = pointer(bias_HT)

    def prepare_search(self, *, longest: int, rows: int) -> bool:
        """Make room in the pool for the tokens of a whole search; False where C cannot embed tokens, or read logits."""
        stack, output = self.stack, self.model.output
        is_plain = isinstance(stack.input_projection, nn.Identity) and isinstance(self.decoder.readout, nn.Identity)
        if not is_plain or stack.embedding_norm is not None or not has_plain_logits(output):
            return False
        if rows * longest * len(self.layers) * self.entry > MAX_POOL_FLOATS:
            return False
        if stack.max_positions is not None and longest > stack.max_positions:
            return False
        positions_PD = None
        if stack.positions is not None:
            positions_PD = stack.positions(torch.arange(longest), longest).contiguous()
            self.kept.append(positions_PD)
        self._reserve_positions(longest)
        self._reserve_tokens(rows * longest)
        self.c.threads = torch.get_num_threads()
        self.tokens = _Tokens(pointer(self.embedding_VE), pointer(positions_PD), self.embedding_scale)
        return True

    def search(self, search: Any, beam: Any, tokens_T: Tensor | None, log_probs_T: Tensor | None) -> int:
        """See `weft.fast.steps.native_search.NativeDecoder`."""
        decoder, embedded = ctypes.byref(self.c), ctypes.byref(self.tokens)
        outputs = pointer(tokens_T), pointer(log_probs_T)
        count: int = self.native.weft_transformer_search(decoder, embedded, search, beam, *outputs)
        return count
