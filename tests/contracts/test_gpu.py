"""On a GPU the same numbers come out as on the CPU, where they are checked against slow versions of the equations."""

from __future__ import annotations

import pytest
import torch

from weft.build import build_model
from weft.data.store import Batch
from weft.ragged import Ragged
from weft.recipe import make_recipe
from weft.search import beam
from weft.training.loss import batch_loss

pytestmark = [pytest.mark.gpu, pytest.mark.skipif(not torch.cuda.is_available(), reason="no CUDA device")]
BATCH = Batch(
    Ragged.of([[3, 4, 2], [5, 2], [7, 3, 9, 5, 2]]),
    Ragged.of([[3, 4, 5, 2], [7, 2], [3, 9, 2]]),
)
VARIANTS = {
    "no attention": ["model.attention.score=none", "model.decoder.feed_summary=true"],
    "after": ["model.attention.score=general", "model.encoder.layers=2", "model.encoder.connections=residual"],
    "input feeding": ["model.attention.score=dot", "model.decoder.input_feeding=true", "model.decoder.layers=2"],
    "before": ["model.attention.score=additive", "model.attention.placement=before"],
    "language model": ["model.kind=language_model", "model.attention.score=dot"],
}


@pytest.mark.parametrize("kind", ["rnn", "gru", "lstm"])
@pytest.mark.parametrize("name", VARIANTS)
def test_the_same_on_both(name: str, kind: str) -> None:
    sizes = ["model.embedding=6", "model.encoder.hidden=8", "model.decoder.hidden=8", "model.dropout=0.0"]
    kinds = [f"model.encoder.kind={kind}", f"model.decoder.kind={kind}"]
    recipe = make_recipe({}, [*VARIANTS[name], *sizes, *kinds])
    batch = BATCH._replace(source=Ragged.of([[], [], []])) if "language" in name else BATCH
    found = []
    for device in ("cpu", "cuda"):
        model = build_model(recipe.model, source_size=11, target_size=13).to(device)
        there = batch.to(device)
        loss = batch_loss(model, there, begin=1, smoothing=0.1)
        loss.smoothed.backward()
        hypotheses = beam(
            model.eval(), model.encode(there.source), [5, 6, 7], begin=1, end=2, size=3, n_best=2, device=device
        )
        gradients = [parameter.grad.cpu() for parameter in model.parameters()]
        found.append((loss.smoothed.detach().cpu(), gradients, hypotheses))
    (cpu_loss, cpu_gradients, cpu_found), (gpu_loss, gpu_gradients, gpu_found) = found
    torch.testing.assert_close(gpu_loss, cpu_loss, rtol=1e-3, atol=1e-3)
    for ours, theirs in zip(gpu_gradients, cpu_gradients, strict=True):
        torch.testing.assert_close(ours, theirs, rtol=2e-2, atol=2e-3)
    scores = [[one.score for one in row] for row in cpu_found]
    assert [[one.score for one in row] for row in gpu_found] == [pytest.approx(row, abs=1e-2) for row in scores]
