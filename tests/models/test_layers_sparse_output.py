"""Output layers with probabilities that are zero: their logits, quantized, and in ensembles."""

from __future__ import annotations

import pytest
import torch

from weft.attention.normalizers import entmax15
from weft.models.build import build_model
from weft.models.ensemble import Ensemble
from weft.models.layers import Entmax15Output, Output, log_entmax15
from weft.models.seq2seq import Seq2Seq
from weft.ragged import Ragged
from weft.recipe import ModelSettings

SOURCE, INPUTS = Ragged.of([[3, 7, 5], [4, 9, 3, 10]]), Ragged.of([[1, 5, 8], [1, 7]])


def sparse(seed: int, loss: str = "entmax15", *, factor: float = 8) -> Seq2Seq:
    settings = ModelSettings.model_validate({"embedding": 8, "encoder": {"hidden": 8}, "decoder": {"hidden": 8}})
    model = build_model(settings, source_size=11, target_size=13, loss=loss, seed=seed).eval()
    assert isinstance(model, Seq2Seq)
    with torch.no_grad():
        model.output.weight_VD.mul_(factor)
    return model


@pytest.mark.parametrize("dtype", [torch.float64, torch.float32, torch.bfloat16])
def test_logits_are_log_probabilities(dtype: torch.dtype) -> None:
    torch.manual_seed(1)
    scores_NV = (torch.randn(20, 9) * 2).to(dtype)
    logits_NV, weights_NV = log_entmax15(scores_NV), entmax15(scores_NV.to(torch.promote_types(dtype, torch.float32)))
    assert (logits_NV.isneginf() == (weights_NV == 0)).all() and logits_NV.isneginf().any()
    torch.testing.assert_close(logits_NV.softmax(-1), weights_NV)
    assert logits_NV.dtype == (torch.float64 if dtype == torch.float64 else torch.float32)


def test_the_gradient_of_the_logits_is_finite() -> None:
    scores_NV = torch.tensor([[4.0, 3.5, -5.0]], dtype=torch.float64, requires_grad=True)
    assert torch.autograd.gradcheck(lambda scores: log_entmax15(scores)[:, :2], scores_NV)
    probabilities = log_entmax15(scores_NV).exp().sum()
    assert torch.autograd.grad(probabilities, scores_NV)[0].isfinite().all()


def test_the_same_weights_as_any_output_layer() -> None:
    """The loss decides on the layer, not on its parameters."""
    models = [sparse(5, loss) for loss in ("cross_entropy", "entmax15")]
    assert [type(model.output) for model in models] == [Output, Entmax15Output]
    torch.testing.assert_close(models[0].state_dict(), models[1].state_dict(), rtol=0, atol=0)


@torch.no_grad()
def test_a_quantized_model_has_zeros_too() -> None:
    model = sparse(5)
    quantize = pytest.importorskip("weft.fast.steps.quantization").quantize
    exact_NV, rounded_NV = model(SOURCE, INPUTS).logits_NV, quantize(model)(SOURCE, INPUTS).logits_NV
    assert rounded_NV.isneginf().any()
    torch.testing.assert_close(rounded_NV.exp(), exact_NV.exp(), atol=0.15, rtol=0)
    torch.testing.assert_close(rounded_NV.exp().sum(-1), torch.ones(len(rounded_NV)))


@torch.no_grad()
def test_a_geometric_mean_excludes_what_a_member_excludes() -> None:
    """Where that is every token, the mean is arithmetic."""
    members = [sparse(5, factor=40), sparse(6, factor=40)]
    probabilities = [member(SOURCE, INPUTS).logits_NV.exp() for member in members]
    possible_NV = (probabilities[0] > 0) & (probabilities[1] > 0)
    assert set(possible_NV.any(-1).tolist()) == {True, False}
    logits_NV = Ensemble(members, mean="geometric")(SOURCE, INPUTS).logits_NV
    for row, possible_V in enumerate(possible_NV):
        weights_V = (probabilities[0][row] * probabilities[1][row]).sqrt()
        if not possible_V.any():
            weights_V = probabilities[0][row] + probabilities[1][row]
        torch.testing.assert_close(logits_NV[row].softmax(-1), weights_V / weights_V.sum())
    assert not logits_NV.isnan().any()
