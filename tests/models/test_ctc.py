"""CTC models: probabilities of whole outputs against the enumeration of alignments, and the mean with a decoder."""

from __future__ import annotations

import pytest
import torch

from weft.data.store.token_store import Batch
from weft.errors import SearchError
from weft.models.build import build_model
from weft.models.ctc import BLANK, JointModel, joint_model
from weft.ragged import Ragged
from weft.recipe import ModelSettings, TrainingSettings
from weft.search.exact import ExactOptions, exact_search
from weft.search.interface import SearchRequest
from weft.search.ranking import Ranking
from weft.text.specials import BEGIN, END
from weft.training.ctc import ctc_training_loss

SOURCES = [[3, 7, 5, 4, 6, 2], [11, 4, 2], [4, 9, 3, 12, 6, 8, 2]]
TARGETS = [[5, 5, 3, 2], [4, 2], [3, 6, 3, 2]]
SIZES = {"source_size": 13, "target_size": 7}


def model_of(kind: str = "seq2seq", *, ctc: bool = False) -> torch.nn.Module:
    settings = ModelSettings.model_validate({"kind": kind, "embedding": 5, "encoder": {"hidden": 6}, "dropout": 0.0})
    model: torch.nn.Module = build_model(settings, **SIZES, ctc=ctc, seed=3).double().eval()
    return model


def test_probabilities_of_labels_are_those_of_their_alignments() -> None:
    """Σ_t log p(y_t | y_<t, x) by steps equals −L of the recursion, the end token included."""
    model = model_of("ctc")
    batch = Batch(Ragged.of(SOURCES), Ragged.of(TARGETS))
    inputs = batch.target.shifted(BEGIN)
    log_NV = model(batch.source, inputs).logits_NV.log_softmax(-1)
    by_steps = log_NV.gather(1, batch.target.values[:, None]).sum()
    loss = ctc_training_loss(model, batch, TrainingSettings(), begin=BEGIN)  # type: ignore[arg-type]
    torch.testing.assert_close(by_steps, -loss.smoothed.to(by_steps.dtype), rtol=1e-9, atol=1e-9)


def test_every_parameter_receives_a_gradient() -> None:
    model = model_of("ctc")
    batch = Batch(Ragged.of(SOURCES), Ragged.of(TARGETS))
    loss = ctc_training_loss(model, batch, TrainingSettings(), begin=BEGIN).smoothed  # type: ignore[arg-type]
    for gradient in torch.autograd.grad(loss, list(model.parameters())):
        assert gradient.isfinite().all() and gradient.abs().max() > 0


def test_probabilities_of_the_next_label_add_up_to_one() -> None:
    model = model_of("ctc")
    log_NV = model(Ragged.of(SOURCES), Ragged.of(TARGETS).shifted(BEGIN)).logits_NV
    torch.testing.assert_close(log_NV.exp().sum(-1), torch.ones(len(log_NV), dtype=torch.float64))
    assert (log_NV[:, BLANK] < -1000).all()


def test_the_joint_loss_is_the_mean_of_both() -> None:
    model = model_of(ctc=True)
    batch = Batch(Ragged.of(SOURCES), Ragged.of(TARGETS))
    losses = [
        ctc_training_loss(model, batch, TrainingSettings(ctc=weight, label_smoothing=0.0), begin=BEGIN).smoothed  # type: ignore[arg-type]
        for weight in (0.0, 0.3, 0.999999)
    ]
    expected = 0.7 * losses[0] + 0.3 * losses[2]
    torch.testing.assert_close(losses[1], expected, rtol=1e-5, atol=1e-5)
    gradients = torch.autograd.grad(losses[1], list(model.parameters()), allow_unused=True)
    assert all(gradient is not None and gradient.abs().max() > 0 for gradient in gradients)


def test_joint_probabilities_are_weighted_means_of_logarithms() -> None:
    model = model_of(ctc=True)
    source, tokens = Ragged.of(SOURCES), torch.tensor([BEGIN] * 3)
    joint = joint_model(model, 0.3)  # type: ignore[arg-type]
    memory = joint.encode(source)
    joint_RV = joint.step(tokens, joint.start(memory), memory).logits_RV
    plain_RV = model.step(tokens, model.start(model.encode(source)), model.encode(source)).logits_RV  # type: ignore[operator]
    ctc_RV, _, _ = joint.prefixes.step(tokens, joint.prefixes.start(memory[1]), memory[1])
    expected_RV = 0.7 * plain_RV.log_softmax(-1) + 0.3 * ctc_RV.clamp(min=-1e4)
    torch.testing.assert_close(joint_RV, expected_RV)


def test_a_search_finds_the_most_likely_labels_of_a_model_without_a_decoder() -> None:
    model = model_of("ctc")
    memory = model.encode(Ragged.of(SOURCES[1:2]))  # type: ignore[operator]
    request = SearchRequest(memory=memory, begin=BEGIN, end=END, max_lengths=[4], device=torch.device("cpu"))
    [[best, *_]] = exact_search(model, request, ExactOptions(Ranking("none")))  # type: ignore[arg-type]
    labels = range(3, SIZES["target_size"])
    outputs = [[END], *([a, END] for a in labels), *([a, b, END] for a in labels for b in labels)]
    scores = {}
    for output in outputs:
        target = Ragged.of([output])
        log_NV = model(Ragged.of(SOURCES[1:2]), target.shifted(BEGIN)).logits_NV
        scores[tuple(output)] = log_NV.gather(1, target.values[:, None]).sum().item()
    assert best.log_probability >= max(scores.values()) - 1e-6


def test_a_model_without_ctc_is_refused() -> None:
    for model in (model_of(), model_of("ctc")):
        with pytest.raises(
            SearchError, match=r"search\.ctc: 0\.3 was given, but this model has no CTC beside a decoder"
        ):
            joint_model(model, 0.3)  # type: ignore[arg-type]
    assert isinstance(joint_model(model_of(ctc=True), 0.3), JointModel)  # type: ignore[arg-type]
