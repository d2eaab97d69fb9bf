"""model.decoder.alignment_heads: the mean of the heads that it names, in training, in a search and when forced."""

from __future__ import annotations

import pytest
import torch

from fixtures.transformers import DECODER, INPUTS, SOURCES, make
from weft.attention.ragged_attention import alignment_weights
from weft.errors import RecipeError
from weft.ragged import Ragged
from weft.recipe import make_recipe

HEADS = [[2, 1], [0, 0], [2, 0]]


@torch.no_grad()
def test_the_mean_of_heads_of_several_layers() -> None:
    _, model = make(decoder={**DECODER, "alignment_heads": HEADS})
    sources, inputs = Ragged.of(SOURCES), Ragged.of(INPUTS)
    output = model(sources, inputs, return_attention=True)
    cross = {record.layer: record.weights_BHTS for record in output.attention if record.kind == "cross"}
    expected_BTS = sum(cross[layer][:, head] for layer, head in HEADS) / len(HEADS)
    torch.testing.assert_close(alignment_weights(output.attention, sources.layout), expected_BTS)
    fewer = model(sources, inputs, return_attention="alignment").attention
    assert {record.layer for record in fewer} == {0, 2}
    torch.testing.assert_close(alignment_weights(fewer, sources.layout), expected_BTS)


@torch.no_grad()
def test_steps() -> None:
    """The weights of a search are those of the whole target."""
    _, model = make(decoder={**DECODER, "alignment_heads": HEADS})
    sources = Ragged.of(SOURCES[:1])
    inputs = INPUTS[1]
    forced = model(sources, Ragged.of([inputs]), return_attention=True).attention
    expected_BTS = alignment_weights(forced, sources.layout)
    memory = model.encode(sources)
    state = model.start(memory)
    for time, token in enumerate(inputs):
        step = model.step(torch.tensor([token]), state, memory)
        state = step.state
        torch.testing.assert_close(step.attention_RS, expected_BTS[:, time])


@pytest.mark.parametrize(
    ("heads", "changes", "line"),
    [
        ([[3, 0]], {}, "[3, 0] is not a head; there are layers 0 to 2 with heads 0 to 1"),
        ([[0, 2]], {}, "[0, 2] is not a head"),
        ([[0, 1], [0, 1]], {}, "names a head twice"),
        ([[0, 1]], {"copy": True}, "not for this model: it copies"),
        ([[0, 1]], {"kind": "prefix_lm"}, "not for this model: model.kind is not 'seq2seq'"),
    ],
)
def test_heads_that_do_not_exist(heads: list[list[int]], changes: dict[str, object], line: str) -> None:
    stack = {"kind": "transformer", "layers": 3, "hidden": 20, "heads": 2}
    with pytest.raises(RecipeError) as caught:
        make_recipe({"model": {"encoder": stack, "decoder": {**stack, "alignment_heads": heads}, **changes}})
    assert f"model.decoder.alignment_heads: {line}" in str(caught.value)
