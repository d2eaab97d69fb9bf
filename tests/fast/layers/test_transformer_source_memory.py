"""Keys and values of the source laid out for steps: equal to the plain ones, and contiguous as they are read."""

from __future__ import annotations

import pytest
import torch

from fixtures.transformers import DECODER, SOURCES, make
from weft.fast.layers.transformer import applies_to_memory, build_memory
from weft.models.transformer_decoder import TransformerDecoder
from weft.ragged import Ragged
from weft.runtime.replaceable import plain_of


@pytest.mark.parametrize("heads", [{}, {"key_value_heads": 1}])
@torch.no_grad()
def test_equal_to_plain_memory(heads: dict[str, int]) -> None:
    _, model = make(decoder={**DECODER, **heads})
    encoded = model.encoder(model.source_embedding.ragged(Ragged.of(SOURCES)))
    assert applies_to_memory(model.decoder, encoded)
    ours = build_memory(model.decoder, encoded)
    torch.testing.assert_close(ours, plain_of(TransformerDecoder.build_memory)(model.decoder, encoded))
    for keys_BHSD, values_BHSD in ours.layers:
        assert keys_BHSD.transpose(2, 3).is_contiguous() and values_BHSD.is_contiguous()
