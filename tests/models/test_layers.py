from __future__ import annotations

import pytest
import torch

from weft.models.layers import Embedding, Output, dropout
from weft.ragged import Ragged


def test_an_embedding_looks_up_rows() -> None:
    embedding = Embedding(11, 5)
    ids = Ragged.of([[3, 10], [0]])
    embedded = embedding.ragged(ids)
    assert embedded.layout is ids.layout
    for token, vector in zip([3, 10, 0], embedded.values, strict=True):
        assert torch.equal(vector, embedding.weight_VE[token])


def test_an_output_is_a_product_with_every_row_and_a_bias() -> None:
    output = Output(7, 5)
    torch.nn.init.normal_(output.bias_V)
    states = torch.randn(3, 5)
    expected = [
        [sum(w * s for w, s in zip(row, state, strict=True)) + bias for row, bias in zip(*matrix, strict=True)]
        for matrix in [(output.weight_VD.tolist(), output.bias_V.tolist())]
        for state in states.tolist()
    ]
    torch.testing.assert_close(output(states), torch.tensor(expected))


def test_a_tied_output_is_the_embedding_and_both_uses_give_gradient() -> None:
    embedding = Embedding(7, 5)
    output = Output(7, 5, tied=embedding)
    assert output.weight_VD is embedding.weight_VE
    assert sum(p.numel() for p in torch.nn.ModuleList([embedding, output]).parameters()) == 7 * 5 + 7
    ids = torch.tensor([3, 3, 5])
    output(embedding(ids)).sum().backward()
    weight = embedding.weight_VE.detach()
    # L = Σ_n Σ_v w_v · w_{id(n)}: each row once as output for every token, and Σ_v w_v as input where it was read
    expected = weight[ids].sum(0).expand(7, 5).clone()
    for token in ids.tolist():
        expected[token] += weight.sum(0)
    torch.testing.assert_close(embedding.weight_VE.grad, expected)


def test_dropout_is_for_training_only() -> None:
    embedding = Embedding(11, 997, dropout=0.3)
    ids = torch.arange(11)
    dropped = float((embedding(ids) == 0).float().mean())
    assert abs(dropped - 0.3) < 0.02
    assert torch.equal(embedding.eval()(ids), embedding.weight_VE)


@pytest.mark.parametrize("probability", [0.0, 0.1, 0.5, 0.9])
@pytest.mark.parametrize("shape", [(401, 1009), (7,)])
def test_dropout_has_its_probability_and_keeps_the_mean(probability: float, shape: tuple[int, ...]) -> None:
    torch.manual_seed(1)
    values = torch.full(shape, 3.0, requires_grad=True)
    dropped = dropout(values, probability, training=True)
    for value in dropped.unique().tolist():
        assert value == 0.0 or value == pytest.approx(3 / (1 - probability), rel=1e-6)
    if values.numel() > 1000:
        assert float((dropped == 0).float().mean()) == pytest.approx(probability, abs=0.003)
        assert float(dropped.detach().mean()) == pytest.approx(3.0, rel=0.02)
    dropped.sum().backward()
    torch.testing.assert_close(values.grad, dropped.detach() / 3)


def test_nothing_is_dropped_when_not_training() -> None:
    values = torch.randn(5)
    assert dropout(values, 0.5, training=False) is values
