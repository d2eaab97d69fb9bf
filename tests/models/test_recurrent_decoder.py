"""Every decoder against the slow reference: one row and one time step after the other, in plain Python."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from torch import Tensor, nn

from oracles.recurrent import CONNECTIONS, SlowSeq2Seq
from weft.attention.ragged_attention import alignment_weights
from weft.models.build import build_model
from weft.models.seq2seq import Seq2Seq
from weft.ragged import Ragged
from weft.recipe import ModelSettings
from weft.recipe.choices import CELLS, SCORES, resolve

SOURCES = [[3, 7, 5], [11], [4, 9, 3, 12, 6], [8, 2]]
INPUTS = [[1, 5], [1, 9, 4, 6, 10], [1], [1, 3, 7]]
PLACEMENTS: dict[str, dict[str, dict[str, Any]]] = {
    "none": {"attention": {"score": "none"}},
    "none+summary": {"attention": {"score": "none"}, "decoder": {"feed_summary": True}},
    "after": {"attention": {"placement": "after"}},
    "after+summary": {"attention": {"placement": "after"}, "decoder": {"feed_summary": True}},
    "after+feeding": {"attention": {"placement": "after"}, "decoder": {"input_feeding": True}},
    "after+feeding+summary": {
        "attention": {"placement": "after"},
        "decoder": {"input_feeding": True, "feed_summary": True},
    },
    "before": {"attention": {"placement": "before"}},
    "before+summary": {"attention": {"placement": "before"}, "decoder": {"feed_summary": True}},
}


def make(
    placement: str,
    *,
    encoder: dict[str, Any] | None = None,
    decoder: dict[str, Any] | None = None,
    attention: dict[str, Any] | None = None,
    **model: Any,
) -> tuple[ModelSettings, Seq2Seq]:
    """A small model in double precision whose biases are not zero."""
    placed = PLACEMENTS[placement]
    settings = ModelSettings.model_validate(
        {
            "embedding": 5,
            "dropout": 0.0,
            "encoder": {"hidden": 6, **(encoder or {})},
            "decoder": {"hidden": 7, **placed.get("decoder", {}), **(decoder or {})},
            "attention": {"score": "general", "size": 11, **(attention or {}), **placed["attention"]},
            **model,
        }
    )
    same = model.get("tie") == "all"
    built = build_model(settings, source_size=13, target_size=13 if same else 11, seed=7)
    assert isinstance(built, Seq2Seq)
    torch.manual_seed(8)
    for name, parameter in built.named_parameters():
        if "bias" in name:
            nn.init.normal_(parameter)
    return settings, built.double()


def check(settings: ModelSettings, model: Seq2Seq) -> None:
    output = model(Ragged.of(SOURCES), Ragged.of(INPUTS), return_attention=True)
    weights_BTS = alignment_weights(output.attention, Ragged.of(SOURCES).layout)
    logits_by_row = Ragged.of(INPUTS).like(output.logits_NV).split()
    slow = SlowSeq2Seq(settings, model)
    for row, (source, inputs) in enumerate(zip(SOURCES, INPUTS, strict=True)):
        logits, weights = slow.logits(source, inputs)
        torch.testing.assert_close(logits_by_row[row], as_tensor(logits))
        if settings.attention.score == "none":
            assert weights_BTS is None
        else:
            own_TS = weights_BTS[row, : len(inputs)]
            torch.testing.assert_close(own_TS[:, : len(source)], as_tensor(weights))
            assert not own_TS[:, len(source) :].any()


def as_tensor(numbers: list[list[float]]) -> Tensor:
    return torch.tensor(numbers, dtype=torch.float64)


ALIGNMENTS: dict[str, dict[str, Any]] = {
    "monotonic window": {"window": "monotonic", "window_size": 1},
    "predictive window": {"window": "predictive", "window_size": 2, "score": "general"},
    "coverage": {"coverage": "sum"},
    "fertility": {"coverage": "fertility"},
    "location": {"location": True, "location_filters": 3, "location_width": 3, "score": "concat"},
    "all of them": {"window": "predictive", "window_size": 1, "coverage": "fertility", "location": True},
}


@pytest.mark.parametrize("placement", ["after", "after+feeding", "before"])
@pytest.mark.parametrize("name", ALIGNMENTS)
def test_windows_and_earlier_weights(name: str, placement: str) -> None:
    settings, model = make(placement, attention={"score": "additive", **ALIGNMENTS[name]})
    for parameter in model.decoder.attention.parameters():
        nn.init.normal_(parameter)  # large enough to matter
    check(settings, model)


@pytest.mark.parametrize("layers", [1, 3])
@pytest.mark.parametrize("connections", CONNECTIONS)
@pytest.mark.parametrize("kind", CELLS)
@pytest.mark.parametrize("placement", PLACEMENTS)
def test_placements(placement: str, kind: str, connections: str, layers: int) -> None:
    check(*make(placement, decoder={"kind": kind, "connections": connections, "layers": layers}))


@pytest.mark.parametrize("project", [False, True], ids=["states", "project"])
@pytest.mark.parametrize("score", SCORES)
@pytest.mark.parametrize("placement", ["after", "after+feeding", "before"])
def test_scores(placement: str, score: str, project: bool) -> None:
    if score == "parameter_free" and project:
        pytest.skip("a parameter-free attention learns no projections")
    hidden = 6 if resolve(SCORES, score).same_size and not project else 7
    check(*make(placement, attention={"score": score, "project": project}, decoder={"hidden": hidden}))


@pytest.mark.parametrize("bridge", ["auto", "project", "zero"])
@pytest.mark.parametrize("decoder", CELLS)
@pytest.mark.parametrize("encoder", CELLS)
def test_pairings_and_bridges(encoder: str, decoder: str, bridge: str) -> None:
    for layers in (1, 2):
        check(
            *make(
                "after",
                encoder={"kind": encoder, "layers": 2},
                decoder={"kind": decoder, "hidden": 6, "layers": layers},
                bridge=bridge,
            )
        )


@pytest.mark.parametrize("kind", CELLS)
@pytest.mark.parametrize(
    "encoder",
    [
        {"bidirectional": False, "hidden": 7},
        {"bidirectional": False, "reverse_source": True, "hidden": 7},
        {"layers": 3, "connections": "residual"},
        {"layers": 3, "connections": "dense"},
    ],
    ids=["one-way", "back-to-front", "residual", "dense"],
)
def test_encoders(encoder: dict[str, Any], kind: str) -> None:
    check(*make("before+summary", encoder={"kind": kind, **encoder}))


@pytest.mark.parametrize("tie", ["target", "all"])
@pytest.mark.parametrize("placement", PLACEMENTS)
def test_tied_output(placement: str, tie: str) -> None:
    check(*make(placement, tie=tie))


@pytest.mark.parametrize("placement", ["none", "after"])
def test_residual_where_the_first_layer_fits(placement: str) -> None:
    """Embedding and state of one width: then the first layer has its residual connection too."""
    check(*make(placement, decoder={"hidden": 5, "layers": 2, "connections": "residual"}))


def test_weights_come_only_on_request() -> None:
    for placement in ("after", "before"):
        _, model = make(placement)
        assert model(Ragged.of(SOURCES), Ragged.of(INPUTS)).attention == ()
