"""Hard attention of first order over whole targets on a GPU: `HardAlignment.forward` by `weft.fast.triton`.

Compared with the plain function by tests/fast/triton/test_first_order_alignment.py.
"""

from __future__ import annotations

import torch
from torch import Tensor

from weft.attention.hard_alignment import First, HardAlignment, Transitions

MOST_POSITIONS = 1_024
"""Source positions of a row, which one program of the kernel holds."""


def has_kernel(alignment: HardAlignment, transitions: Transitions, log_emissions_BTS: Tensor | None) -> bool:
    """Whether the kernel computes these weights: in single precision."""
    if type(alignment) is not First or log_emissions_BTS is None or torch.compiler.is_compiling():
        return False
    fits = log_emissions_BTS.numel() > 0 and log_emissions_BTS.shape[-1] <= MOST_POSITIONS
    dtypes = {part.dtype for part in (*transitions, log_emissions_BTS)}
    return log_emissions_BTS.is_cuda and fits and dtypes == {torch.float32}


def first_order_by_kernel(
    alignment: HardAlignment, transitions: Transitions, log_emissions_BTS: Tensor | None
) -> Tensor:
    """log w_t (B, T, S) of all steps."""
    from weft.fast.triton.first_order_alignment import first_order_weights

    assert log_emissions_BTS is not None
    return first_order_weights(transitions[0], log_emissions_BTS)
