"""The model interface: alignment weights from attention records, and optional capabilities."""

from __future__ import annotations

import pytest
import torch

from weft.attention.ragged_attention import AttentionRecord, alignment_layer, alignment_weights
from weft.models.build import build_model
from weft.models.ensemble import Ensemble
from weft.models.interface import HasMaxTargetLength, HasOutputLayer
from weft.ragged import Ragged
from weft.recipe import ModelSettings

SOURCE = Ragged.of([[3, 4], [5]]).layout
STACK = {"kind": "transformer", "layers": 1, "hidden": 4, "heads": 2, "feed_forward": 5}


def record(kind: str, layer: int, columns: int = 2) -> AttentionRecord:
    torch.manual_seed(layer)
    return AttentionRecord(kind, layer, torch.rand(2, 3, 5, columns).softmax(-1))


@pytest.mark.parametrize(("layers", "expected"), [(1, 0), (2, 0), (3, 1), (6, 4)])
def test_the_layer_below_the_top_one_aligns(layers: int, expected: int) -> None:
    records = [record(kind, layer) for layer in range(layers) for kind in ("encoder", "decoder", "cross")]
    weights_BTS = alignment_weights(records, SOURCE)
    assert weights_BTS is not None and alignment_layer(layers) == expected
    torch.testing.assert_close(weights_BTS, records[3 * expected + 2].weights_BHTS.mean(1))


def test_without_cross_attention_it_is_the_decoders_over_the_source() -> None:
    decoder = record("decoder", 0, columns=7)
    weights_BTS = alignment_weights([decoder], SOURCE)
    assert weights_BTS is not None
    for row, length in enumerate([2, 1]):
        own_TS = decoder.weights_BHTS[row].mean(0)[:, :length]
        torch.testing.assert_close(weights_BTS[row, :, :length], own_TS / own_TS.sum(-1, keepdim=True))
        assert not weights_BTS[row, :, length:].any()


def test_a_language_model_has_weights_over_its_history_or_none() -> None:
    nothing = Ragged.of([[], []]).layout
    assert alignment_weights([record("decoder", 0)], nothing) is None
    assert alignment_weights([], SOURCE) is None
    history = record("history", 0, columns=5)
    torch.testing.assert_close(alignment_weights([history], nothing), history.weights_BHTS.mean(1))


def test_capabilities() -> None:
    settings = ModelSettings.model_validate({"embedding": 4, "encoder": STACK, "decoder": STACK})
    model = build_model(settings, source_size=7, target_size=7)
    assert isinstance(model, HasOutputLayer) and isinstance(model, HasMaxTargetLength)
    ensemble = Ensemble([model])
    assert not isinstance(ensemble, HasOutputLayer) and isinstance(ensemble, HasMaxTargetLength)
    language_model = build_model(ModelSettings(kind="language_model"), source_size=7, target_size=7)
    assert isinstance(language_model, HasOutputLayer) and not isinstance(language_model, HasMaxTargetLength)
