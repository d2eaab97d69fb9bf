"""The device of a model, and how exactly it multiplies there."""

from __future__ import annotations

import threading

import pytest
import torch

from weft.errors import RecipeError
from weft.models.device import allow_tf32, choose_device


@pytest.mark.parametrize("name", ["tpu", "meta", "cuda:99x"])
def test_unknown_devices(name: str) -> None:
    with pytest.raises(RecipeError, match=f"^training.device: '{name}' is n"):
        choose_device(name)


def settings() -> tuple[bool, bool]:
    return torch.backends.cuda.matmul.allow_tf32, torch.backends.cudnn.allow_tf32


@pytest.mark.parametrize("allowed", [True, False])
def test_tf32_is_put_back(allowed: bool) -> None:
    before = settings()
    with allow_tf32(allowed):
        assert settings() == (allowed, allowed)
        with allow_tf32(not allowed):
            assert settings() == (not allowed, not allowed)
        assert settings() == (allowed, allowed)
    assert settings() == before
    with pytest.raises(ZeroDivisionError), allow_tf32(allowed):
        _ = 1 / 0
    assert settings() == before


def test_tf32_in_two_threads() -> None:
    before = settings()
    first_has_begun, second_has_begun, first_has_ended = (threading.Event() for _ in range(3))
    seen = []

    def first() -> None:
        with allow_tf32(True):
            first_has_begun.set()
            second_has_begun.wait(10)
        first_has_ended.set()

    def second() -> None:
        first_has_begun.wait(10)
        with allow_tf32(True):
            second_has_begun.set()
            first_has_ended.wait(10)
            seen.append(settings())

    threads = [threading.Thread(target=target) for target in (first, second)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert seen == [(True, True)] and settings() == before


@pytest.mark.gpu
def test_tf32_rounds() -> None:
    one = torch.randn(256, 256, device="cuda")
    exact = one.double() @ one.double()
    errors = []
    for allowed in (False, True):
        with allow_tf32(allowed):
            errors.append(float((one @ one - exact).abs().max()))
    assert errors[0] < 1e-4 < 1e-3 < errors[1] < 0.5
