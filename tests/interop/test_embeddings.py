"""Which embeddings and output projections are one matrix."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from torch import Tensor

from weft.errors import CheckpointError
from weft.interop.embeddings import EmbeddingNames, read_embeddings

NAMES = EmbeddingNames(("source", "shared"), ("target", "shared"), ("output", "target", "shared"))
WIDTH = 3


class Tensors(dict[str, Tensor]):
    """The tensors of a model."""

    where = "model"

    def take(self, name: str, *shape: int) -> Tensor:
        assert self[name].shape == shape
        return self[name]


def matrix(value: float, rows: int = 5) -> Tensor:
    return torch.full((rows, WIDTH), value)


@pytest.mark.parametrize(
    ("matrices", "tie", "kept"),
    [
        ({"shared": matrix(1)}, "all", ["source"]),
        ({"source": matrix(1), "target": matrix(1), "output": matrix(1)}, "all", ["source"]),
        ({"shared": matrix(1), "output": matrix(2)}, "inputs", ["source", "output"]),
        ({"source": matrix(1), "target": matrix(2)}, "target", ["source", "target"]),
        ({"source": matrix(1, 7), "target": matrix(1)}, "target", ["source", "target"]),
        ({"source": matrix(1), "target": matrix(2), "output": matrix(1)}, "none", ["source", "target", "output"]),
    ],
)
def test_ties(matrices: dict[str, Tensor], tie: str, kept: list[str]) -> None:
    names = EmbeddingNames(("source", "shared"), ("target", "shared"), ("output",))
    if "output" not in matrices:
        names = names._replace(output=("target", "shared"))
    sizes = (len(matrices.get("source", matrices.get("shared", []))), 5)
    embeddings = read_embeddings(Tensors(matrices), names, sizes=sizes, width=WIDTH)
    assert (embeddings.tie, embeddings.rows) == (tie, sizes)
    own = {"source": "source_embedding.weight_VE", "target": "target_embedding.weight_VE", "output": "output.weight_VD"}
    assert list(embeddings.tensors) == [own[name] for name in kept]
    for name in kept:
        assert embeddings.tensors[own[name]].equal(matrices.get(name, matrices.get("shared", matrix(0))))


def test_two_names_of_one_matrix() -> None:
    tensors: Any = Tensors(source=matrix(1), shared=matrix(2), target=matrix(2), output=matrix(2))
    with pytest.raises(
        CheckpointError, match=r"^model: tensors 'source' and 'shared' differ, but are one matrix in this model$"
    ):
        read_embeddings(tensors, NAMES, sizes=(5, 5), width=WIDTH)


def test_an_output_projection_of_another_width() -> None:
    tensors = Tensors(shared=matrix(1), output=torch.ones(5, 2))
    names = NAMES._replace(output=("output",))
    assert read_embeddings(tensors, names, sizes=(5, 5), width=WIDTH, output_width=2).tie == "inputs"
