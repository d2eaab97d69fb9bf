"""A past with room: the same steps as a past that grows, whatever is chosen, kept or given more room on the way."""

from __future__ import annotations

import pytest
import torch

from weft.models.build import build_model
from weft.ragged import Ragged
from weft.recipe import make_recipe
from weft.tree import keep, repeat, select, with_capacity

VARIANTS = {
    "plain": [],
    "rotary": ["positions=rotary"],
    "alibi": ["positions=alibi"],
    "relative": ["positions=relative"],
    "learned": ["positions=learned", "max_positions=300"],
    "none": ["positions=none"],
    "shared heads": ["key_value_heads=1"],
    "pre": ["norm_placement=pre", "norm=rms", "activation=swiglu"],
}
SIZES = ["layers=2", "hidden=16", "heads=4", "feed_forward=24"]


def model_of(name):
    changes = [f"model.{side}.{setting}" for side in ("encoder", "decoder") for setting in (*SIZES, *VARIANTS[name])]
    kinds = ["model.encoder.kind=transformer", "model.decoder.kind=transformer", "model.embedding=16"]
    return build_model(make_recipe({}, [*kinds, *changes]).model, source_size=11, target_size=13, seed=3).eval()


@pytest.mark.parametrize("looks", [False, True])
@pytest.mark.parametrize("name", VARIANTS)
@torch.no_grad()
def test_the_same_as_a_past_that_grows(name, looks):
    model = model_of(name)
    draw = torch.Generator().manual_seed(5)
    memory = model.encode(Ragged.of([[3, 4, 5], [6], [7, 8]]))
    grows = repeat(model.start(memory), 2)
    has_room = with_capacity(grows, 4, return_attention=looks)
    tokens_R = torch.full((6,), 1)
    for time in range(11):
        expected, grows, weights = model.step(tokens_R, grows, memory)
        found, has_room, seen = model.step(tokens_R, has_room, memory)
        torch.testing.assert_close(found, expected, rtol=1e-4, atol=1e-5)
        assert (seen is not None) == looks
        if looks:
            torch.testing.assert_close(seen, weights, rtol=1e-4, atol=1e-6)
        rows = torch.randint(2, (len(tokens_R),), generator=draw) + torch.arange(len(tokens_R)) // 2 * 2
        grows, has_room = select((grows, has_room), rows)
        tokens_R = torch.randint(3, 13, (len(tokens_R),), generator=draw)
        if time == 4:  # the second sentence leaves
            rest = torch.tensor([0, 1, 4, 5])
            grows, has_room, tokens_R = keep((grows, has_room, tokens_R), rest)
            memory = select(memory, torch.tensor([0, 2]))
        if time in (3, 7):
            has_room = with_capacity(has_room, 2 * (time + 1), return_attention=looks)
