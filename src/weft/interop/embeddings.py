"""The embeddings and the output projection of a model, and which of them are one matrix.

The tensors are compared; the configuration is not relied on. A file holds a matrix that is used twice under only one
of its names.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, NamedTuple, Protocol

import torch

from weft.errors import CheckpointError

if TYPE_CHECKING:
    from torch import Tensor


class NamedTensors(Protocol):
    """The tensors of a model, by name."""

    where: str
    """The folder or file, for messages."""

    def __contains__(self, name: str) -> bool: ...

    def take(self, name: str, *shape: int) -> Tensor:
        """A tensor in single precision; it must have this shape."""


class EmbeddingNames(NamedTuple):
    """Under which names each matrix may be found, the most specific first."""

    source: Sequence[str]
    target: Sequence[str]
    output: Sequence[str]


class Embeddings(NamedTuple):
    """The matrices of both vocabularies."""

    tie: str
    """The setting model.tie."""
    tensors: dict[str, Tensor]
    """Each distinct matrix once, under its first name in weft."""
    rows: tuple[int, int]
    """Vocabulary sizes of source and target."""


def read_embeddings(
    weights: NamedTensors, names: EmbeddingNames, *, sizes: tuple[int, int], width: int, output_width: int = 0
) -> Embeddings:
    """``sizes``: vocabulary sizes of source and target; ``output_width``: the output projection's, if different."""
    source = _read(weights, names.source, sizes[0], width)
    target = _read(weights, names.target, sizes[1], width)
    output = _read(weights, names.output, sizes[1], output_width or width)
    same_inputs = torch.equal(source, target)
    tied_output = torch.equal(target, output)
    tensors = {"source_embedding.weight_VE": source}
    if not same_inputs:
        tensors["target_embedding.weight_VE"] = target
    if not tied_output:
        tensors["output.weight_VD"] = output
    tie = {(True, True): "all", (True, False): "inputs", (False, True): "target", (False, False): "none"}
    return Embeddings(tie[same_inputs, tied_output], tensors, sizes)


def _read(weights: NamedTensors, names: Sequence[str], size: int, width: int) -> Tensor:
    """The matrix under the first of these names; under the others it must be the same."""
    given = [name for name in names if name in weights]
    first = weights.take(given[0] if given else names[0], size, width)
    for name in given[1:]:
        if not torch.equal(first, weights.take(name, size, width)):
            raise CheckpointError(
                f"{weights.where}: tensors {given[0]!r} and {name!r} differ, but are one matrix in this model"
            )
    return first
