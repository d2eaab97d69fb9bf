"""Steps of few rows on a GPU against those of any number of rows."""

from __future__ import annotations

import pytest
import torch

from weft.fast.steps.fixed_capacity import fixed_capacity
from weft.models.build import build_model
from weft.ragged import Ragged
from weft.recipe import make_recipe
from weft.tree import repeat, select

pytestmark = [pytest.mark.gpu, pytest.mark.skipif(not torch.cuda.is_available(), reason="no CUDA device")]
VARIANTS = {
    "plain": [],
    "rotary": ["positions=rotary"],
    "alibi": ["positions=alibi"],
    "shared heads": ["key_value_heads=1", "norm=rms", "activation=swiglu"],
    "post": ["norm_placement=post"],
}


@pytest.mark.parametrize("kind", ["seq2seq", "prefix_lm", "language_model"])
@pytest.mark.parametrize("name", VARIANTS)
@torch.no_grad()
def test_the_same_logits(name: str, kind: str, monkeypatch: pytest.MonkeyPatch) -> None:
    from weft.fast.steps import few_rows_transformer as small_step

    sizes = ["kind=transformer", "layers=2", "hidden=64", "heads=2", "feed_forward=96", *VARIANTS[name]]
    changes = [f"model.{side}.{setting}" for side in ("encoder", "decoder") for setting in sizes]
    recipe = make_recipe({}, [*changes, "model.embedding=64", f"model.kind={kind}"])
    model = build_model(recipe.model, source_size=11, target_size=13, seed=3).to("cuda", torch.bfloat16).eval()
    sources = [[], []] if kind == "language_model" else [[3, 4, 5], [6, 7]]
    memory = model.encode(Ragged.of(sources, "cuda"))
    used = []
    original = small_step.small_layers
    monkeypatch.setattr(small_step, "small_layers", lambda *given: used.append(1) or original(*given))
    found = []
    for small in (True, False):
        if not small:
            monkeypatch.setattr(small_step, "is_small", lambda *_: False)
        state = fixed_capacity(repeat(model.start(memory), 3), 16, return_attention=False)
        tokens_R = torch.full((6,), 1, device="cuda")
        logits = []
        for time in range(7):
            logits_RV, state, _ = model.step(tokens_R, state, memory)
            logits.append(logits_RV.float())
            state = select(state, torch.tensor([0, 0, 2, 3, 5, 4], device="cuda"))
            tokens_R = (torch.arange(6, device="cuda") * 7 + time) % 10 + 3
        found.append(torch.stack(logits))
    assert bool(used) == (name != "post")
    assert float((found[0] - found[1]).norm() / found[1].norm()) < 0.02
