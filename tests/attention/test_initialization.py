"""Allocation apart from initialization: modules on the CPU are initialized, on the meta device they are not."""

from __future__ import annotations

import pytest
import torch
from torch import Tensor, nn

from weft.attention.initialization import initialize


class Scaled(nn.Module):
    """A parameter and a buffer, each with its own initialization."""

    table: Tensor

    def __init__(self) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.empty(3))
        self.register_buffer("table", torch.empty(3), persistent=False)
        initialize(self)

    def reset_parameters(self) -> None:
        nn.init.constant_(self.weight, 2.0)

    def reset_buffers(self) -> None:
        self.table = torch.arange(3.0)


def test_a_new_module_is_initialized() -> None:
    module = Scaled()
    assert module.weight.tolist() == [2, 2, 2] and module.table.tolist() == [0, 1, 2]


def test_on_the_meta_device_nothing_is_computed(monkeypatch: pytest.MonkeyPatch) -> None:
    for method in ("reset_parameters", "reset_buffers"):
        monkeypatch.setattr(Scaled, method, lambda self: pytest.fail("called"))
    with torch.device("meta"):
        module = Scaled()
    assert module.weight.is_meta and module.table.is_meta
