"""A trained model with eight-bit products (`weft.kernels.cpu.int8`), for search on a CPU.

`quantize` returns a copy for search and scoring in which these are replaced: the output layer, the products of a
recurrent decoder's or language model's step, its readout, bridges, the attention's projections, and every linear map
of a Transformer. Embeddings, norms, recurrent encoders and the matrices of the scores `general` and `concat` stay as
they are and are shared with the original. The copy cannot be trained.

Inputs with a known bound need no scale of their own. In most recurrent decoders there is one (`_input_bounds`): states
and ã_t = tanh(…) are within ±1, a context vector is a mean of states, and embeddings are entries of a matrix.
"""

from __future__ import annotations

import copy
from collections.abc import Sequence
from typing import Any, NamedTuple, cast

import torch
from torch import Tensor, nn

from weft.attention.hard_alignment import HardAlignment
from weft.errors import SearchError
from weft.kernels.cpu.int8 import Int8Linear
from weft.models.cells import LayerState
from weft.models.encoders import RecurrentEncoder
from weft.models.hard_attention import Emission, HardAttentionSeq2Seq
from weft.models.interface import Model
from weft.models.layers import Output
from weft.models.recurrent import LayerMaps, RecurrentStack, StackState
from weft.models.recurrent_decoder import DecoderMaps, RecurrentDecoder
from weft.models.seq2seq import EncoderDecoder
from weft.ragged import Ragged
from weft.tree import first, map_tree

MAX_BOUND = 2.0
"""Embeddings with larger entries would leave too few levels for states within ±1; rows then get their own scales."""


class Int8Output(Output):
    """States to logits over the vocabulary."""

    def __init__(self, trained: Output, *, bound: float | None = None) -> None:
        nn.Module.__init__(self)
        self.width = trained.width
        self.loss = trained.loss  # type: ignore[misc]
        self.weight_VD = nn.Parameter(trained.bias_V.new_empty(0, trained.width), requires_grad=False)
        self.bias_V = trained.bias_V
        self.linear = Int8Linear(trained.weight_VD, trained.bias_V, bound=bound)
        self.logits = trained.logits  # type: ignore[method-assign]

    def scores(self, states_ND: Tensor) -> Tensor:
        scores_NV: Tensor = self.linear(states_ND)
        return scores_NV


class _WholeInputMap:
    """A map of the first layer whose ``added`` are the leading inputs themselves: one product reads all inputs."""

    def __init__(self, linear: Int8Linear) -> None:
        self.linear = linear

    def __call__(self, *inputs: Tensor, added: Tensor | None = None) -> Tensor:
        assert added is not None
        output_BG: Tensor = self.linear(added, *inputs)
        return output_BG


class Int8Stack(RecurrentStack):
    """The layers of a decoder or language model. It runs step by step only: `forward` is a loop over `step`.

    ``precomputed``: how many leading inputs of the first layer are known before the recurrence. Where one product can
    read them with the others, nothing is computed from them in advance (`precompute`). ``bound``: of all inputs of all
    layers.
    """

    def __init__(self, trained: RecurrentStack, *, precomputed: int | None, bound: float | None = None) -> None:
        nn.Module.__init__(self)
        self.cell, self.inputs, self.hidden = trained.cell, trained.inputs, trained.hidden
        self.connections, self.dropout, self.directions = trained.connections, trained.dropout, trained.directions
        self.norms = trained.norms
        self.precomputed = self.inputs if precomputed is None else precomputed
        self.first_input: Int8Linear | None = None
        self.layers = nn.ModuleList()  # the linear maps, registered as modules
        self.maps: list[LayerMaps] = []
        for level in range(len(trained.layers)):
            layer = trained.weights(level)
            both_bias_G = layer.input_bias_G + layer.state_bias_G
            if self.cell.sums_gates and (level or precomputed is not None):
                linear = Int8Linear(torch.cat([layer.input_GD, layer.state_GD], 1), both_bias_G, bound=bound)
                self.layers.append(nn.ModuleList([linear]))
                joint_map = linear if level else _WholeInputMap(linear)
                self.maps.append(LayerMaps(joint_map, joint_map))
                continue
            input_linear = Int8Linear(layer.input_GD, layer.input_bias_G, bound=bound)
            state_linear = Int8Linear(layer.state_GD, layer.state_bias_G, bound=bound)
            self.layers.append(nn.ModuleList([input_linear, state_linear]))
            has_extra = level == 0 and self.precomputed < self.inputs
            self.maps.append(LayerMaps(_WholeInputMap(input_linear) if has_extra else input_linear, state_linear))
            if level == 0 and not has_extra:
                self.first_input = input_linear

    @property
    def is_single_lstm(self) -> bool:
        """False: a kernel for a single LSTM would need the weights."""
        return False

    def precompute(self, inputs_ND: Tensor) -> Tensor:
        """What `step` gets for the inputs known in advance: W x + b, or the inputs themselves."""
        return inputs_ND if self.first_input is None else self.first_input(inputs_ND)

    def step_maps(self, precomputed: int | None = None) -> list[LayerMaps]:
        """The linear maps for `step`, made with the stack."""
        return self.maps

    def forward(self, sequences: Ragged, initial: StackState | None = None) -> tuple[Ragged, StackState]:
        """Whole sequences, one step after the other for the rows that have not ended."""
        order = sequences.layout.time_major
        values_ND = order.sort(sequences.values)
        state = map_tree(order.sort_rows, initial or self.zeros(sequences.rows, sequences.values))
        outputs: list[Tensor] = []
        finished: list[StackState] = []  # the last states of the rows that have ended, shortest rows first
        for values_BD in values_ND.split(order.batch_sizes):
            running = len(values_BD)
            if running < len(state[0][0]):
                finished.append(tuple(tuple(part[running:] for part in layer) for layer in state))
                state = first(state, running)
            inputs_BD, extra_BD = values_BD[:, : self.precomputed], values_BD[:, self.precomputed :]
            output_BD, state = self.step(
                values_BD, self.precompute(inputs_BD), state, self.maps, extra_BD if extra_BD.shape[1] else None
            )
            outputs.append(output_BD)
        finished.append(state)
        joined: StackState = tuple(
            _concatenate([stack_state[level] for stack_state in finished[::-1]]) for level in range(len(state))
        )
        return sequences.like(order.unsort(torch.cat(outputs))), map_tree(order.unsort_rows, joined)


def _concatenate(states: Sequence[LayerState]) -> LayerState:
    return tuple(torch.cat(parts) for parts in zip(*states, strict=True))


class Int8Decoder(RecurrentDecoder):
    """A recurrent decoder whose linear maps are already made."""

    stack: Int8Stack

    def _step_maps(self) -> DecoderMaps:
        return DecoderMaps(self.stack.maps, cast(Int8Linear | None, self.readout))

    def _input_gates(self, embedded_NE: Tensor) -> Tensor:
        return self.stack.precompute(embedded_NE)


class _Bounds(NamedTuple):
    """What no input of these products exceeds in magnitude; None: unknown."""

    stack: float | None
    readout: float | None
    output: float | None


def _input_bounds(decoder: RecurrentDecoder, encoder: object, embedding_VE: Tensor) -> _Bounds:
    """What follows from |tanh| ≤ 1 and |h_t| ≤ 1 if |h_0| ≤ 1, as with every bridge from a recurrent encoder."""
    maximum = max(1.0, float(embedding_VE.detach().abs().max()))
    embedded = maximum if maximum <= MAX_BOUND else None
    bounded_states = isinstance(encoder, RecurrentEncoder) and _outputs_are_states(decoder.stack)
    bounded_context = decoder.attention is None or (
        isinstance(encoder, RecurrentEncoder)
        and _outputs_are_states(encoder.stack)
        and isinstance(decoder.attention.value_projection, nn.Identity)
    )
    bounded_inputs = bounded_states and (bounded_context or not decoder.attends_before)
    readout = embedded if decoder.readout_has_embedding else 1.0
    return _Bounds(
        stack=embedded if bounded_inputs else None,
        readout=readout if bounded_states and bounded_context else None,
        output=1.0 if bounded_states or decoder.readout is not None else None,
    )


def _outputs_are_states(stack: RecurrentStack) -> bool:
    """Whether the outputs of the layers are their states, neither added to the input nor normalized."""
    return stack.connections != "residual" and all(isinstance(norm, nn.Identity) for norm in stack.norms)


def quantize(model: Model) -> Model:
    """A copy of a model with eight-bit products, for search on a CPU; what is not converted is shared."""
    for name, parameter in model.named_parameters():
        if parameter.device.type != "cpu" or parameter.dtype != torch.float32:
            dtype = str(parameter.dtype).removeprefix("torch.")
            raise SearchError(
                f"quantize: {name} is {dtype} on {parameter.device}; quantization needs float32 on a CPU: "
                "move the model there first"
            )
    return cast(Model, _convert(cast(nn.Module, model), {}).eval())


def _convert(module: nn.Module, converted: dict[int, nn.Module]) -> nn.Module:
    """The module with all its submodules converted; a module that is used twice is converted once."""
    if id(module) not in converted:
        converted[id(module)] = _convert_once(module, converted)
    return converted[id(module)]


def _convert_once(module: nn.Module, converted: dict[int, nn.Module]) -> nn.Module:
    if isinstance(module, nn.Linear):
        return Int8Linear(module.weight, module.bias)
    if isinstance(module, Output):
        return Int8Output(module)
    if isinstance(module, RecurrentStack):
        return Int8Stack(module, precomputed=None)
    if isinstance(module, RecurrentEncoder | Emission | HardAlignment):
        return module
    if isinstance(module, EncoderDecoder | HardAttentionSeq2Seq) and isinstance(module.decoder, RecurrentDecoder):
        decoder, output = module.decoder, module.output
        bounds = _input_bounds(decoder, module.encoder, module.target_embedding.weight_VE)
        stack = Int8Stack(decoder.stack, precomputed=decoder.embedding_size, bound=bounds.stack)
        converted[id(decoder.stack)] = stack
        converted[id(output)] = Int8Output(output, bound=bounds.output)
        if decoder.readout is not None:
            readout = decoder.readout
            converted[id(readout)] = Int8Linear(readout.weight, readout.bias, bound=bounds.readout)
    result = copy.copy(module)
    attributes: dict[str, Any] = result.__dict__
    attributes.update(_parameters=dict(module._parameters), _buffers=dict(module._buffers), _modules={})
    for name, child in module._modules.items():
        attributes["_modules"][name] = None if child is None else _convert(child, converted)
    if isinstance(module, RecurrentDecoder):
        result.__class__ = Int8Decoder
    return result
