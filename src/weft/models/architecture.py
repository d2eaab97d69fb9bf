"""The architecture of a model as a value: its kind, stacks, embeddings and attentions, and what follows from them.

Every model of weft has a method ``architecture()``; `architecture_of` also takes models that have none. Code that
depends on the parts of a model reads this value instead of asking for its class. It contains no modules: they are
named, and ``model.get_submodule(name)`` gives them.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace
from typing import Any, Literal, NamedTuple, Protocol, runtime_checkable

from torch import Tensor

from weft.attention.edits import AttentionRole

Kind = Literal["seq2seq", "hard_attention", "prefix_lm", "language_model", "ctc", "ensemble", "unknown"]
Family = Literal["recurrent", "transformer", "unknown"]


class StackShape(NamedTuple):
    """The layers of an encoder or a decoder."""

    module: str
    """The name of the module in the model: ``encoder.stack``."""
    family: Family
    layers: int = 0
    width: int = 0
    """Width of the states that it returns."""
    positions: str | None = None
    """A value of ``model.encoder.positions``; None without positions, as in a recurrence."""
    max_positions: int | None = None
    """The longest sequence that it can read; None: unlimited."""
    fixed_shapes: bool = True
    """Whether no shape in it depends on the lengths of the rows, if the layout of a batch is a `FixedLayout`."""


class EmbeddingShape(NamedTuple):
    """The embedding of a side."""

    module: str
    vocabulary: int
    """0: it is a stem, which reads arrays."""
    width: int
    fixed_shapes: bool = True
    """Whether it returns as many vectors as it reads ids."""


class AttentionShape(NamedTuple):
    """An attention. Several may share a role, such as those to the columns of a source."""

    module: str
    role: AttentionRole
    heads: int = 1


class PartArchitecture(NamedTuple):
    """The architecture of an encoder or a decoder."""

    stacks: tuple[StackShape, ...]
    """Several: of an encoder for each column of a source."""
    attentions: tuple[AttentionShape, ...] = ()


@dataclass(frozen=True)
class Architecture:
    """The parts of a model."""

    kind: Kind
    encoders: tuple[StackShape, ...] = ()
    """Stacks that read the source: several for several source columns, that of the decoder in a prefix language model,
    none in a language model."""
    decoder: StackShape | None = None
    source_embedding: EmbeddingShape | None = None
    target_embedding: EmbeddingShape | None = None
    attentions: tuple[AttentionShape, ...] = ()
    source_columns: int = 1
    copies: bool = False
    """Whether it copies tokens of its source."""
    has_ctc: bool = False
    """Whether its encoder has a CTC output layer."""
    edited: bool = False
    """Whether its attention is edited."""
    subclassed: bool = False
    """Whether its class is a subclass of one of weft's models, and may compute something else."""
    members: tuple[Architecture, ...] = ()
    """Members of an ensemble."""

    @classmethod
    def unknown(cls) -> Architecture:
        """The architecture of a model that does not describe itself."""
        return cls("unknown")

    @property
    def stacks(self) -> tuple[StackShape, ...]:
        """Encoders, then decoder, each once; those of an ensemble are of all members."""
        own = (*self.encoders, *(() if self.decoder is None else (self.decoder,)))
        of_members = [stack for member in self.members for stack in member.stacks]
        return tuple(dict.fromkeys([*own, *of_members]))

    @property
    def is_plain(self) -> bool:
        """Whether the model is one of weft's classes itself, neither copies nor is edited, and has no CTC."""
        return self.kind != "unknown" and not (self.copies or self.has_ctc or self.edited or self.subclassed)

    @property
    def is_transformer(self) -> bool:
        """Whether the decoder is a Transformer."""
        return self.decoder is not None and self.decoder.family == "transformer"

    @property
    def encoder(self) -> StackShape | None:
        """The one stack that reads the source; None without a source, or for a source of several columns."""
        return self.encoders[0] if len(self.encoders) == self.source_columns == 1 else None

    @property
    def fixed_shapes(self) -> bool:
        """Whether no shape in training depends on the lengths of a batch, if its layouts are `FixedLayout`."""
        if self.reads_arrays or self.has_ctc or self.edited or self.members:
            return False
        return bool(self.stacks) and all(stack.fixed_shapes for stack in self.stacks)

    @property
    def reads_arrays(self) -> bool:
        """Whether its sources are packed arrays, read by a stem."""
        embedding = self.source_embedding
        has_stem = embedding is not None and not embedding.fixed_shapes
        return has_stem or any(member.reads_arrays for member in self.members)

    def inside(self, module: str) -> Architecture:
        """The architecture as a part of another model, by whose names its modules are known."""

        def renamed(shape: Any) -> Any:
            return None if shape is None else shape._replace(module=f"{module}.{shape.module}")

        return replace(
            self,
            encoders=tuple(map(renamed, self.encoders)),
            decoder=renamed(self.decoder),
            source_embedding=renamed(self.source_embedding),
            target_embedding=renamed(self.target_embedding),
            attentions=tuple(map(renamed, self.attentions)),
            members=tuple(member.inside(module) for member in self.members),
        )


@runtime_checkable
class HasArchitecture(Protocol):
    """A model that describes itself."""

    def architecture(self) -> Architecture: ...


@runtime_checkable
class HasPartArchitecture(Protocol):
    """An encoder or a decoder that describes itself."""

    def part_architecture(self, module: str) -> PartArchitecture:
        """``module``: the name of the module in the model."""


def architecture_of(model: object) -> Architecture:
    """The architecture of any model: `Architecture.unknown` if it does not describe itself."""
    return model.architecture() if isinstance(model, HasArchitecture) else Architecture.unknown()


def part_architecture_of(part: object, module: str) -> PartArchitecture:
    """The architecture of any encoder or decoder; ``module``: the name of the module in the model."""
    if isinstance(part, HasPartArchitecture):
        return part.part_architecture(module)
    return PartArchitecture((StackShape(module, "unknown", fixed_shapes=False),))


def count_parameters(model: object) -> int:
    """The number of parameters of a model; 0 if it is no `torch.nn.Module`."""
    parameters: Callable[[], Iterable[Tensor]] = getattr(model, "parameters", list)
    return sum(parameter.numel() for parameter in parameters())
