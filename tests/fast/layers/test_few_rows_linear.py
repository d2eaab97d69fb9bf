"""Linear maps of a few rows against `torch.nn.functional.linear`."""

from __future__ import annotations

import pytest
import torch
from torch import nn
from torch.nn import functional

from weft.fast.layers.few_rows_linear import MAX_ROWS, FewRowsWeights, few_rows_linear


def weights_of(linear: nn.Linear, rows: int) -> FewRowsWeights:
    return FewRowsWeights.of(linear, linear.weight, linear.bias, rows=rows)


@pytest.mark.parametrize("rows", [1, 2, MAX_ROWS])
@pytest.mark.parametrize(("inputs", "outputs"), [(7, 7), (7, 211), (211, 7)])
@torch.no_grad()
def test_equal_to_linear(rows: int, inputs: int, outputs: int) -> None:
    linear = nn.Linear(inputs, outputs)
    inputs_RD = torch.randn(inputs, rows).t()
    for most in (rows, MAX_ROWS):  # with one row, with and without the copy
        result_RE = few_rows_linear(inputs_RD, weights_of(linear, most))
        torch.testing.assert_close(result_RE, functional.linear(inputs_RD, linear.weight, linear.bias))


def test_which_weights_are_copied() -> None:
    wide, narrow = nn.Linear(3, 5), nn.Linear(5, 3)
    assert weights_of(wide, 2).transposed_DE is None and weights_of(narrow, 1).transposed_DE is None
    copy_DE = weights_of(wide, 1).transposed_DE
    assert copy_DE is not None and copy_DE.is_contiguous() and weights_of(wide, 1).transposed_DE is copy_DE


@torch.no_grad()
def test_weights_that_change_are_copied_again() -> None:
    linear = nn.Linear(3, 5)
    weights_of(linear, 1)
    linear.weight.mul_(2.0)
    copy_DE = weights_of(linear, 1).transposed_DE
    assert copy_DE is not None and torch.equal(copy_DE, linear.weight.t())
    linear.weight = nn.Parameter(linear.weight + 1.0)
    copy_DE = weights_of(linear, 1).transposed_DE
    assert copy_DE is not None and torch.equal(copy_DE, linear.weight.t())


def test_weights_of_inference_mode() -> None:
    with torch.inference_mode():
        linear = nn.Linear(3, 5)
        copy_DE = weights_of(linear, 1).transposed_DE
        assert copy_DE is not None and torch.equal(copy_DE, linear.weight.t())
