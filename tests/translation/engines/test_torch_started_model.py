"""A model after given tokens: its first logits are those after all of them, for every hypothesis."""

import torch

from fixtures.small_networks import neural
from weft.ragged import Ragged
from weft.translation.engines.torch import StartedModel


def test_steps_after_given_tokens() -> None:
    for kind in ("feeding", "transformer"):
        model = neural(kind, vocabulary=13)
        source = Ragged.of([[3, 4, 5, 2], [6, 2]])
        with torch.no_grad():
            memory = model.encode(source)
            started = StartedModel(model, (2, 7))
            logits_BV, state, _ = started.step(torch.tensor([5, 5]), started.start(memory), memory)
            after_BV, _, _ = started.step(torch.tensor([9, 4]), state, memory)
            expected = model(source, Ragged.of([[2, 7, 5, 9], [2, 7, 5, 4]])).logits_NV.view(2, 4, -1)
        torch.testing.assert_close(torch.stack([logits_BV, after_BV], 1), expected[:, 2:])
