"""An optimizer's state as tensors, and back."""

import pytest
import torch

from weft.training.optimizer import optimizer_tensors, restore_optimizer


@pytest.mark.parametrize(
    "make",
    [
        lambda parameters: torch.optim.AdamW(parameters, lr=0.1, fused=True),
        lambda parameters: torch.optim.SGD(parameters, lr=0.1, momentum=0.9, fused=True),
        lambda parameters: torch.optim.SGD(parameters, lr=0.1, fused=True),
    ],
    ids=["adamw", "momentum", "sgd"],
)
def test_a_restored_optimizer_goes_on_the_same_way(make):
    def steps(parameter, optimizer, count):
        for _ in range(count):
            optimizer.zero_grad()
            (parameter**2).sum().backward()
            optimizer.step()

    first = torch.nn.Parameter(torch.tensor([1.0, -2.0, 3.0]))
    optimizer = make([first])
    steps(first, optimizer, 3)
    second = torch.nn.Parameter(first.detach().clone())
    other = make([second])
    restore_optimizer(other, {name: one.clone() for name, one in optimizer_tensors(optimizer).items()}, where="x")
    steps(first, optimizer, 3)
    steps(second, other, 3)
    assert torch.equal(first, second)
