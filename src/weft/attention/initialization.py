"""Initialization of parameters, apart from their allocation.

As in `torch.nn`, a constructor allocates parameters, and ``reset_parameters`` initializes them. Tables that are not
learned are buffers, which ``reset_buffers`` computes. A constructor ends with `initialize`, so that a module is ready
to use wherever it is made. Random numbers are drawn in the order in which modules are constructed: a seed gives the
same weights only as long as that order stays.
"""

from __future__ import annotations

from itertools import chain

from torch import nn


def initialize(module: nn.Module) -> None:
    """Initialize what the constructor of a module has allocated, unless it is on the meta device.

    A model is constructed there to be assigned the parameters of a file (`weft.models.build.build_on_meta`): nothing is
    allocated, drawn or computed.
    """
    if next(chain(module.parameters(), module.buffers())).is_meta:
        return
    for method in ("reset_parameters", "reset_buffers"):
        if hasattr(module, method):
            getattr(module, method)()


def initialize_projections(linear: nn.Linear, parts: list[int]) -> None:
    """Glorot initialization of each projection separately, although they share one matrix; zero biases."""
    for part in linear.weight.data.split(parts):
        nn.init.xavier_uniform_(part)
    nn.init.zeros_(linear.bias)
