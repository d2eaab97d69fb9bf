"""A trained model with eight-bit products (`weft.fast.cpu.int8`), for search on a CPU.

`quantize` returns a copy for search and scoring in which these are replaced: the output layer, the products of a
recurrent decoder's or language model's step, its readout, bridges, the attention's projections, and every linear map
of a Transformer. Embeddings, norms, recurrent encoders and the matrices of the scores `general` and `concat` stay as
they are and are shared with the original. The copy cannot be trained.

Inputs with a known bound need no scale. In most recurrent decoders there is one (`_input_bounds`): states
and ã_t = tanh(…) are within ±1, a context vector is a mean of states, and embeddings are entries of a matrix.

Near the model it is a copy of; tests/fast/steps/test_quantization.py.
"""

from __future__ import annotations

import copy
from typing import Any, NamedTuple, cast

import torch
from torch import Tensor, nn

from weft.errors import SearchError
from weft.fast.cpu.int8 import Int8Linear
from weft.models.architecture import Architecture, architecture_of
from weft.models.interface import Model
from weft.models.layers import Output
from weft.models.recurrent import LayerState, RecurrentStack, StackState
from weft.models.recurrent_decoder import RecurrentDecoder
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


class Int8Stack(RecurrentStack):
    """The layers of a decoder or language model, which run step by step.

    ``joint``: whether one product reads [x; h] of the first layer where the cell sums both, as in the other layers;
    ``bound``: bound on all inputs of all layers.
    """

    def __init__(self, trained: RecurrentStack, *, joint: bool, bound: float | None = None) -> None:
        nn.Module.__init__(self)
        self.cell, self.inputs, self.hidden = trained.cell, trained.inputs, trained.hidden
        self.connections, self.dropout, self.directions = trained.connections, trained.dropout, trained.directions
        self.norms = trained.norms
        self.layers = nn.ModuleList()
        for level in range(len(trained.layers)):
            layer = trained.weights(level)
            if self.cell.sums_gates and (level or joint):
                both_bias_G = layer.input_bias_G + layer.state_bias_G
                linear = Int8Linear(torch.cat([layer.input_GD, layer.state_GD], 1), both_bias_G, bound=bound)
                self.layers.append(nn.ModuleList([linear]))
                continue
            input_linear = Int8Linear(layer.input_GD, layer.input_bias_G, bound=bound)
            state_linear = Int8Linear(layer.state_GD, layer.state_bias_G, bound=bound)
            self.layers.append(nn.ModuleList([input_linear, state_linear]))

    def step_layer(self, level: int, inputs_BD: Tensor, state: LayerState) -> LayerState:
        linear, *state_linear = cast(nn.ModuleList, self.layers[level])
        if state_linear:
            return self.cell.step(linear(inputs_BD), state_linear[0](state[0]), state)
        gates_BG = linear(inputs_BD, state[0])
        return self.cell.step(gates_BG, torch.zeros_like(gates_BG), state)

    def forward(self, sequences: Ragged, initial: StackState | None = None) -> tuple[Ragged, StackState]:
        """Whole sequences, one step after the other for the rows that have not ended."""
        order = sequences.layout.time_major
        start = map_tree(order.sort_rows, initial or self.zeros(sequences.rows, sequences.values))
        state, states, outputs = start, [first(start, 0)], []
        for inputs_BD in order.sort(sequences.values).split(order.batch_sizes):
            output_BD, state = self.step(inputs_BD, first(state, len(inputs_BD)))
            outputs.append(output_BD)
            states.append(state)
        finals = tuple(
            tuple(order.last(torch.cat(parts), initial_BD) for *parts, initial_BD in zip(*layers, layer, strict=True))
            for *layers, layer in zip(*states, start, strict=True)
        )
        return sequences.like(order.unsort(torch.cat(outputs))), map_tree(order.unsort_rows, finals)


class _Bounds(NamedTuple):
    """Bounds on the magnitude of the inputs of these products; None: unknown."""

    stack: float | None
    readout: float | None
    output: float | None


def _input_bounds(decoder: RecurrentDecoder, encoder: RecurrentStack | None, embedding_VE: Tensor) -> _Bounds:
    """Bounds that follow from |tanh| ≤ 1 and |h_t| ≤ 1 if |h_0| ≤ 1, as with every bridge from a recurrent encoder.

    ``encoder``: the stack of the encoder, if it is recurrent.
    """
    maximum = max(1.0, float(embedding_VE.detach().abs().max()))
    embedded = maximum if maximum <= MAX_BOUND else None
    bounded_states = encoder is not None and _outputs_are_states(decoder.stack)
    bounded_context = decoder.attention is None or (
        encoder is not None
        and _outputs_are_states(encoder)
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


def is_always(model: Model) -> bool:
    return True


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
        return Int8Stack(module, joint=False)
    described = architecture_of(module)
    if described.kind in ("seq2seq", "hard_attention", "ctc") and not described.edited:
        _convert_parts(module, described, converted)
    return _copy(module, converted)


def _copy(module: nn.Module, converted: dict[int, nn.Module]) -> nn.Module:
    """A copy with converted submodules."""
    result = copy.copy(module)
    attributes: dict[str, Any] = result.__dict__
    attributes.update(_parameters=dict(module._parameters), _buffers=dict(module._buffers), _modules={})
    for name, child in module._modules.items():
        attributes["_modules"][name] = None if child is None else _convert(child, converted)
    return result


def _convert_parts(model: Any, described: Architecture, converted: dict[int, nn.Module]) -> None:
    """Convert what depends on the model: a recurrent decoder, whose inputs may have known bounds, and what stays."""
    names = [stack.module.removesuffix(".stack") for stack in described.encoders if stack.family == "recurrent"]
    names += ["alignment", "emission"] if described.kind == "hard_attention" else []
    converted.update((id(module), module) for module in map(model.get_submodule, names))
    if described.is_transformer or described.decoder is None:
        return
    decoder: RecurrentDecoder = model.decoder
    encoder = described.encoder
    encoder_stack = model.get_submodule(encoder.module) if encoder and encoder.family == "recurrent" else None
    bounds = _input_bounds(decoder, encoder_stack, model.target_embedding.weight_VE)
    converted[id(decoder.stack)] = Int8Stack(decoder.stack, joint=True, bound=bounds.stack)
    if described.kind != "hard_attention":
        converted[id(model.output)] = Int8Output(model.output, bound=bounds.output)
    if decoder.readout is not None:
        readout = decoder.readout
        converted[id(readout)] = Int8Linear(readout.weight, readout.bias, bound=bounds.readout)
