"""Linear maps of a few rows on a CPU, such as the hypotheses of one sentence.

Equal to `torch.nn.functional.linear`, up to rounding; tests/fast/layers/test_few_rows_linear.py. Such a product takes
as long as reading its weights. MKL reads them at full speed where they are transposed (one row) or the first operand
(several rows): half the time of `linear` or less.
"""

from __future__ import annotations

from typing import NamedTuple
from weakref import WeakKeyDictionary

import torch
from torch import Tensor, nn
from torch.nn import functional

MAX_ROWS = 8
"""The largest number of rows; with more rows the gain is small."""


class FewRowsWeights(NamedTuple):
    """A linear map as `few_rows_linear` reads it."""

    weight_ED: Tensor
    bias_E: Tensor
    bias_E1: Tensor
    transposed_DE: Tensor | None
    """A contiguous copy; None: one row is multiplied as `linear` does."""

    @classmethod
    def of(cls, owner: nn.Module, weight_ED: Tensor, bias_E: Tensor, *, rows: int) -> FewRowsWeights:
        """``owner``: the module with the weight, which keeps the copy; ``rows``: that will be multiplied.

        There is a copy only for a single row and where the output is at least as wide as the input: elsewhere the copy
        would gain nothing.
        """
        needs_copy = rows == 1 and weight_ED.shape[0] >= weight_ED.shape[1]
        copy_DE = _transposed_copy(owner, weight_ED) if needs_copy else None
        return cls(weight_ED, bias_E, bias_E[:, None], copy_DE)


class _TransposedCopy(NamedTuple):
    address: int
    version: int
    """Version of the weight when it was copied: training changes it in place."""
    copy_DE: Tensor


_copies: WeakKeyDictionary[nn.Module, _TransposedCopy] = WeakKeyDictionary()


def _transposed_copy(owner: nn.Module, weight_ED: Tensor) -> Tensor:
    """The transposed weight, copied when it is first needed and whenever it has changed."""
    version = 0 if weight_ED.is_inference() else weight_ED._version  # tensors of inference mode have none
    address = weight_ED.data_ptr()
    known = _copies.get(owner)
    if known is None or (known.address, known.version) != (address, version):
        known = _copies[owner] = _TransposedCopy(address, version, weight_ED.detach().t().contiguous())
    return known.copy_DE


def few_rows_linear(inputs_RD: Tensor, weights: FewRowsWeights) -> Tensor:
    """(R, E) W x + b of every row, without gradient. The result may be the transpose of a contiguous tensor."""
    weight_ED, bias_E, bias_E1, transposed_DE = weights
    if inputs_RD.shape[0] == 1:
        if transposed_DE is None:
            return functional.linear(inputs_RD, weight_ED, bias_E)
        return torch.addmm(bias_E, inputs_RD, transposed_DE)
    inputs_RD = inputs_RD.contiguous()
    if weight_ED.shape[0] < weight_ED.shape[1]:
        return functional.linear(inputs_RD, weight_ED, bias_E)
    return torch.addmm(bias_E1, weight_ED, inputs_RD.t()).t()
