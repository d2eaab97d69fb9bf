"""A weight's gradient taken once is the gradient autograd sums up."""

from __future__ import annotations

import gc
import weakref
from typing import Any

import pytest
import torch
from torch import Tensor
from torch.nn import functional

from weft.fast.layers.deferred_gradients import DeferredMatrices, deferred_linear

ROWS, SIZE, STEPS = 3, 5, 7


def tensors() -> tuple[Tensor, Tensor, Tensor]:
    """A square weight, a bias and a first state."""
    torch.manual_seed(5)
    make = [torch.randn(*shape, dtype=torch.float64) for shape in ((SIZE, SIZE), (SIZE,), (ROWS, SIZE))]
    return tuple(tensor.requires_grad_() for tensor in make)  # type: ignore[return-value]


def run(weight: Tensor, bias: Tensor | None, state: Tensor, *, plain: bool, rows: int = 0) -> Tensor:
    """h_t = tanh(W h_{t−1} + b), a row fewer at every step where ``rows`` says so."""
    step = (lambda x: functional.linear(x, weight, bias)) if plain else deferred_linear(weight, bias)
    total = state.new_zeros(())
    for time in range(STEPS):
        state = torch.tanh(step(state))
        total = total + (state * (time + 1)).sum()
        if rows and len(state) > 1:
            state = state[:-rows]
    return total


@pytest.mark.parametrize("rows", [0, 1], ids=["all-rows", "rows-drop-out"])
@pytest.mark.parametrize("biased", [True, False], ids=["bias", "no-bias"])
def test_gradients_are_those_of_autograd(biased: bool, rows: int) -> None:
    weight, bias, state = tensors()
    leaves = [weight, state, *([bias] if biased else [])]
    expected = torch.autograd.grad(run(weight, bias if biased else None, state, plain=True, rows=rows), leaves)
    found = torch.autograd.grad(run(weight, bias if biased else None, state, plain=False, rows=rows), leaves)
    torch.testing.assert_close(found, expected)


def test_gradcheck() -> None:
    weight, bias, state = tensors()
    torch.autograd.gradcheck(lambda w, b, s: run(w, b, s, plain=False), (weight, bias, state))


def test_a_slice_of_a_weight() -> None:
    """The decoder's own use: the columns of one matrix in two maps."""
    torch.manual_seed(6)
    weight = torch.randn(3, 7, dtype=torch.float64, requires_grad=True)
    left, right = torch.randn(5, 2, dtype=torch.float64), torch.randn(5, 5, dtype=torch.float64)
    total = (deferred_linear(weight[:, :2])(left) + deferred_linear(weight[:, 2:])(right)).pow(2).sum()
    [found] = torch.autograd.grad(total, [weight])
    [expected] = torch.autograd.grad(functional.linear(torch.cat([left, right], 1), weight).pow(2).sum(), [weight])
    torch.testing.assert_close(found, expected)


@pytest.mark.parametrize("grad", [True, False], ids=["training", "no_grad"])
def test_several_weights_make_one_sum(grad: bool) -> None:
    torch.manual_seed(7)
    shapes = ((3, 2), (3, 5), (3,), (7, 2), (7, 5), (7, 3))
    leaves = [torch.randn(*shape, dtype=torch.float64, requires_grad=True) for shape in shapes]
    left, right, bias, left_input, right_input, added = leaves
    expected = functional.linear(left_input, left) + functional.linear(right_input, right, bias) + added
    with torch.set_grad_enabled(grad):
        found = deferred_linear((left, right), bias)(left_input, right_input, added=added)
    torch.testing.assert_close(found, expected.detach() if not grad else expected)
    if grad:
        torch.testing.assert_close(
            torch.autograd.grad(found.pow(2).sum(), leaves), torch.autograd.grad(expected.pow(2).sum(), leaves)
        )


def test_a_second_backward_pass_starts_afresh() -> None:
    weight, bias, state = tensors()
    total = run(weight, bias, state, plain=False)
    once = torch.autograd.grad(total, [weight, bias], retain_graph=True)
    torch.testing.assert_close(torch.autograd.grad(total, [weight, bias]), once)


def test_a_use_that_the_loss_does_not_see_counts_for_nothing() -> None:
    weight, bias, state = tensors()
    step = deferred_linear(weight, bias)
    used, _ = step(state), step(state * 2)
    [found] = torch.autograd.grad(used.sum(), [weight])
    [expected] = torch.autograd.grad(functional.linear(state, weight, bias).sum(), [weight])
    torch.testing.assert_close(found, expected)


def test_gradients_add_to_what_is_there() -> None:
    weight, bias, state = tensors()
    run(weight, bias, state, plain=False).backward()
    assert weight.grad is not None
    once = weight.grad.clone()
    run(weight, bias, state, plain=False).backward()
    torch.testing.assert_close(weight.grad, 2 * once)


@pytest.mark.parametrize("case", ["no_grad", "frozen"])
def test_without_gradients_it_is_a_linear_map(case: str) -> None:
    weight, bias, state = tensors()
    if case == "frozen":
        weight.requires_grad_(False)
    with torch.set_grad_enabled(case != "no_grad"):
        torch.testing.assert_close(deferred_linear(weight, bias)(state), functional.linear(state, weight, bias))


def test_a_frozen_weight_still_passes_gradients_to_its_bias_and_input() -> None:
    weight, bias, state = tensors()
    weight.requires_grad_(False)
    found = torch.autograd.grad(run(weight, bias, state, plain=False), [bias, state])
    expected = torch.autograd.grad(run(weight, bias, state, plain=True), [bias, state])
    torch.testing.assert_close(found, expected)


def test_matrices_are_used_like_a_tensor() -> None:
    """One query per row, a row fewer at every step; what is not a product is of the tensor itself."""
    torch.manual_seed(9)
    leaves = [torch.randn(*shape, dtype=torch.float64, requires_grad=True) for shape in ((3, 5, 7), (3, 1, 7))]
    results = []
    for deferred in (False, True):
        matrix_BSD: Any = DeferredMatrices(leaves[0] * 2) if deferred else leaves[0] * 2
        queries_B1D, total = leaves[1], torch.zeros((), dtype=torch.float64)
        for rows in (3, 2, 1):
            matrix_BSD, queries_B1D = matrix_BSD[:rows], queries_B1D[:rows]
            weights_B1S = torch.softmax(queries_B1D @ matrix_BSD.transpose(1, 2), -1)
            queries_B1D = queries_B1D + weights_B1S @ matrix_BSD
            total = total + queries_B1D.square().sum() + (matrix_BSD[:, None] * rows).sum()
        results.append((total, torch.autograd.grad(total, leaves)))
    torch.testing.assert_close(results[1], results[0])
    with pytest.raises(TypeError, match="deferred matrices"):
        torch.add(leaves[1], DeferredMatrices(leaves[0]))  # type: ignore[call-overload]


@pytest.mark.parametrize("use", ["dot", "weighted_sum", "as_tensor", "weight"])
def test_nothing_is_kept_after_the_backward_pass(use: str) -> None:
    """A record that held on to the graph would make every training step grow."""
    leaf_BSD = torch.randn(3, 5, 7, requires_grad=True)
    inputs = torch.randn(3, 1, 5 if use == "weighted_sum" else 7, requires_grad=True) * 2
    if use == "weight":
        output = deferred_linear(leaf_BSD[0] * 2)(inputs[:, 0])
    else:
        deferred = DeferredMatrices(leaf_BSD * 2)
        uses = {
            "dot": lambda: inputs @ deferred.transpose(1, 2),
            "weighted_sum": lambda: inputs @ deferred,
            "as_tensor": lambda: deferred.as_tensor() * inputs,
        }
        output = uses.pop(use)()
        uses.clear()
    output.sum().backward()
    references = [weakref.ref(output), weakref.ref(inputs)]
    output = inputs = deferred = None
    gc.collect()
    assert [one() for one in references] == [None, None]
