"""A recurrent decoder for one sentence on a CPU, as native/recurrent.c reads it: a whole search is one call.

Equal to `weft.models.recurrent_decoder.RecurrentDecoder.step` up to rounding;
tests/fast/steps/test_native_recurrent.py. Every cell, any number of plain layers, attention before or after them with
any score that has an equation in C (`Score.form`), or none, input feeding, summaries; in fp32 or with 8-bit weights.
"""

from __future__ import annotations

import ctypes
from typing import Any, cast

import torch
from torch import Tensor, nn

from weft.attention.attention import Attention, ProjectedKeys
from weft.attention.normalizers import softmax
from weft.attention.scores import Additive, Concat, HiddenLayerScore
from weft.fast.cpu import compiled
from weft.fast.cpu.compiled import Linear, pointer
from weft.fast.cpu.int8 import Int8Linear
from weft.fast.steps.native_coverage import (
    are_floats,
    has_plain_logits,
    is_native_map,
    is_native_output,
    is_observed,
    native_map,
    output_map,
)
from weft.fast.steps.quantization import Int8Stack
from weft.models.recurrent import GRU, LSTM, RNN, RecurrentStack
from weft.models.recurrent_decoder import Memory, RecurrentDecoder
from weft.models.seq2seq import Seq2Seq
from weft.tree import leaves

CELLS = {RNN: 0, GRU: 1, LSTM: 2}
"""Numbers of the cells in native/recurrent.c."""
BEFORE, AFTER = 1, 2
MAX_TOKENS = 2**20
"""The most tokens of a search in one call, for which there is memory before the first."""


class _Layer(ctypes.Structure):
    _fields_ = (("input", Linear), ("state", Linear), ("initial", ctypes.c_void_p))


class _Decoder(ctypes.Structure):
    _fields_ = (
        *((name, ctypes.c_void_p) for name in ("layers", "embedding", "summary", "keys", "values", "mask", "vector")),
        ("query", Linear),
        ("readout", Linear),
        *(
            (name, ctypes.c_int32)
            for name in (
                "count", "cell", "hidden", "embedded", "summarized", "key_width", "context", "source", "size",
                "attends", "is_fed", "reads_embedding", "threads",
            )
        ),
    )  # fmt: skip


def native_recurrent_decoder(model: Seq2Seq, memory: Any, *, rows: int) -> NativeRecurrentDecoder | None:
    """The decoder of a model for one sentence; None: C cannot read it."""
    from weft.fast.steps.native_transformer import MAX_ROWS

    decoder = cast(RecurrentDecoder, model.decoder)
    if compiled.loaded is None or rows > MAX_ROWS or decoder.training or torch.is_grad_enabled():
        return None
    if not isinstance(memory, Memory) or is_observed(decoder):
        return None
    if torch.is_autocast_enabled("cpu") or not _is_covered_memory(memory):
        return None
    if not (is_native_output(model.output) and has_plain_logits(model.output)):
        return None
    readout = decoder.readout
    if not are_floats(model.target_embedding.weight_VE) or is_observed(model.target_embedding):
        return None
    if not _is_covered_stack(decoder.stack) or not (readout is None or is_native_map(readout)):
        return None
    if decoder.attention is not None and not _is_covered_attention(decoder.attention):
        return None
    native = NativeRecurrentDecoder(model, decoder, memory)
    return native if native.fits() else None


def _is_covered_memory(memory: Memory) -> bool:
    """Whether it is one sentence, which is not empty."""
    tensors = list(leaves(memory))
    is_plain = memory.keys is None or (isinstance(memory.keys, ProjectedKeys) and memory.keys.mask_BS.shape[1] > 0)
    return is_plain and all(
        tensor.shape[0] == 1 and tensor.dtype == torch.float32 and tensor.is_cpu for tensor in tensors
    )


def _is_covered_stack(stack: RecurrentStack) -> bool:
    """Whether its layers are one on top of the other, of a cell and with weights that C can read."""
    if stack.connections != "plain" or stack.cell not in CELLS or stack.directions != 1 or is_observed(stack):
        return False
    if any(not isinstance(norm, nn.Identity) for norm in stack.norms) or any(map(is_observed, stack.layers)):
        return False
    if type(stack) is Int8Stack:
        maps = [linear for layer in stack.layers for linear in layer.children()]
        return all(type(linear) is Int8Linear and not is_observed(linear) for linear in maps)
    weights = [stack.weights(level) for level in range(len(stack.layers))]
    return type(stack) is RecurrentStack and are_floats(*(tensor for layer in weights for tensor in layer))


def _is_covered_attention(attention: Attention) -> bool:
    score = attention.score
    if type(attention) is not Attention or is_observed(attention) or is_observed(score):
        return False
    if attention.normalize is not softmax or attention.window is not None or attention.features is not None:
        return False
    if type(score) is Additive:
        return is_native_map(score.query_projection) and are_floats(score.vector)
    if type(score) is Concat:
        return are_floats(score.vector) and score.weight.dtype == torch.float32
    return score.form == "dot"


class NativeRecurrentDecoder:
    """A `NativeDecoder`: addresses of weights and of the memory of one sentence."""

    def __init__(self, model: Seq2Seq, decoder: RecurrentDecoder, memory: Memory) -> None:
        stack, readout = decoder.stack, decoder.readout
        self.kept: list[Any] = []
        """Tensors that C reads: they stay alive if the model gets other weights during the search."""
        self.embedding_VE = self._keep(model.target_embedding.weight_VE)
        self.output = output_map(model.output)
        self._keep_weights(model.output)
        layers = [self._layer(stack, level, state) for level, state in enumerate(memory.initial)]
        self.layers = (_Layer * len(layers))(*layers)
        self.c = _Decoder(
            layers=ctypes.addressof(self.layers),
            embedding=pointer(self.embedding_VE),
            readout=Linear() if readout is None else native_map(readout),
            count=len(layers),
            cell=CELLS[stack.cell],
            hidden=stack.hidden,
            embedded=self.embedding_VE.shape[1],
            size=decoder.size,
            is_fed=decoder.input_feeding,
            reads_embedding=decoder.readout_has_embedding and readout is not None,
        )
        if readout is not None:
            self._keep_weights(readout)
        if memory.summary_BD is not None:
            self.c.summary, self.c.summarized = pointer(self._keep(memory.summary_BD)), memory.summary_BD.shape[1]
        if decoder.attention is not None and memory.keys is not None:
            self._attend(decoder.attention, memory.keys)
            self.c.attends = BEFORE if decoder.attends_before else AFTER

    def _keep(self, tensor: Tensor) -> Tensor:
        kept = tensor.detach().contiguous()
        self.kept.append(kept)
        return kept

    def _keep_weights(self, module: nn.Module) -> None:
        self.kept += [module, *(weights.detach() for weights in module.parameters())]

    def _layer(self, stack: RecurrentStack, level: int, state: tuple[Tensor, ...]) -> _Layer:
        initial = self._keep(torch.cat(state))
        if isinstance(stack, Int8Stack):
            self._keep_weights(stack.layers[level])
            maps = list(map(native_map, stack.layers[level].children()))
        else:
            weights = stack.weights(level)
            pairs = ((weights.input_GD, weights.input_bias_G), (weights.state_GD, weights.state_bias_G))
            maps = [Linear.of(self._keep(matrix), self._keep(bias)) for matrix, bias in pairs]
        return _Layer(maps[0], maps[1] if len(maps) > 1 else Linear(), pointer(initial))

    def _attend(self, attention: Attention, keys: ProjectedKeys) -> None:
        c, score = self.c, attention.score
        tensors = (keys.keys_BSD, keys.values_BSD, keys.mask_BS)
        c.keys, c.values, c.mask = (pointer(self._keep(tensor[0])) for tensor in tensors)
        c.source, c.key_width, c.context = keys.mask_BS.shape[1], keys.keys_BSD.shape[2], keys.values_BSD.shape[2]
        if isinstance(score, HiddenLayerScore):
            c.vector = pointer(self._keep(score.vector))
            if isinstance(score, Additive):
                c.query = native_map(score.query_projection)
                self._keep_weights(score.query_projection)
            else:
                c.query = Linear.of(self._keep(score.query_weight_AD), None)

    def fits(self) -> bool:
        """Whether all parts have the sizes that C takes them to have."""
        c = self.c
        of_cell = {number: cell.gates * c.hidden for cell, number in CELLS.items()}[c.cell]
        fed = (c.context if c.attends == BEFORE else 0) + (c.size if c.is_fed else 0) + c.summarized
        read = (c.context if c.attends else 0) + c.summarized + c.hidden + (c.embedded if c.reads_embedding else 0)
        for level, layer in enumerate(self.layers):
            inputs = c.hidden if level else c.embedded + fed
            joint = not layer.state.outputs
            if (layer.input.inputs, layer.input.outputs) != (inputs + joint * c.hidden, of_cell):
                return False
            if not joint and (layer.state.inputs, layer.state.outputs) != (c.hidden, of_cell):
                return False
        has_readout = c.readout.inputs > 0
        if (c.readout.inputs, c.readout.outputs) != ((read, c.size) if has_readout else (0, 0)):
            return False
        query = (c.query.inputs, c.query.outputs) == (c.hidden, c.key_width) if c.vector else c.key_width == c.hidden
        return (has_readout or c.size == c.hidden) and self.output.inputs == c.size and (not c.attends or query)

    def prepare_search(self, *, longest: int, rows: int) -> bool:
        self.c.threads = torch.get_num_threads()
        return longest * rows <= MAX_TOKENS

    def search(self, search: Any, beam: Any, tokens_T: Tensor | None, log_probs_T: Tensor | None) -> int:
        """See `weft.fast.steps.native_search.NativeDecoder`."""
        outputs = pointer(tokens_T), pointer(log_probs_T)
        count: int = compiled.loaded.weft_recurrent_search(ctypes.byref(self.c), search, beam, *outputs)
        return count
