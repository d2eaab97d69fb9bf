"""Linear maps in eight-bit integers against their equations, number by number."""

from __future__ import annotations

import pytest
import torch
from torch import Tensor

from weft.fast.cpu import int8
from weft.fast.cpu.int8 import Int8Linear


def literal(weight_GD: Tensor, bias_G: Tensor, inputs_ND: Tensor, bound: float | None = None) -> list[list[float]]:
    """The equations of int8.py, one number after the other."""
    answers = []
    for row in inputs_ND.double().tolist():
        largest = (max(abs(value) for value in row) if bound is None else bound) / int8.LEVELS
        whole = [round(value / largest) for value in row]
        answer = []
        for weights, bias in zip(weight_GD.double().tolist(), bias_G.double().tolist(), strict=True):
            scale = max(abs(value) for value in weights) / 127
            total = sum(round(weight / scale) * value for weight, value in zip(weights, whole, strict=True))
            answer.append(largest * scale * total + bias)
        answers.append(answer)
    return answers


def test_a_product_is_what_the_equations_say() -> None:
    torch.manual_seed(1)
    weight_GD, bias_G, inputs_ND = torch.randn(11, 13), torch.randn(11), torch.randn(7, 13)
    expected = torch.tensor(literal(weight_GD, bias_G, inputs_ND))
    torch.testing.assert_close(Int8Linear(weight_GD, bias_G)(inputs_ND), expected, rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize("bound", [1.0, 1.7])
def test_a_product_of_bounded_inputs_is_what_the_equations_say(bound: float) -> None:
    torch.manual_seed(4)
    weight_GD, bias_G, inputs_ND = torch.randn(11, 13), torch.randn(11), bound * torch.randn(7, 13).tanh()
    inputs_ND[0, :2] = torch.tensor([bound, -bound])
    expected = torch.tensor(literal(weight_GD, bias_G, inputs_ND, bound))
    linear = Int8Linear(weight_GD, bias_G, bound=bound)
    torch.testing.assert_close(linear(inputs_ND), expected, rtol=1e-5, atol=1e-5)
    beyond_ND = torch.where(inputs_ND.abs() == bound, 3 * inputs_ND, inputs_ND)
    assert torch.equal(linear(beyond_ND), linear(inputs_ND)), "cut off, not wrapped round"


@pytest.mark.parametrize("width", [1, 2, 64, 509])
@pytest.mark.parametrize("bound", [None, 1.0])
def test_the_largest_numbers_do_not_overflow(width: int, bound: float | None) -> None:
    signs_GD = torch.ones(3, width)
    signs_GD[1] = -1
    inputs_ND = torch.tensor([[1.0], [-1.0]]).expand(2, width)
    output_NG = Int8Linear(signs_GD, bound=bound)(inputs_ND)
    torch.testing.assert_close(output_NG, inputs_ND @ signs_GD.t(), rtol=1e-6, atol=0)


def test_a_row_does_not_depend_on_its_company() -> None:
    torch.manual_seed(2)
    linear, inputs_ND = Int8Linear(torch.randn(7, 13), torch.randn(7)), torch.randn(5, 13)
    alone = torch.cat([linear(row) for row in inputs_ND.split(1)])
    among = linear(torch.cat([inputs_ND, 1000 * torch.randn(3, 13)]))[:5]
    assert torch.equal(alone, among)


def test_several_inputs_other_shapes_and_nothing() -> None:
    torch.manual_seed(3)
    weight_GD, inputs_ND = torch.randn(7, 13), torch.randn(6, 13)
    linear = Int8Linear(weight_GD)
    whole_NG = linear(inputs_ND)
    assert torch.equal(linear(*inputs_ND.split([5, 8], 1)), whole_NG)
    assert torch.equal(linear(inputs_ND.view(2, 3, 13)), whole_NG.view(2, 3, 7))
    assert linear(inputs_ND[:0]).shape == (0, 7)
    assert torch.equal(linear(torch.zeros(2, 13)), torch.zeros(2, 7))
    assert torch.equal(Int8Linear(torch.zeros(7, 13))(inputs_ND), torch.zeros(6, 7))


def test_seven_bits_where_the_processor_sums_in_sixteen(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(int8, "LEVELS", 63)
    test_a_product_is_what_the_equations_say()
    test_a_product_of_bounded_inputs_is_what_the_equations_say(1.0)
    test_the_largest_numbers_do_not_overflow(509, None)
    test_the_largest_numbers_do_not_overflow(509, 1.0)
