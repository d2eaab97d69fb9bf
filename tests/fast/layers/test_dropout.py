"""Dropout on a CPU: its probability, its mean, and the generator it draws from. Its masks are its own."""

from __future__ import annotations

import pytest
import torch

from weft.fast.layers.dropout import add_dropped, dropout_generator, dropout_mask, dropped, is_on_cpu
from weft.models import layers


@pytest.mark.parametrize("probability", [0.1, 0.5, 0.9])
@pytest.mark.parametrize("shape", [(401, 1009), (7,)])
def test_probability_mean_and_gradient(probability: float, shape: tuple[int, ...]) -> None:
    torch.manual_seed(1)
    values = torch.full(shape, 3.0, requires_grad=True)
    result = dropped(values, probability)
    for value in result.unique().tolist():
        assert value == 0.0 or value == pytest.approx(3 / (1 - probability), rel=1e-6)
    if values.numel() > 1000:
        assert float((result == 0).float().mean()) == pytest.approx(probability, abs=0.003)
        assert float(result.detach().mean()) == pytest.approx(3.0, rel=0.02)
    result.sum().backward()
    torch.testing.assert_close(values.grad, result.detach() / 3)


def test_neighbors_are_dropped_independently() -> None:
    torch.manual_seed(2)
    kept = dropped(torch.ones(40_000), 0.5).view(-1, 4) > 0
    patterns = (kept * torch.tensor([1, 2, 4, 8])).sum(1).bincount(minlength=16)
    assert patterns.min() > 500 and patterns.max() < 750, "16 equally likely patterns of 10,000 draws"


def test_added_to_a_residual_in_one_pass() -> None:
    residual, values = torch.randn(5, 7), torch.randn(5, 7)
    with dropout_generator(torch.Generator().manual_seed(3)):
        expected = residual + dropped(values, 0.3)
    with dropout_generator(torch.Generator().manual_seed(3)):
        torch.testing.assert_close(add_dropped(residual, values, 0.3), expected)


def test_a_generator_of_ones_own() -> None:
    state = torch.get_rng_state()
    masks = []
    for _ in range(2):
        with dropout_generator(torch.Generator().manual_seed(5)):
            masks.append(dropout_mask((11, 3), 0.5, torch.float32))
    assert torch.equal(*masks) and torch.equal(torch.get_rng_state(), state)


def test_what_models_use_in_training_only() -> None:
    values = torch.ones(3, 5)
    assert is_on_cpu(values, 0.1)
    assert layers.dropout(values, 0.1, False) is values and layers.dropout(values, 0.0, True) is values
    torch.manual_seed(7)
    expected = dropped(values, 0.5)
    torch.manual_seed(7)
    assert torch.equal(layers.dropout(values, 0.5, True), expected)
