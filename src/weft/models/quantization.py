"""Eight-bit products for search on a CPU: a trained model whose matrices are small integers.

    W ≈ diag(s) Q      Q_ij = round(W_ij / s_i),  s_i = max_j |W_ij| / 127          once, a scale for every output
    x ≈ r u            u_j = round(x_j / r),      r = max_j |x_j| / 127             anew, a scale for every row
    W x + b ≈ r s ⊙ (Q u) + b                                                       Q u in whole numbers, exactly

Where no |x_j| can be above a known m, r = m / 127 once and for all: scales and b are then part of the product, which
saves two passes over the logits. So it is in most recurrent decoders (`_bounds`): states and ã_t = tanh(…) lie within
±1, a context is a mean of states, and embeddings stand in a table. Elsewhere, as in Transformers, r is the row's own.

Scales of activations belong to a row alone (per token: Dettmers et al. 2022, 2.1; Yao et al. 2022, 4.1), so that what a
row gets does not depend on its company in the batch; one scale for a whole batch, as PyTorch's own dynamic
quantization has it (`torch.ao`), would make a search's answers depend on it.

`quantize` gives a copy for search and scoring, in which these are replaced: the output layer, the products of a
recurrent decoder's or language model's step, its readout, bridges, the attention's projections, and every linear map
of a Transformer. Embeddings, norms, recurrent encoders and the matrices of the scores `general` and `concat` stay as
they are and are shared with the given model. The copy cannot be trained.

The products are oneDNN's, of unsigned by signed bytes, and quick only where the CPU has them (VNNI: Intel since 2019,
AMD since Zen 4). Without, pairs of products are summed in 16 bits and would overflow, so activations get 7 bits instead
of 8 (`LEVELS`); then a copy saves memory, but no time.
"""

from __future__ import annotations

import copy
from collections.abc import Sequence
from typing import Any, NamedTuple, TypeVar, cast

import torch
from torch import Tensor, nn

from weft.errors import SearchError
from weft.models.encoders import RecurrentEncoder
from weft.models.layers import Output
from weft.models.recurrent import LayerState, RecurrentStack, StackState, StepMaps
from weft.models.recurrent_decoder import RecurrentDecoder, _Maps
from weft.models.seq2seq import Seq2Seq
from weft.ragged import Ragged
from weft.tree import first, map_tree

AnyModule = TypeVar("AnyModule", bound=nn.Module)

QUICK: bool = torch.cpu._is_vnni_supported()
"""Whether this CPU multiplies bytes without overflow, and quickly."""
LEVELS = 127 if QUICK else 63
"""An activation is a whole number between −LEVELS and LEVELS, stored as a byte with LEVELS + 1 for zero."""


_PLAINLY: tuple[object, ...] = (1.0, 0, torch.float32, "none", [], "")
"""To oneDNN: the result as it is, as floats, and nothing done to it."""
LARGEST_BOUND = 2.0
"""Embeddings beyond this leave too few levels for states within ±1; rows then have scales of their own."""


class Int8Linear(nn.Module):
    """x -> W x + b in whole numbers; with several inputs, W [x_1; …; x_n] + b. Also a `LinearMap` for a recurrence.

    ``bound``: what no input's magnitude exceeds (one that did would be cut off there); None: not known.
    """

    def __init__(self, weight_GD: Tensor, bias_G: Tensor | None = None, *, bound: float | None = None) -> None:
        super().__init__()
        weight_GD = weight_GD.detach().float()
        scale_G = weight_GD.abs().amax(1).clamp(min=torch.finfo(torch.float32).tiny) / 127
        rounded_GD = (weight_GD / scale_G[:, None]).round().to(torch.int8)
        self.packed = torch.ops.onednn.qlinear_prepack(rounded_GD, None)
        self.bound = bound
        # r s of bounded inputs; of others s / LEVELS, so that only r · LEVELS, the row's largest, is left
        self.scale_G = scale_G * ((1.0 if bound is None else bound) / LEVELS)
        self.zero_G = torch.zeros(len(scale_G), dtype=torch.int32)
        self.bias_G = None if bias_G is None else bias_G.detach().float()

    def forward(self, *inputs: Tensor, added: Tensor | None = None) -> Tensor:
        """``added``: to the result."""
        joint_ND = torch.cat(inputs, -1) if len(inputs) > 1 else inputs[0]
        made_NG = self._product(joint_ND.flatten(0, -2))
        if added is not None:
            made_NG += added
        return made_NG if joint_ND.dim() == 2 else made_NG.unflatten(0, joint_ND.shape[:-1])

    def _product(self, inputs_ND: Tensor) -> Tensor:
        if not len(inputs_ND):
            return inputs_ND.new_zeros(0, len(self.scale_G))
        if self.bound is not None:
            whole_ND = (inputs_ND * (LEVELS / self.bound)).round_().clamp_(-LEVELS, LEVELS)
            return self._of_whole(whole_ND, self.bias_G)
        largest_N1 = torch.maximum(inputs_ND.amax(-1, keepdim=True), inputs_ND.amin(-1, keepdim=True).neg_())
        largest_N1.clamp_(min=torch.finfo(torch.float32).tiny * LEVELS)
        made_NG = self._of_whole((inputs_ND * (LEVELS / largest_N1)).round_(), None)
        if self.bias_G is None:
            return made_NG.mul_(largest_N1)
        return torch.addcmul(self.bias_G, made_NG, largest_N1, out=made_NG)

    def _of_whole(self, whole_ND: Tensor, bias_G: Tensor | None) -> Tensor:
        # by way of signed bytes, which PyTorch makes of floats quickly; bytes wrap round, so the zero can come last
        bytes_ND = whole_ND.to(torch.int8).view(torch.uint8).add_(LEVELS + 1)
        made_NG: Tensor = torch.ops.onednn.qlinear_pointwise(
            bytes_ND, 1.0, LEVELS + 1, self.packed, self.scale_G, self.zero_G, bias_G, *_PLAINLY
        )
        return made_NG


class Int8Output(Output):
    """States to logits over the vocabulary."""

    def __init__(self, trained: Output, *, bound: float | None = None) -> None:
        nn.Module.__init__(self)
        self.width = trained.width
        self.weight_VD = nn.Parameter(trained.bias_V.new_empty(0, trained.width), requires_grad=False)
        self.bias_V = trained.bias_V
        self.product = Int8Linear(trained.weight_VD, trained.bias_V, bound=bound)

    def forward(self, states_ND: Tensor) -> Tensor:
        made_NV: Tensor = self.product(states_ND)
        return made_NV


class _WithKnown:
    """A map of the first layer that reads the inputs known beforehand, given as ``added``, along with the others."""

    def __init__(self, product: Int8Linear) -> None:
        self.product = product

    def __call__(self, *inputs: Tensor, added: Tensor | None = None) -> Tensor:
        assert added is not None
        made_BG: Tensor = self.product(added, *inputs)
        return made_BG


class Int8Stack(RecurrentStack):
    """The layers of a decoder or language model. It runs step by step only: `forward` is a loop over `step`.

    ``known``: how many leading inputs of the first layer are known before the recurrence. Where one product can read
    them with the rest, nothing is made of them beforehand (`of_known`). ``bound``: of all that any layer reads.
    """

    def __init__(self, trained: RecurrentStack, *, known: int | None, bound: float | None = None) -> None:
        nn.Module.__init__(self)
        self.cell, self.inputs, self.hidden = trained.cell, trained.inputs, trained.hidden
        self.connections, self.dropout, self.directions = trained.connections, trained.dropout, trained.directions
        self.norms = trained.norms
        self.known = self.inputs if known is None else known
        self.first_input: Int8Linear | None = None
        self.layers = nn.ModuleList()  # the products, so that they are found as modules
        self.maps: list[StepMaps] = []
        for level in range(len(trained.layers)):
            layer = trained.weights(level)
            both_bias_G = layer.input_bias_G + layer.state_bias_G
            if self.cell.sums and (level or known is not None):
                product = Int8Linear(torch.cat([layer.input_GD, layer.state_GD], 1), both_bias_G, bound=bound)
                self.layers.append(nn.ModuleList([product]))
                joint = product if level else _WithKnown(product)
                self.maps.append(StepMaps(joint, joint))
                continue
            of_input = Int8Linear(layer.input_GD, layer.input_bias_G, bound=bound)
            of_state = Int8Linear(layer.state_GD, layer.state_bias_G, bound=bound)
            self.layers.append(nn.ModuleList([of_input, of_state]))
            reads_more = level == 0 and self.known < self.inputs
            self.maps.append(StepMaps(_WithKnown(of_input) if reads_more else of_input, of_state))
            if level == 0 and not reads_more:
                self.first_input = of_input

    @property
    def is_one_lstm(self) -> bool:
        """No: what asks would go on to use its weights."""
        return False

    def of_known(self, known_ND: Tensor) -> Tensor:
        """What `step` is given of the inputs that are known beforehand: their map, or themselves."""
        return known_ND if self.first_input is None else self.first_input(known_ND)

    def step_maps(self, known: int | None = None) -> list[StepMaps]:
        """The maps for `step`, made when the stack was."""
        return self.maps

    def forward(self, sequences: Ragged, initial: StackState | None = None) -> tuple[Ragged, StackState]:
        """Whole sequences, one step after the other for the rows that are still running."""
        order = sequences.layout.time_major
        values_ND = order.sort(sequences.values)
        state = map_tree(order.sort_rows, initial or self.zeros(sequences.rows, sequences.values))
        outputs: list[Tensor] = []
        ended: list[StackState] = []  # the last states of rows that have ended, shortest rows first
        for values_BD in values_ND.split(order.batch_sizes):
            running = len(values_BD)
            if running < len(state[0][0]):
                ended.append(tuple(tuple(part[running:] for part in layer) for layer in state))
                state = first(state, running)
            known_BD, extra_BD = values_BD[:, : self.known], values_BD[:, self.known :]
            output_BD, state = self.step(
                values_BD, self.of_known(known_BD), state, self.maps, extra_BD if extra_BD.shape[1] else None
            )
            outputs.append(output_BD)
        ended.append(state)
        final: StackState = tuple(
            _joined([one[level] for one in ended[::-1]], order.unsorted_rows) for level in range(len(state))
        )
        return sequences.like(order.unsort(torch.cat(outputs))), final


def _joined(parts: Sequence[LayerState], order: Tensor) -> LayerState:
    return tuple(torch.cat(one).index_select(0, order) for one in zip(*parts, strict=True))


class Int8Decoder(RecurrentDecoder):
    """A recurrent decoder whose maps are made already."""

    stack: Int8Stack

    def _maps(self) -> _Maps:
        return _Maps(self.stack.maps, cast(Int8Linear | None, self.readout))

    def _of_embedded(self, embedded_NE: Tensor) -> Tensor:
        return self.stack.of_known(embedded_NE)


class _Bounds(NamedTuple):
    """What the magnitudes of all that a product reads cannot exceed; None: not known."""

    stack: float | None
    readout: float | None
    output: float | None


def _bounds(decoder: RecurrentDecoder, encoder: nn.Module, embedding_VE: Tensor) -> _Bounds:
    """What follows from |tanh| ≤ 1 and |h_t| ≤ 1 where |h_0| ≤ 1, as every bridge from a recurrent encoder has it."""
    largest = max(1.0, float(embedding_VE.detach().abs().max()))
    embedded = largest if largest <= LARGEST_BOUND else None
    inner = isinstance(encoder, RecurrentEncoder) and _gives_states(decoder.stack)
    context = decoder.attention is None or (
        isinstance(encoder, RecurrentEncoder)
        and _gives_states(encoder.stack)
        and isinstance(decoder.attention.value_projection, nn.Identity)
    )
    read = inner and (context or not decoder.looks_before)
    return _Bounds(
        stack=embedded if read else None,
        readout=(embedded if decoder.reads_embedding else 1.0) if inner and context else None,
        output=1.0 if inner or decoder.readout is not None else None,
    )


def _gives_states(stack: RecurrentStack) -> bool:
    """Whether what its layers give is their states, neither summed nor normalized."""
    return stack.connections != "residual" and all(isinstance(norm, nn.Identity) for norm in stack.norms)


def quantize(model: AnyModule) -> AnyModule:
    """A copy of a model with products in eight bits, for search on a CPU; what stays as it was is shared."""
    for name, parameter in model.named_parameters():
        if parameter.device.type != "cpu" or parameter.dtype != torch.float32:
            kind = str(parameter.dtype).removeprefix("torch.")
            raise SearchError(
                f"quantize: {name} is {kind} on {parameter.device}; eight bits are made of float32 on a CPU: "
                "move the model there first"
            )
    return cast(AnyModule, _convert(model, {}).eval())


def _convert(module: nn.Module, made: dict[int, nn.Module]) -> nn.Module:
    """The module with everything below it converted; one that stands in two places still does."""
    if id(module) not in made:
        made[id(module)] = _converted(module, made)
    return made[id(module)]


def _converted(module: nn.Module, made: dict[int, nn.Module]) -> nn.Module:
    if isinstance(module, nn.Linear):
        return Int8Linear(module.weight, module.bias)
    if isinstance(module, Output):
        return Int8Output(module)
    if isinstance(module, RecurrentStack):
        return Int8Stack(module, known=None)
    if isinstance(module, RecurrentEncoder):
        return module
    if isinstance(module, Seq2Seq) and isinstance(module.decoder, RecurrentDecoder):
        decoder, output = module.decoder, module.output
        bounds = _bounds(decoder, module.encoder, module.target_embedding.weight_VE)
        made[id(decoder.stack)] = Int8Stack(decoder.stack, known=decoder.embedding, bound=bounds.stack)
        made[id(output)] = Int8Output(output, bound=bounds.output)
        if decoder.readout is not None:
            readout = decoder.readout
            made[id(readout)] = Int8Linear(readout.weight, readout.bias, bound=bounds.readout)
    new = copy.copy(module)
    inside: dict[str, Any] = new.__dict__
    inside.update(_parameters=dict(module._parameters), _buffers=dict(module._buffers), _modules={})
    for name, child in module._modules.items():
        inside["_modules"][name] = None if child is None else _convert(child, made)
    if isinstance(module, RecurrentDecoder):
        new.__class__ = Int8Decoder
    return new
