"""Low-rank adapters: W + (α/r) B A in place of a matrix W, of which only A and B are trained   Hu et al. 2021, 4.1.

A projection is a matrix that gets its own adapter. Several may be rows of one linear map: ``query_key_value`` of
self-attention is the projections ``query``, ``key`` and ``value``. Names are those of the modules, with a projection's
name in place of the map's: ``encoder.stack.layers.0.self_attention.query``.

Models are trained with `LoraLinear` in place of their linear maps (`add_adapters`). To use an adapter, it is added to
the weights (`merge`), so that nothing else knows of it.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from fnmatch import fnmatchcase
from typing import NamedTuple, cast

import torch
from torch import Tensor, nn
from torch.nn import functional

from weft.attention.multihead import CrossAttention, SelfAttention
from weft.errors import RecipeError
from weft.models.interface import Model
from weft.models.layers import dropout
from weft.models.transformer import FeedForward
from weft.recipe.training import LoraSettings

ATTENTION_TARGETS = ("query", "value")


class Projection(NamedTuple):
    """A matrix that can get an adapter: some rows of a linear map."""

    name: str
    module: str
    """The name of the linear map."""
    rows: slice


class LowRank(NamedTuple):
    """The adapter of one projection: W becomes W + scale · B A."""

    lora_A: Tensor
    """(R, D)"""
    lora_B: Tensor
    """(G, R)"""
    scale: float

    def update(self) -> Tensor:
        """scale · B A"""
        return self.scale * (self.lora_B @ self.lora_A)


class Matrices(nn.Module):
    """Parameters by any name: an `nn.ParameterDict` has none called ``keys``, as it has a method of that name."""

    def __setitem__(self, name: str, matrix: nn.Parameter) -> None:
        self._parameters[name] = matrix

    def __getitem__(self, name: str) -> nn.Parameter:
        return cast(nn.Parameter, self._parameters[name])


class LoraLinear(nn.Linear):
    """A linear map y = W x + b with adapters: for the rows of a projection, y + (α/r) B A dropout(x)."""

    def __init__(self, linear: nn.Linear, parts: Mapping[str, slice], settings: LoraSettings) -> None:
        """``parts``: the rows of each projection that gets an adapter, by the last part of its name."""
        nn.Module.__init__(self)
        self.in_features, self.out_features = linear.in_features, linear.out_features
        self._parameters.update(linear._parameters)
        self.parts = dict(parts)
        self.scale, self.dropout = settings.scale, settings.dropout
        self.lora_A, self.lora_B = Matrices(), Matrices()
        for name, rows in self.parts.items():
            self.lora_A[name] = nn.Parameter(linear.weight.new_empty(settings.rank, linear.in_features))
            self.lora_B[name] = nn.Parameter(linear.weight.new_empty(rows.stop - rows.start, settings.rank))
        self.reset_parameters()

    def reset_parameters(self) -> None:
        """A random and B zero, so that W x is unchanged; W and b are left alone."""
        for name in self.parts:
            nn.init.kaiming_uniform_(self.lora_A[name], a=math.sqrt(5))
            nn.init.zeros_(self.lora_B[name])

    @property
    def weight(self) -> Tensor:  # type: ignore[override]
        """W + (α/r) B A, for what reads the matrix instead of calling the module."""
        base_GD = cast(Tensor, self._parameters["weight"])
        added = [self.scale * (self.lora_B[name] @ self.lora_A[name]) for name in self.parts]
        return _add_rows(base_GD, added, list(self.parts.values()), 0)

    def forward(self, input: Tensor) -> Tensor:
        output = functional.linear(input, cast(Tensor, self._parameters["weight"]), self.bias)
        dropped = dropout(input, self.dropout, self.training)
        added = [
            self.scale * functional.linear(functional.linear(dropped, self.lora_A[name]), self.lora_B[name])
            for name in self.parts
        ]
        return _add_rows(output, added, list(self.parts.values()), -1)

    def adapter_parameters(self) -> Iterator[nn.Parameter]:
        """The parameters of the adapters, which are the only ones that are trained."""
        yield from (*self.lora_A.parameters(), *self.lora_B.parameters())


def _add_rows(values: Tensor, added: Sequence[Tensor], ranges: Sequence[slice], axis: int) -> Tensor:
    """``values`` with tensors added to ranges of an axis, which are in order and do not overlap."""
    size, pieces, end = values.shape[axis], [], 0
    for tensor, rows in zip(added, ranges, strict=True):
        if rows.start > end:
            pieces.append(values.narrow(axis, end, rows.start - end))
        pieces.append(values.narrow(axis, rows.start, rows.stop - rows.start) + tensor)
        end = rows.stop
    if end < size:
        pieces.append(values.narrow(axis, end, size - end))
    return pieces[0] if len(pieces) == 1 else torch.cat(pieces, axis)


def projections(model: Model) -> list[Projection]:
    """Every projection of a model."""
    modules = dict(cast(nn.Module, model).named_modules())
    result = []
    for name, module in modules.items():
        if isinstance(module, nn.Linear):
            group, _, last = name.rpartition(".")
            start = 0
            for part, size in _parts(modules[group], last, module).items():
                result.append(Projection(f"{group}.{part}" if group else part, name, slice(start, start + size)))
                start += size
    return result


def _parts(parent: nn.Module, name: str, linear: nn.Linear) -> dict[str, int]:
    """The projections that are rows of a linear map, and how many rows each has."""
    if isinstance(parent, SelfAttention | CrossAttention) and name in ("query_key_value", "key_value"):
        keys = parent.kv_heads * parent.head_width
        sizes = {"query": parent.heads * parent.head_width, "key": keys, "value": keys}
        return {part: size for part, size in sizes.items() if part in name}
    if isinstance(parent, FeedForward) and name == "linear1" and parent.linear2.in_features != linear.out_features:
        return {"gate": linear.out_features // 2, "up": linear.out_features // 2}
    return {name: linear.out_features}


def choose(every: Sequence[Projection], patterns: Sequence[str]) -> list[Projection]:
    """The projections whose names, or the ends of whose names, match one of the patterns; each must match some.

    Without patterns: the queries and values of multi-head attention   Hu et al. 2021, 7.1; in a model without it, all.
    """
    if not every:
        raise RecipeError("training.lora: this model has no projections; train its weights, without --lora")
    chosen: dict[str, Projection] = {}
    ends = {each.name.rpartition(".")[2] for each in every}
    for pattern in patterns or (ATTENTION_TARGETS if ends.issuperset(ATTENTION_TARGETS) else ("*",)):
        matching = [each for each in every if fnmatchcase(f".{each.name}", f"*.{pattern}")]
        if not matching:
            known = ", ".join(dict.fromkeys(each.name.rpartition(".")[2] for each in every))
            raise RecipeError(f"training.lora.targets: no projection matches {pattern!r}; this model has {known}")
        chosen |= {each.name: each for each in matching}
    return [each for each in every if each.name in chosen]


def add_adapters(model: Model, settings: LoraSettings, *, seed: int) -> None:
    """Freeze a model and put adapters on the projections that the settings name; at first they change nothing."""
    chosen = choose(projections(model), settings.targets)
    modules = dict(cast(nn.Module, model).named_modules())
    largest = max(
        min(each.rows.stop - each.rows.start, cast(nn.Linear, modules[each.module]).in_features) for each in chosen
    )
    if settings.rank > largest:
        raise RecipeError(
            f"training.lora.rank: {settings.rank} was given; the matrices that get an adapter have rank {largest} at "
            "most, so a larger adapter is of no use"
        )
    for parameter in model.parameters():
        parameter.requires_grad_(False)
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        for name in dict.fromkeys(each.module for each in chosen):
            parts = {each.name.rpartition(".")[2]: each.rows for each in chosen if each.module == name}
            group, _, last = name.rpartition(".")
            linear = cast(nn.Linear, modules[name])
            setattr(modules[group], last, LoraLinear(linear, parts, settings))


def adapter_of(model: Model, tensors: Mapping[str, Tensor], scale: float) -> dict[str, LowRank]:
    """An adapter by projection, from its parameters by their names in a model with `LoraLinear`."""
    adapter = {}
    for each in projections(model):
        last = each.name.rpartition(".")[2]
        if f"{each.module}.lora_A.{last}" in tensors:
            a_RD, b_GR = (tensors[f"{each.module}.{matrix}.{last}"] for matrix in ("lora_A", "lora_B"))
            adapter[each.name] = LowRank(a_RD, b_GR, scale)
    return adapter


def merge(model: Model, adapter: Mapping[str, LowRank]) -> None:
    """Add an adapter to the weights of a model, in place. It must fit the model (`misfit`)."""
    every = {each.name: each for each in projections(model)}
    modules = dict(cast(nn.Module, model).named_modules())
    with torch.no_grad():
        for name, matrices in adapter.items():
            weight_GD = cast(nn.Linear, modules[every[name].module]).weight
            update_GD = matrices._replace(lora_A=matrices.lora_A.float(), lora_B=matrices.lora_B.float()).update()
            weight_GD[every[name].rows] += update_GD.to(weight_GD)


def misfit(model: Model, adapter: Mapping[str, LowRank]) -> str | None:
    """The reason why an adapter does not fit this model; None if it does."""
    modules = dict(cast(nn.Module, model).named_modules())
    shapes = {
        each.name: (each.rows.stop - each.rows.start, cast(nn.Linear, modules[each.module]).in_features)
        for each in projections(model)
    }
    for name, matrices in adapter.items():
        if name not in shapes:
            return f"it adapts {name!r}, which the model does not have"
        a_RD, b_GR, (outputs, inputs) = matrices.lora_A, matrices.lora_B, shapes[name]
        if a_RD.shape != (b_GR.shape[-1], inputs) or b_GR.shape != (outputs, len(a_RD)):
            given = f"{tuple(b_GR.shape)} and {tuple(a_RD.shape)}"
            return f"for {name!r} it has matrices {given}; that projection is {(outputs, inputs)}"
    return None
