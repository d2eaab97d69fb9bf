"""Products by oneDNN: where they are used, that they are as exact, and that the switch is put back."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import torch

from weft.fast.cpu import products
from weft.fast.cpu.products import gains_by_onednn, is_better_processor, largest_error
from weft.models.build import build_model
from weft.recipe import make_recipe
from weft.runtime.switches import onednn_products

has_switch = pytest.mark.skipif(not hasattr(torch.backends.mkldnn, "matmul"), reason="a PyTorch without the switch")


@pytest.fixture(autouse=True)
def _asked_again() -> None:
    is_better_processor.cache_clear()


def model_of(*settings: str) -> Any:
    recipe = make_recipe({}, [f"model.{setting}" for setting in settings])
    return build_model(recipe.model, source_size=11, target_size=11, seed=1)


WIDE = ("encoder.hidden=256", "decoder.hidden=256")
TRANSFORMER = ("encoder.kind=transformer", "decoder.kind=transformer")


@pytest.mark.parametrize(("settings", "gains"), [
    (WIDE, True),
    (("encoder.hidden=256", "decoder.hidden=128"), False),
    ((*WIDE, *TRANSFORMER), False),
    ((*WIDE, "encoder.kind=transformer"), False),
])  # fmt: skip
def test_which_models_gain(settings: tuple[str, ...], gains: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(products, "is_better_processor", lambda: True)
    assert gains_by_onednn(model_of(*settings)) == gains
    monkeypatch.setattr(products, "is_better_processor", lambda: False)
    assert not gains_by_onednn(model_of(*settings))


@has_switch
@pytest.mark.parametrize(("vendor", "capability", "error", "is_better"), [
    ("AuthenticAMD", "AVX512", 1e-6, True),
    ("GenuineIntel", "AVX512", 1e-6, False),
    ("AuthenticAMD", "AVX2", 1e-6, False),
    ("AuthenticAMD", "AVX512", 1e-2, False),
])  # fmt: skip
def test_which_processors_are_better(
    vendor: str, capability: str, error: float, is_better: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """One that rounds to bf16 is not."""
    monkeypatch.setattr(Path, "read_text", lambda *_: f"vendor_id : {vendor}")
    monkeypatch.setattr(torch.backends.cpu, "get_cpu_capability", lambda: capability)
    monkeypatch.setattr(torch.backends.mkl, "is_available", lambda: True)
    monkeypatch.setattr(torch.backends.mkldnn, "is_available", lambda: True)
    monkeypatch.setattr(products, "largest_error", lambda: error)
    assert is_better_processor() == is_better


def test_a_system_that_does_not_name_its_processor(monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(*_: object) -> str:
        raise FileNotFoundError

    monkeypatch.setattr(Path, "read_text", fail)
    assert not is_better_processor()


@has_switch
def test_products_are_as_exact_where_they_are_used() -> None:
    error = largest_error()
    assert 0 <= error < (products.LARGEST_ERROR if is_better_processor() else 0.05)


@has_switch
def test_the_switch_is_put_back() -> None:
    before = torch.backends.mkldnn.matmul.fp32_precision
    with pytest.raises(ZeroDivisionError), onednn_products():
        with onednn_products():
            assert torch.backends.mkldnn.matmul.fp32_precision == "bf16"
        assert torch.backends.mkldnn.matmul.fp32_precision == "bf16"
        raise ZeroDivisionError
    assert torch.backends.mkldnn.matmul.fp32_precision == before
