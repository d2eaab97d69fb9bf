"""Prompts read by CUDA graphs, against the model that reads them."""

from __future__ import annotations

import pytest
import torch

from fixtures.simulated_graphs import simulate_graphs
from weft.fast.recording.prompts import PromptGraphs
from weft.models.build import build_model
from weft.models.prefix_lm import PrefixLM
from weft.models.prompted_lm import rectangle
from weft.ragged import Ragged
from weft.recipe import make_recipe
from weft.tree import leaves


@pytest.mark.parametrize(
    ("positions", "device"),
    [
        ("alibi", "cpu"),
        ("learned", "cpu"),
        *(pytest.param(one, "cuda", marks=pytest.mark.gpu) for one in ("sinusoidal", "alibi", "rotary", "learned")),
    ],
)
@torch.no_grad()
def test_the_same_state(positions: str, device: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Lengths that share a graph, in any order; neither many rows nor what exceeds the positions are recorded."""
    sizes = ["kind=transformer", "layers=2", "hidden=64", "heads=2", "feed_forward=96", f"positions={positions}"]
    changes = [f"model.decoder.{one}" for one in sizes]
    recipe = make_recipe({}, [*changes, "model.embedding=64", "model.kind=language_model", "data.max_length=39",
                              "model.decoder.max_positions=40"])  # fmt: skip
    model = build_model(recipe.model, source_size=11, target_size=13).to(device).eval()
    assert isinstance(model, PrefixLM)
    if device == "cpu":
        simulate_graphs(monkeypatch)
    graphs = PromptGraphs(model)
    draw = torch.Generator().manual_seed(3)
    for rows, length in [(3, 5), (3, 32), (3, 9), (3, 1), (3, 5), (65, 5), (65, 5), (1, 33), (1, 40), (1, 33)]:
        tokens_BT = torch.randint(3, 13, (rows, length), generator=draw).to(device)
        memory = model.encode(Ragged.of([[] for _ in range(rows)], device))
        found, expected = graphs.read(tokens_BT, memory), model.read_prompts(rectangle(tokens_BT), memory)
        for ours, theirs in zip(leaves(found), leaves(expected), strict=True):
            torch.testing.assert_close(ours, theirs, rtol=2e-2, atol=2e-3)
    assert len(graphs.graphs) == (1 if positions == "learned" else 2)
