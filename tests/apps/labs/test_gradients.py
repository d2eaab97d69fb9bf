"""The gradients lab: its gradients against a literal recursion, its verdict on made-up numbers, and a false world."""

from __future__ import annotations

import pytest
import torch

from weft.apps.labs import gradients
from weft.apps.labs.gradients import ATTENTION, LONGEST, LSTM, RNN, judge_curves, log_norms
from weft.models.build import build_model
from weft.recipe import make_recipe
from weft.text.specials import BEGIN

Curves = dict[str, list[list[float]]]


def test_the_gradients_of_a_vanilla_rnn() -> None:
    """∂loss_T/∂h_T = Oᵀ (p − y);  ∂loss_T/∂h_{t−1} = Uᵀ ((1 − h_t²) ⊙ ∂loss_T/∂h_t)."""
    settings = {"kind": "language_model", "embedding": 5, "decoder": {"kind": "rnn", "hidden": 7}}
    recipe = make_recipe({"model": settings | {"attention": {"score": "none"}}})
    model = build_model(recipe.model, source_size=11, target_size=11, seed=3).eval()
    texts = [[4, 9, 6, 8], [10, 5, 4, 7]]
    weights = {name: parameter.detach().double() for name, parameter in model.named_parameters()}
    layer = {name: weights[f"stack.layers.0.{name}_l0"] for name in ("weight_ih", "weight_hh", "bias_ih", "bias_hh")}
    embedding = next(weight for name, weight in weights.items() if name.startswith("embedding"))
    output = next(weight for name, weight in weights.items() if name.startswith("output") and weight.dim() == 2)
    bias = next((weight for name, weight in weights.items() if name.startswith("output") and weight.dim() == 1), 0)
    logs = torch.zeros(len(texts), 4, dtype=torch.float64)
    for row, ids in enumerate(texts):
        states = [torch.zeros(7, dtype=torch.float64)]
        for token in [BEGIN, *ids[:-1]]:
            inputs = layer["weight_ih"] @ embedding[token] + layer["bias_ih"]
            states.append(torch.tanh(inputs + layer["weight_hh"] @ states[-1] + layer["bias_hh"]))
        error = torch.softmax(output @ states[-1] + bias, 0)
        error[ids[-1]] -= 1
        gradient = output.T @ error
        for distance in range(4):
            logs[row, distance] = gradient.norm().log10()
            gradient = layer["weight_hh"].T @ ((1 - states[-1 - distance] ** 2) * gradient)
    assert log_norms(model, texts) == pytest.approx(logs.mean(0).tolist(), abs=1e-4)


def lines(slopes: tuple[float, float, float], jump: float = 0.0) -> Curves:
    """For three seeds, curves of these slopes; the third model's jumps at the letter that is repeated."""
    noise = (-0.001, 0.0, 0.001)
    curves = {
        name: [[(value + extra) * distance for distance in range(2 * LONGEST + 1)] for extra in noise]
        for name, value in zip((RNN, LSTM, ATTENTION), slopes, strict=True)
    }
    for curve in curves[ATTENTION]:
        curve[LONGEST] += jump
    return curves


@pytest.mark.parametrize(
    ("initial", "trained", "outcome"),
    [
        (lines((-0.05, -0.03, -0.03)), lines((-0.04, 0.0, -0.06), 2.0), "held"),
        (lines((0.02, 0.05, 0.05)), lines((-0.04, 0.0, -0.06), 2.0), "did not hold"),  # it explodes
        (lines((-0.05, -0.03, -0.05)), lines((-0.04, 0.0, -0.06), 2.0), "did not hold"),
        (lines((-0.05, -0.06, -0.03)), lines((-0.04, 0.0, -0.06), 2.0), "did not hold"),
        (lines((-0.05, -0.03, -0.03)), lines((-0.04, 0.0, -0.06)), "did not hold"),
    ],
)
def test_the_verdict(initial: Curves, trained: Curves, outcome: str) -> None:
    assert judge_curves({"initial": initial, "trained": trained}).outcome == outcome


def test_seeds_that_disagree_cannot_tell() -> None:
    trained = lines((-0.04, 0.0, -0.06), 2.0)
    trained[LSTM][0] = [-0.1 * distance for distance in range(2 * LONGEST + 1)]
    verdict = judge_curves({"initial": lines((-0.05, -0.03, -0.03)), "trained": trained})
    assert verdict.outcome == "inconclusive"
    assert [check.effect.mean for check in verdict.checks[:3]] == pytest.approx([-0.5, 0.2, 0.2])


@pytest.mark.slow
@pytest.mark.usefixtures("in_process")
def test_without_attention_two_models_are_one() -> None:
    result = gradients(2, attention="none", steps=2)
    assert result.verdict.outcome == "did not hold"
    assert [result.verdict.checks[i].effect.mean for i in (2, 4)] == [0, 0]
