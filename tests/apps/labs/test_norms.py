"""The norms lab: its blocks against their equations, its models, and a world in which nothing is learned."""

from __future__ import annotations

import pytest
import torch

from weft.apps.labs.norms import BARE, CHAIN, POST, PRE, VARIANTS, Condition, make_block, make_model, norms, trial
from weft.models.transformer import TransformerLayer, transformer_stacks


def normalized(x: torch.Tensor) -> torch.Tensor:
    """Zero mean and unit deviation, row by row."""
    return (x - x.mean(-1, keepdim=True)) / (x.var(-1, unbiased=False, keepdim=True) + 1e-5).sqrt()


@pytest.mark.parametrize("variant", VARIANTS)
def test_the_blocks(variant: str) -> None:
    x = torch.randn(5, 32, generator=torch.Generator().manual_seed(1))
    block = make_block(variant)
    output = torch.tanh(block.input(x))  # the sub-layer
    expected = {
        PRE: lambda: x + torch.tanh(normalized(x)),
        POST: lambda: normalized(x + torch.tanh(x)),
        BARE: lambda: x + torch.tanh(x),
        CHAIN: lambda: torch.tanh(normalized(x)),
    }[variant]()
    assert torch.allclose(block.add(x, output), expected, atol=1e-5)


@pytest.mark.parametrize("variant", VARIANTS)
def test_the_models(variant: str) -> None:
    """Every sub-layer is replaced; the rest of the weights is the same; without norms there are none."""
    model = make_model(Condition(variant, 0.01, 1, 2), 1)
    layers = [module for module in model.modules() if isinstance(module, TransformerLayer)]
    blocks = [child for layer in layers for name, child in layer.named_children() if name.endswith("_residual")]
    assert len(layers) == 4 and len(blocks) == 2 * 2 + 2 * 3
    assert {type(block).__name__ for block in blocks} == {"Block"}
    norms = [module for module in model.modules() if isinstance(module, torch.nn.LayerNorm)]
    assert len(norms) == {PRE: 12, POST: 10, BARE: 0, CHAIN: 12}[variant]
    assert all((stack.final_norm is None) == (variant in (POST, BARE)) for stack in transformer_stacks(model))
    other = make_model(Condition(PRE, 0.01, 1, 2), 1)
    assert torch.equal(
        layers[0].self_attention.output.weight, transformer_stacks(other)[0].layers[0].self_attention.output.weight
    )


def test_points_of_the_training() -> None:
    result = trial(Condition(PRE, 0.003, 12, 1), 1)
    assert len(result["right"]) == 10 and all(0 <= right <= 100 for right in result["right"])
    assert trial(Condition(PRE, 0.003, 12, 1), 1) == result


@pytest.mark.slow
@pytest.mark.usefixtures("in_process")
def test_what_has_learned_nothing_does_not_differ() -> None:
    assert norms(2, quick=True, steps=10, layers=1).verdict.outcome != "held"
