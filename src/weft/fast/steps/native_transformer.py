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
from collections.abc import Iterable, Sequence
from typing import Any, cast

import numpy as np
import torch
from torch import Tensor, nn

from weft.attention.ragged_attention import mean_of_heads
from weft.attention.relative_positions import rotation
from weft.fast.cpu import compiled
from weft.fast.cpu.compiled import Linear, Norm, check_memory, few_rows_linear, pointer
from weft.fast.cpu.int8 import Int8Linear
from weft.fast.steps.native_coverage import (
    ACTIVATION_NUMBERS,
    are_floats,
    is_covered_memory,
    is_covered_stack,
    is_native_output,
    maps_of,
    norms_of,
)
from weft.fast.steps.quantization import Int8Output
from weft.models.interface import StepOutput
from weft.models.layers import Output
from weft.models.positions import Sinusoidal
from weft.models.seq2seq import Seq2Seq
from weft.models.transformer import TransformerLayer
from weft.models.transformer_decoder import TransformerDecoder, TransformerMemory
from weft.runtime.replaceable import plain_of
from weft.search.constraints import NoLoops
from weft.search.interface import Hypothesis, SearchRequest, StepModel
from weft.search.loop import StepRecords
from weft.search.paths import PathRecord, path_hypotheses
from weft.search.ranking import Ranking
from weft.search.repetition import has_loop
from weft.search.sampling import greedy_search

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


class SearchFields(ctypes.Structure):
    """A whole search as native/transformer.c declares it."""

    _fields_ = (
        ("output", Linear),
        ("embedding", ctypes.c_void_p),
        ("positions", ctypes.c_void_p),
        ("scale", ctypes.c_float),
        *((name, ctypes.c_int32) for name in ("begin", "end", "longest")),
    )


def find_native_steps(model: StepModel, memory: Any, *, rows: int, return_attention: bool) -> NativeSteps | None:
    """The native steps of a model for one sentence; None: it has none."""
    from weft.fast.steps.one_sentence_transformer import is_plain_transformer

    if not isinstance(model, nn.Module) or not is_plain_transformer(model):
        return None
    return native_steps(cast(Seq2Seq, model), memory, rows=rows, return_attention=return_attention)


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


def native_map(linear: nn.Module) -> Linear:
    """A linear map as C reads it."""
    if isinstance(linear, Int8Linear):
        return linear.native_map()
    assert isinstance(linear, nn.Linear)
    return Linear.of(linear.weight, linear.bias)


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
        self.output = _output_map(model.output)
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

    def settings_of_search(self, *, begin: int, end: int, longest: int, rows: int) -> SearchFields | None:
        """A whole search as C reads it, with room in the pool for its tokens; None where C cannot embed tokens, or read
        the logits."""
        stack, output = self.stack, self.model.output
        is_plain = isinstance(stack.input_projection, nn.Identity) and isinstance(self.decoder.readout, nn.Identity)
        if not is_plain or stack.embedding_norm is not None or type(output) not in (Output, Int8Output):
            return None
        vocabulary = len(self.embedding_VE)
        if self.output.outputs > vocabulary or not 0 <= begin < vocabulary or longest < 1:
            return None
        if rows * longest * len(self.layers) * self.entry > MAX_POOL_FLOATS:
            return None
        if stack.max_positions is not None and longest > stack.max_positions:
            return None
        if isinstance(output, Int8Output) and output.loss != Output.loss:
            return None
        positions_PD = None
        if stack.positions is not None:
            positions_PD = stack.positions(torch.arange(longest), longest).contiguous()
            self.kept.append(positions_PD)
        self._reserve_positions(longest)
        self._reserve_tokens(rows * longest)
        self.c.threads = torch.get_num_threads()
        return SearchFields(
            output=self.output,
            embedding=pointer(self.embedding_VE),
            positions=pointer(positions_PD),
            scale=self.embedding_scale,
            begin=begin,
            end=end,
            longest=longest,
        )

    def greedy(self, *, begin: int, end: int, longest: int) -> tuple[Tensor, Tensor] | None:
        """The tokens (T,) of greedy search and their log p; None where C has not all that it takes."""
        search = self.settings_of_search(begin=begin, end=end, longest=longest, rows=1)
        if search is None:
            return None
        tokens_T, log_probs_T = torch.empty(longest, dtype=torch.int64), torch.empty(longest)
        count = check_memory(
            self.native.weft_transformer_greedy(
                ctypes.byref(self.c), ctypes.byref(search), pointer(tokens_T), pointer(log_probs_T)
            )
        )
        return tokens_T[:count], log_probs_T[:count]


def is_native_greedy(model: StepModel, request: SearchRequest, ranking: Ranking = Ranking("none")) -> bool:
    """Whether `greedy_search` may apply: one sentence on a CPU, and nothing that changes or observes its steps."""
    return (
        len(request.max_lengths) == request.n_best == 1
        and torch.device(request.device).type == "cpu"
        and request.loop is None
        and not (request.return_attention or request.return_trace or ranking.beta)
        and not (any(request.prefixes) or any(request.min_lengths) or any(request.required))
        and all(isinstance(constraint, NoLoops) for constraint in request.constraints)
        and compiled.loaded is not None
    )


def native_greedy_search(
    model: StepModel, request: SearchRequest, ranking: Ranking = Ranking("none")
) -> Sequence[list[Hypothesis]]:
    """`weft.search.sampling.greedy_search` of one sentence in one call, where the model's steps are native.

    The constraint `NoLoops` changes nothing unless the output has a loop; then, plain search takes the steps.
    """
    plain = plain_of(greedy_search)
    with torch.no_grad():
        steps = find_native_steps(model, request.memory, rows=1, return_attention=False)
        longest = request.max_lengths[0]
        output = None if steps is None else steps.greedy(begin=request.begin, end=request.end, longest=longest)
        if output is None:
            return plain(model, request, ranking)
        tokens_T, log_probs_T = output
        if not log_probs_T.isfinite().all():  # logits that are not numbers: what follows from them is left to PyTorch
            return plain(model, request, ranking)
        lengths_1 = np.array([len(tokens_T)])
        limits = [constraint.limits for constraint in request.constraints if isinstance(constraint, NoLoops)]
        if any(has_loop(tokens_T.numpy(), lengths_1, limit).any() for limit in limits):
            return plain(model, request, ranking)
        active_T11 = torch.ones(len(tokens_T), 1, 1, dtype=torch.bool)
        record = PathRecord(tokens_T[:, None, None], log_probs_T[:, None, None], active_T11, None, None, None)
        return path_hypotheses(
            [StepRecords(torch.zeros(1, dtype=torch.int64), record)], request, ranking, with_gap=True
        )


def _output_map(output: Output) -> Linear:
    if isinstance(output, Int8Output):
        return native_map(output.linear)
    return Linear.of(output.weight_VD, output.bias_V)
