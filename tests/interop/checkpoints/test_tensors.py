"""Tensors of a checkpoint: their shapes are those of the options, and none is left over."""

from __future__ import annotations

from typing import Any

import pytest
import torch

from weft.errors import CheckpointError
from weft.interop.checkpoints.tensors import CheckpointTensors


def refused(read: Any, message: str) -> None:
    with pytest.raises(CheckpointError) as error:
        read()
    assert str(error.value) == f"m.pt: {message}"


def test_taken_in_single_precision() -> None:
    stored = torch.ones(2, 3, dtype=torch.float16)
    tensors = CheckpointTensors({"a": stored}, "m.pt")
    taken = tensors.take("a", 2, 3)
    taken.add_(1)
    assert taken.dtype == torch.float32 and stored.eq(1).all(), "not a view of the file"
    tensors.check_all_taken()


def test_rows_and_names() -> None:
    tensors = CheckpointTensors({"a": torch.zeros(5, 3), "b": torch.tensor(1.0)}, "m.pt")
    assert (tensors.rows("a"), tensors.rows("b"), tensors.names) == (5, 0, ["a", "b"])
    assert "a" in tensors and "c" not in tensors


def test_a_bias_that_may_be_missing() -> None:
    tensors = CheckpointTensors({"a": torch.ones(3)}, "m.pt")
    assert tensors.take_or_zeros("a", 3).tolist() == [1.0] * 3 and tensors.take_or_zeros("b", 2).tolist() == [0.0] * 2
    tensors.check_all_taken()


def test_refused_tensors() -> None:
    tensors = CheckpointTensors(
        {"a": torch.zeros(2, 3), "b": torch.zeros(2, dtype=torch.int64), "c": torch.eye(2).to_sparse()}, "m.pt"
    )
    refused(lambda: tensors.take("a", 3, 2), "tensor 'a' is (2, 3), but the options say (3, 2); are they of one model?")
    refused(lambda: tensors.take("b", 2), "tensor 'b' does not hold floating-point numbers")
    refused(lambda: tensors.take("c", 2, 2), "tensor 'c' does not hold floating-point numbers")
    refused(lambda: tensors.take("d", 2), "lacks tensor 'd', which its options call for")


def test_tensors_left_over() -> None:
    tensors = CheckpointTensors({name: torch.zeros(1) for name in "abc"}, "m.pt")
    tensors.take("a", 1)
    refused(tensors.check_all_taken, "tensor 'b' (one of 2) has no place in the model of its options")
    tensors.ignore("b")
    refused(tensors.check_all_taken, "tensor 'c' has no place in the model of its options")
    tensors.ignore("c", "d")
    tensors.check_all_taken()


@pytest.mark.parametrize("values", [None, [torch.zeros(1)], {"a": torch.zeros(1), "b": 3}])
def test_something_else(values: Any) -> None:
    refused(lambda: CheckpointTensors(values, "m.pt"), "damaged: its model is not a dictionary of tensors")
