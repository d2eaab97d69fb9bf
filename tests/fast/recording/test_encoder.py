"""The encoder as CUDA graphs, against the encoder."""

from __future__ import annotations

import pytest
import torch

from fixtures.simulated_graphs import simulate_graphs
from weft.fast.recording.encoder import EncoderGraphs
from weft.models.build import build_model
from weft.ragged import Layout, Ragged
from weft.recipe import make_recipe
from weft.tree import leaves

BATCHES = [
    [[3, 4, 5, 2]], [[7, 2]], [[3] * 15 + [2]],
    [[9, 8, 7, 2], [4, 2], [5, 6, 2]], [[3, 2], [9] * 8 + [2], [2]],
    [[3] * 9 + [2]] * 60,
]  # fmt: skip


@pytest.mark.parametrize("device_type", ["cpu", pytest.param("cuda", marks=pytest.mark.gpu)])
@pytest.mark.parametrize("kind", ["seq2seq", "prefix_lm"])
@torch.no_grad()
def test_the_same_memory(kind: str, device_type: str, monkeypatch: pytest.MonkeyPatch) -> None:
    if device_type == "cpu":
        simulate_graphs(monkeypatch)
    sizes = ["kind=transformer", "layers=2", "hidden=64", "heads=2", "feed_forward=96"]
    changes = [f"model.{side}.{setting}" for side in ("encoder", "decoder") for setting in sizes]
    recipe = make_recipe({}, [*changes, "model.embedding=64", f"model.kind={kind}"])
    model = build_model(recipe.model, source_size=11, target_size=13)
    device = torch.device(device_type)
    model = model.to(device).eval()
    graphs = EncoderGraphs(model, device)
    for _ in range(3):
        for sources in BATCHES:
            batch = Ragged.of(sources)
            found = graphs.encode(batch, longest=16)
            if found is None:
                continue
            layout = Layout(batch.lengths, device, longest=16)
            expected = model.encode(Ragged(batch.values.to(device), layout))
            for ours, theirs in zip(leaves(found), leaves(expected), strict=True):
                torch.testing.assert_close(ours, theirs, rtol=2e-2, atol=2e-3)
    assert len(graphs.graphs) == 3
