"""Adapters, frozen weights and rates by layer on a GPU: CUDA graphs, bf16 and compiled layers change nothing."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import torch

from weft.data.batching.batches import StoredCorpus
from weft.data.store.token_store import PairStore, TokenStore
from weft.fast.updating.cuda_graph_update import CudaGraphUpdate
from weft.models.build import build_model
from weft.models.interface import Model
from weft.models.lora import add_adapters
from weft.recipe import TrainingSettings, make_recipe
from weft.runs.layout import RunFolder
from weft.runs.load import load_run
from weft.runs.weights import model_tensors
from weft.training.events import Saved, Step
from weft.training.optimizer import freeze
from weft.training.train import train
from weft.training.trainer import Trainer
from weft.training.update import PlainUpdate, TrainingContext
from weft.translation.load import load

pytestmark = [
    pytest.mark.gpu,
    pytest.mark.skipif(not torch.cuda.is_available(), reason="no CUDA device"),
    pytest.mark.filterwarnings("ignore::weft.errors.WeftWarning"),
]
CORPUS = [[3 + (row * place) % 8 for place in range(1, 3 + row % 9)] + [2] for row in range(200)]
STACK = {"kind": "transformer", "layers": 2, "hidden": 64, "heads": 2, "feed_forward": 48}
SIZES = {f"model.{side}.{name}": value for side in ("encoder", "decoder") for name, value in STACK.items()}
SIZES |= {"model.embedding": 64, "model.dropout": 0.0}
VARIANTS: dict[str, dict[str, Any]] = {
    "query and value": {"lora": {"rank": 4}},
    "every projection": {"lora": {"rank": 4, "targets": ["*"]}},
    "gated": {"lora": {"rank": 4, "targets": ["gate", "up", "key"]}},
    "by layer": {"layer_decay": 0.5},
    "adapters by layer": {"lora": {"rank": 4}, "layer_decay": 0.5},
    "frozen": {"freeze": ["encoder.*", "*norm*"]},
}


def make_model(name: str, settings: TrainingSettings) -> Model:
    gated = {f"model.{side}.activation": "swiglu" for side in ("encoder", "decoder")} if name == "gated" else {}
    recipe = make_recipe({}, [f"{key}={value}" for key, value in {**SIZES, **gated}.items()])
    model = build_model(recipe.model, source_size=11, target_size=13)
    freeze(model, settings.freeze)
    if settings.lora.rank:
        add_adapters(model, settings.lora, seed=3)
    return model


def losses_of(
    name: str, folder: Path, *, captured: bool = True, device: str = "cuda", **changes: Any
) -> tuple[list[float], Model]:
    """The losses of a few updates, and the model after them."""
    sizes = {"batch_tokens": 120, "steps": 12, "validate_every": 0, "save_every": 0, "warmup": 4, "learning_rate": 0.01}
    settings = TrainingSettings.model_validate({**sizes, "precision": "bf16", **VARIANTS[name], **changes})
    context = TrainingContext(settings, device=torch.device(device))
    pairs = StoredCorpus(PairStore(TokenStore.of(CORPUS), TokenStore.of(CORPUS)))
    trainer = Trainer(make_model(name, settings), pairs, context, folder=RunFolder(folder))
    if not captured:
        trainer.update = PlainUpdate(trainer.model, trainer.optimizer, context)
    trainer.save = lambda: Saved(0, "")  # type: ignore[method-assign]
    losses = [event.loss for event in trainer.events() if isinstance(event, Step)]
    if captured:
        assert isinstance(trainer.update, CudaGraphUpdate)
        assert any(update.graph is not None for update in trainer.update.recorder.graphs.values())
    return losses, trainer.model


@pytest.mark.parametrize("name", VARIANTS)
def test_captured_updates_equal_plain_updates(name: str, tmp_path: Path) -> None:
    captured, model = losses_of(name, tmp_path)
    plain, other = losses_of(name, tmp_path, captured=False)
    assert captured == pytest.approx(plain, rel=0.03)
    assert captured[-1] < captured[0]
    initial = dict(make_model(name, TrainingSettings.model_validate(VARIANTS[name])).named_parameters())
    for (key, parameter), (_, theirs) in zip(model.named_parameters(), other.named_parameters(), strict=True):
        if not parameter.requires_grad:
            assert torch.equal(parameter.cpu(), initial[key]) and torch.equal(theirs.cpu(), initial[key]), key
        elif not key.endswith("bias"):  # those of keys have no gradient but rounding
            assert not torch.equal(parameter.cpu(), initial[key]), key


@pytest.mark.parametrize("name", ["by layer", "adapters by layer"])
def test_rates_by_layer_in_single_precision(name: str, tmp_path: Path) -> None:
    """The rate of a group is computed inside the graph; weights are the same as without one."""
    (_, captured), (_, plain) = (losses_of(name, tmp_path, captured=each, precision="fp32") for each in (True, False))
    for ours, theirs in zip(captured.parameters(), plain.parameters(), strict=True):
        torch.testing.assert_close(ours, theirs, rtol=2e-2, atol=2e-3)


@pytest.mark.parametrize("name", ["query and value", "every projection", "gated"])
def test_compiled_layers(name: str, tmp_path: Path) -> None:
    compiled, _ = losses_of(name, tmp_path, compile="on")
    assert compiled == pytest.approx(losses_of(name, tmp_path, compile="off")[0], rel=0.03)


@pytest.mark.parametrize("optimizer", ["adamw", "sgd"])
def test_the_updates_are_those_of_the_cpu(optimizer: str, tmp_path: Path) -> None:
    changes = {"optimizer": optimizer, "layer_decay": 0.5, "precision": "fp32"}
    captured = optimizer != "sgd"  # which has no captured updates
    on_cpu, _ = losses_of("every projection", tmp_path, captured=False, device="cpu", **changes)
    on_gpu, _ = losses_of("every projection", tmp_path, captured=captured, **changes)
    assert on_gpu[:3] == pytest.approx(on_cpu[:3], rel=1e-3) and on_gpu == pytest.approx(on_cpu, rel=1e-2)


def test_a_run(tiny: Any, tmp_path: Path) -> None:
    """Trained on a GPU from a run, resumed, loaded there and on the CPU; the base stays as it was."""
    changes = {**SIZES, "training.device": "cuda", "training.steps": 8, "training.validate_every": 4}
    list(train(tiny(changes), tmp_path / "base"))
    lora = {"training.lora.rank": 4, "training.lora.dropout": 0.1, "training.start": str(tmp_path / "base")}
    recipe = tiny({**changes, **lora, "training.learning_rate": 0.03})
    for event in train(recipe, tmp_path / "run"):
        if event.step == 5:
            break
    list(train(recipe, tmp_path / "run", resume=True))
    base, plain, adapted = (
        model_tensors(load_run(tmp_path / name, adapter=adapter).model)
        for name, adapter in (("base", None), ("run", "none"), ("run", None))
    )
    assert all(torch.equal(base[key], plain[key]) for key in base)
    assert any(not torch.equal(base[key], adapted[key]) for key in base)
    texts = ["a b c", "d a", "b"]
    on_gpu, on_cpu = (load(tmp_path / "run", device=device, precision="fp32") for device in ("cuda", "cpu"))
    assert [each.text for each in on_gpu.translate(texts)] == [each.text for each in on_cpu.translate(texts)]
