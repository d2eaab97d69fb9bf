from __future__ import annotations

import torch

from weft.runtime.devices import autocast_dtype, without_autocast


def test_the_type_of_products() -> None:
    values = torch.ones(2, 2)
    assert autocast_dtype(values) == torch.float32 and autocast_dtype(values.double()) == torch.float64
    with torch.autocast("cpu", torch.bfloat16):
        assert autocast_dtype(values) == (values @ values).dtype == torch.bfloat16
        with without_autocast(values):
            assert autocast_dtype(values) == (values @ values).dtype == torch.float32
