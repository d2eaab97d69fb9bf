"""One stack for source and target: its attention, and its positions. Its equations: test_transformer.py."""

from __future__ import annotations

from typing import Any

import pytest
import torch

from fixtures.transformers import INPUTS, SOURCES, check_weights, make
from weft.errors import DataError
from weft.models.build import build_model
from weft.models.prefix_lm import PrefixLM
from weft.ragged import Ragged
from weft.recipe import ModelSettings
from weft.tree import select

LEARNED = {"kind": "transformer", "layers": 1, "hidden": 6, "heads": 2, "feed_forward": 5, "max_positions": 11}


def with_learned_positions(**model: Any) -> PrefixLM:
    """A model with 11 learned positions."""
    decoder = {**LEARNED, "positions": "learned"}
    settings = {"kind": "prefix_lm", "embedding": 6, "dropout": 0.0, "decoder": decoder, **model}
    built = build_model(ModelSettings.model_validate(settings), source_size=13, target_size=13).eval()
    assert isinstance(built, PrefixLM)
    return built


def test_attention_of_a_prefix_model() -> None:
    _, model = make("prefix_lm")
    records = model(Ragged.of(SOURCES), Ragged.of(INPUTS), return_attention=True).attention
    kinds = [pair for layer in range(3) for pair in (("encoder", layer), ("decoder", layer))]
    assert [(record.kind, record.layer) for record in records] == kinds
    longest = max(len(source) + len(target) for source, target in zip(SOURCES, INPUTS, strict=True))
    for kind, _, weights_BHTS, _ in records:
        assert weights_BHTS.shape == ((4, 2, 5, 5) if kind == "encoder" else (4, 2, 7, longest))
        for row, (source, target) in enumerate(zip(SOURCES, INPUTS, strict=True)):
            if kind == "encoder":
                check_weights(weights_BHTS[row, :, : len(source)], len(source))
            else:
                weights_HTS = weights_BHTS[row, :, : len(target)]
                check_weights(weights_HTS, len(source) + len(target))
                assert not weights_HTS.triu(len(source) + 1).any()


def test_attention_of_a_language_model() -> None:
    _, model = make("language_model")
    assert isinstance(model, PrefixLM)
    records = model(Ragged.of([[] for _ in INPUTS]), Ragged.of(INPUTS), return_attention=True).attention
    assert [(record.kind, record.layer) for record in records] == [("decoder", layer) for layer in range(3)]
    for _, _, weights_BHTS, _ in records:
        assert weights_BHTS.shape == (4, 2, 7, 7)
        for row, target in enumerate(INPUTS):
            weights_HTS = weights_BHTS[row, :, : len(target)]
            check_weights(weights_HTS, len(target))
            assert not weights_HTS.triu(1).any()


def test_source_and_target_share_the_positions() -> None:
    model = with_learned_positions()
    assert model.max_target_length(4) == 7
    model(Ragged.of([[3] * 5, [4]]), Ragged.of([[1] * 6, [1]]))
    with pytest.raises(DataError, match="a sequence of 12 tokens"):
        model(Ragged.of([[3] * 5, [4]]), Ragged.of([[1] * 7, [1]]))


def test_positions_are_counted_row_by_row() -> None:
    """A long source with a short target beside a short source with a long target: both fit."""
    model = with_learned_positions()
    sources, inputs = [[3] * 9, [4]], [[1], [1] * 9]
    together_NV = model(Ragged.of(sources), Ragged.of(inputs)).logits_NV
    alone = [model(Ragged.of([source]), Ragged.of([target])) for source, target in zip(sources, inputs, strict=True)]
    torch.testing.assert_close(together_NV, torch.cat([output.logits_NV for output in alone]))


def test_a_search_counts_positions_row_by_row() -> None:
    """A short source continues when a long one beside it has finished."""
    model = with_learned_positions()
    memory = model.encode(Ragged.of([[3] * 9, [4]]))
    state = model.start(memory)
    for tokens_R in torch.tensor([[1, 1], [5, 6]]):
        logits_RV, state, _ = model.step(tokens_R, state, memory)
    together_NV = model(Ragged.of([[3] * 9, [4]]), Ragged.of([[1, 5], [1, 6]])).logits_NV
    torch.testing.assert_close(logits_RV, together_NV[[1, 3]])
    state, memory = select((state, memory), torch.tensor([1]))
    inputs = [1, 6, 3, 4, 5, 6, 5, 4, 3, 6]
    alone_NV = model(Ragged.of([[4]]), Ragged.of([inputs])).logits_NV
    for position, token in enumerate(inputs[2:], 2):
        logits_RV, state, _ = model.step(torch.tensor([token]), state, memory)
        torch.testing.assert_close(logits_RV[0], alone_NV[position])
