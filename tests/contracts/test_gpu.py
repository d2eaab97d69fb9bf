"""On a GPU the same numbers come out as on the CPU, where they are checked against slow versions of the equations."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch

from weft.data.batching.batches import StoredCorpus
from weft.data.store.token_store import Batch, PairStore, TokenStore
from weft.fast.updating.cuda_graph_update import CudaGraphUpdate
from weft.models.build import build_model
from weft.models.layers import Entmax15Output, Output
from weft.ragged import Ragged
from weft.recipe import ModelSettings, TrainingSettings, make_recipe
from weft.recipe.choices import NORMALIZERS
from weft.runs.layout import RunFolder
from weft.search.beam import BeamOptions, beam_search
from weft.search.interface import SearchRequest
from weft.training.events import Saved, Step
from weft.training.loss import IGNORE_INDEX, batch_loss, output_loss
from weft.training.trainer import Trainer
from weft.training.update import PlainUpdate, TrainingContext

pytestmark = [pytest.mark.gpu, pytest.mark.skipif(not torch.cuda.is_available(), reason="no CUDA device")]
BATCH = Batch(
    Ragged.of([[3, 4, 2], [5, 2], [7, 3, 9, 5, 2]]),
    Ragged.of([[3, 4, 5, 2], [7, 2], [3, 9, 2]]),
)
COLUMN_BATCH = BATCH._replace(source=Ragged.of([[3, 4, 2, 6, 2], [2, 5, 2], [7, 3, 2, 9, 5, 2]]))
"""Sources of two columns."""
VARIANTS = {
    "no attention": ["model.attention.score=none", "model.decoder.feed_summary=true"],
    "after": ["model.attention.score=general", "model.encoder.layers=2", "model.encoder.connections=residual"],
    "input feeding": ["model.attention.score=dot", "model.decoder.input_feeding=true", "model.decoder.layers=2"],
    "before": ["model.attention.score=additive", "model.attention.placement=before"],
    "coverage": ["model.attention.score=additive", "model.attention.coverage=fertility"],
    "location": ["model.attention.score=additive", "model.attention.location=true", "model.decoder.input_feeding=true"],
    "window": ["model.attention.window=predictive", "model.attention.window_size=2"],
    "sparse": ["model.attention.normalizer=entmax15", "model.decoder.input_feeding=true"],
    **{name: [f"model.attention.hard={name}"] for name in ("zeroth", "monotonic", "first")},
    "sparse outputs": ["model.decoder.input_feeding=true"],
    "columns": ["model.sources.count=2", "model.decoder.input_feeding=true"],
    "shared columns": ["model.sources.count=2", "model.sources.encoders=shared", "model.attention.placement=before"],
    "columns of hard attention": ["model.sources.count=2", "model.attention.hard=first"],
    "hard copying": ["model.attention.hard=first", "model.copy=true"],
    "copying": ["model.copy=true", "model.decoder.input_feeding=true"],
    "copying before": ["model.copy=true", "model.attention.score=additive", "model.attention.placement=before"],
    "copying of columns": ["model.copy=true", "model.sources.count=2"],
    "language model": ["model.kind=language_model", "model.attention.score=dot"],
}


def loss_of(name: str) -> str:
    return "entmax15" if "sparse outputs" in name else "cross_entropy"


@pytest.mark.parametrize("kind", ["rnn", "gru", "lstm"])
@pytest.mark.parametrize("name", VARIANTS)
def test_the_same_on_both(name: str, kind: str) -> None:
    sizes = ["model.embedding=6", "model.encoder.hidden=8", "model.decoder.hidden=8", "model.dropout=0.0"]
    kinds = [f"model.encoder.kind={kind}", f"model.decoder.kind={kind}"]
    recipe = make_recipe({}, [*VARIANTS[name], *sizes, *kinds])
    batch = BATCH._replace(source=Ragged.of([[], [], []])) if "language" in name else BATCH
    batch = COLUMN_BATCH if "columns" in name else batch
    found = []
    for device in ("cpu", "cuda"):
        model = build_model(recipe.model, source_size=11, target_size=13, loss=loss_of(name)).to(device)
        there = batch.to(device)
        loss = batch_loss(model, there, smoothing=0.1)
        loss.smoothed.backward()
        request = SearchRequest(
            memory=model.eval().encode(there.source),
            max_lengths=[5, 6, 7],
            begin=1,
            end=2,
            n_best=2,
            device=torch.device(device),
        )
        hypotheses = beam_search(model, request, BeamOptions(size=3))
        gradients = [parameter.grad.cpu() for parameter in model.parameters()]
        found.append((loss.smoothed.detach().cpu(), gradients, hypotheses))
    (cpu_loss, cpu_gradients, cpu_found), (gpu_loss, gpu_gradients, gpu_found) = found
    torch.testing.assert_close(gpu_loss, cpu_loss, rtol=1e-3, atol=1e-3)
    for ours, theirs in zip(gpu_gradients, cpu_gradients, strict=True):
        torch.testing.assert_close(ours, theirs, rtol=2e-2, atol=2e-3)
    scores = [[one.score for one in row] for row in cpu_found]
    assert [[one.score for one in row] for row in gpu_found] == [pytest.approx(row, abs=1e-2) for row in scores]


TRANSFORMERS = {
    "plain": [],
    "post": ["norm_placement=post"],
    "shared heads": ["key_value_heads=1", "norm=rms", "activation=swiglu"],
    "rotary": ["positions=rotary"],
    "relative": ["positions=relative"],
    "alibi": ["positions=alibi"],
    "learned": ["positions=learned"],
}


def transformer(options: list[str], *more: str) -> ModelSettings:
    sides = [f"model.{side}.{option}" for side in ("encoder", "decoder") for option in ("kind=transformer", *options)]
    sizes = [f"model.{side}.{size}" for side in ("encoder", "decoder") for size in ("hidden=64", "heads=2", "layers=2")]
    inner = ["model.encoder.feed_forward=48", "model.decoder.feed_forward=48"]
    return make_recipe({}, [*sides, *sizes, *inner, "model.embedding=64", "model.dropout=0.0", *more]).model


COLUMNS = {
    f"{one} columns": [f"model.sources.{setting}"]
    for one, setting in (("separate", "encoders=separate"), ("joint", "encoders=joint"), ("flat", "attention=flat"))
}
COPYING = {"copying": ["model.copy=true"], "copying, tied": ["model.copy=true", "model.tie=target"]}
SAME = [(name, kind) for name in (*TRANSFORMERS, *NORMALIZERS) for kind in ("seq2seq", "prefix_lm")]


@pytest.mark.parametrize(("name", "kind"), [*SAME, *((name, "seq2seq") for name in (*COLUMNS, *COPYING))])
def test_transformers_are_the_same_on_both(name: str, kind: str) -> None:
    normalizer = f"model.attention.normalizer={name if name in NORMALIZERS else 'softmax'}"
    columns = ["model.sources.count=2", *COLUMNS[name]] if name in COLUMNS else []
    more = [*columns, *COPYING.get(name, [])]
    settings = transformer(TRANSFORMERS.get(name, []), f"model.kind={kind}", normalizer, *more)
    batch = COLUMN_BATCH if columns else BATCH
    found = []
    for device, half in (("cpu", False), ("cuda", False), ("cuda", True)):
        model = build_model(settings, source_size=11, target_size=13).to(device)
        with torch.autocast(device, torch.bfloat16, enabled=half):
            loss = batch_loss(model, batch.to(device), smoothing=0.1)
        loss.smoothed.backward()
        found.append((loss.smoothed.detach().cpu(), [parameter.grad.cpu() for parameter in model.parameters()]))
    (cpu_loss, cpu_gradients), *others = found
    half = 0.1 if name not in NORMALIZERS else 0.2  # rounding moves a weight to zero and back
    for (loss, gradients), share in zip(others, (1e-4, half), strict=True):
        torch.testing.assert_close(loss, cpu_loss, rtol=share, atol=share)
        ours, theirs = (torch.cat([one.flatten() for one in many]) for many in (gradients, cpu_gradients))
        assert float((ours - theirs).norm() / theirs.norm()) < share


@pytest.mark.parametrize("smoothing", [0.0, 0.1])
def test_the_loss_kernel_is_the_loss(smoothing: float) -> None:
    """One kernel on a GPU against the written-out version, with an ignored target."""
    torch.manual_seed(1)
    states, output = torch.randn(37, 24), Output(5003, 24)
    targets = torch.randint(0, 5003, (37,))
    found = []
    for device in ("cpu", "cuda"):
        there, copy = states.to(device).requires_grad_(), Output(5003, 24).to(device)
        copy.load_state_dict(output.state_dict())
        loss = output_loss(copy, there, targets.to(device), smoothing=smoothing)
        gradients = torch.autograd.grad(loss.smoothed, [there, *copy.parameters()])
        found.append([one.cpu() for one in (loss.smoothed, loss.negative_log_likelihood, *gradients)])
    for ours, theirs in zip(*found, strict=True):
        torch.testing.assert_close(ours, theirs, rtol=1e-3, atol=1e-3)
    targets[5] = IGNORE_INDEX
    there = states.cuda().requires_grad_()
    loss = output_loss(output.cuda(), there, targets.cuda(), smoothing=smoothing)
    [gradient] = torch.autograd.grad(loss.smoothed, [there])
    assert not gradient[5].any() and gradient[4].any()
    assert loss.negative_log_likelihood.cpu() < found[0][1]


def test_the_loss_of_sparse_outputs() -> None:
    """On a GPU as on the CPU, with an ignored target."""
    torch.manual_seed(1)
    states, output = torch.randn(37, 24), Entmax15Output(5003, 24)
    targets = torch.randint(0, 5003, (37,))
    targets[5] = IGNORE_INDEX
    found = []
    for device in ("cpu", "cuda"):
        there, copy = states.to(device).requires_grad_(), Entmax15Output(5003, 24).to(device)
        copy.load_state_dict(output.state_dict())
        loss = output_loss(copy, there, targets.to(device), smoothing=0.0).smoothed
        gradients = torch.autograd.grad(loss, [there, *copy.parameters()])
        found.append([one.cpu() for one in (loss, *gradients)])
    for ours, theirs in zip(*found, strict=True):
        torch.testing.assert_close(ours, theirs, rtol=1e-3, atol=1e-3)
    assert not found[1][1][5].any()


CAPTURED = {
    "transformer": transformer([]),
    "sparse transformer": transformer([], "model.attention.normalizer=entmax15"),
    "transformer with sparse outputs": transformer([]),
    "transformer that copies": transformer([], "model.copy=true"),
    "transformer of columns": transformer([], "model.sources.count=2"),
    **{name: make_recipe({}, [*changes, "model.dropout=0.0"]).model for name, changes in VARIANTS.items()},
    "gru": make_recipe({}, ["model.encoder.kind=gru", "model.decoder.kind=gru", "model.dropout=0.0"]).model,
    "in between": make_recipe({}, ["model.encoder.kind=attention", "model.dropout=0.0"]).model,
    "prompted language model": make_recipe({}, [*VARIANTS["language model"], "model.dropout=0.0"]).model,
    "transformer language model": transformer([], "model.kind=language_model"),
    "prompted transformer language model": transformer([], "model.kind=language_model"),
    "prefix transformer": transformer([], "model.kind=prefix_lm"),
    "relative prefix transformer": transformer(["positions=relative"], "model.kind=prefix_lm"),
}


@pytest.mark.parametrize("name", CAPTURED)
def test_captured_updates_equal_plain_updates(name: str, tmp_path: Path) -> None:
    """The same losses in a few updates, whether replayed as CUDA graphs or not."""
    corpus = [[3 + (row * place) % 8 for place in range(1, 3 + row % 9)] + [2] for row in range(200)]
    sources = [[*row[:4], 2, *row] for row in corpus] if "columns" in name else corpus
    sources = [[]] * len(corpus) if name in ("language model", "transformer language model") else sources
    pairs = PairStore(TokenStore.of(sources), TokenStore.of(corpus))
    sizes = {"batch_tokens": 120, "steps": 12, "validate_every": 0, "save_every": 0, "warmup": 4}
    losses = []
    for captured in (True, False):
        precision = "bf16" if "transformer" in name else "fp32"
        settings = TrainingSettings.model_validate({**sizes, "precision": precision})
        model = build_model(CAPTURED[name], source_size=11, target_size=13, loss=loss_of(name))
        context = TrainingContext(settings, device=torch.device("cuda"))
        trainer = Trainer(model, StoredCorpus(pairs), context, folder=RunFolder(tmp_path))
        assert isinstance(trainer.update, CudaGraphUpdate)
        if not captured:
            trainer.update = PlainUpdate(trainer.model, trainer.optimizer, context)
        trainer.save = lambda: Saved(0, "")  # type: ignore[method-assign]
        losses.append([event.loss for event in trainer.events() if isinstance(event, Step)])
        if captured:
            assert any(update.graph is not None for update in trainer.update.recorder.graphs.values())
    assert losses[0] == pytest.approx(losses[1], rel=0.03 if "transformer" in name else 0.005)
    assert losses[0][-1] < losses[0][0]


@pytest.mark.parametrize("name", ["transformer", "gru", "input feeding", "first", "copying"])
def test_captured_updates_of_two_passes(name: str, tmp_path: Path) -> None:
    """R-Drop: the losses of plain updates where passes are equal; with dropout, two masks, others in each replay."""
    corpus = [[3 + (row * place) % 8 for place in range(1, 3 + row % 9)] + [2] for row in range(200)]
    pairs = PairStore(TokenStore.of(corpus), TokenStore.of(corpus))
    sizes = {"batch_tokens": 120, "steps": 12, "validate_every": 0, "save_every": 0, "warmup": 4, "precision": "fp32"}
    losses = {}
    for dropout, captured in ((0.0, True), (0.0, False), (0.3, True)):
        settings = TrainingSettings.model_validate({**sizes, "consistency": 5.0})
        model_settings = CAPTURED[name].model_copy(update={"dropout": dropout})
        model = build_model(model_settings, source_size=11, target_size=13)
        context = TrainingContext(settings, device=torch.device("cuda"))
        trainer = Trainer(model, StoredCorpus(pairs), context, folder=RunFolder(tmp_path))
        assert isinstance(trainer.update, CudaGraphUpdate)
        if not captured:
            trainer.update = PlainUpdate(trainer.model, trainer.optimizer, context)
        trainer.save = lambda: Saved(0, "")  # type: ignore[method-assign]
        losses[dropout, captured] = [event.loss for event in trainer.events() if isinstance(event, Step)]
        if captured:
            assert any(update.graph is not None for update in trainer.update.recorder.graphs.values())
    assert losses[0.0, True] == pytest.approx(losses[0.0, False], rel=0.01)
    assert losses[0.3, True] != pytest.approx(losses[0.0, True], rel=0.001)


def test_weights_that_have_moved_are_followed(tmp_path: Path) -> None:
    """`Module.to` moves the weights of recurrent modules, even to where they are: graphs are then captured anew."""
    corpus = [[3 + (row * place) % 8 for place in range(1, 3 + row % 9)] + [2] for row in range(200)]
    pairs = PairStore(TokenStore.of(corpus), TokenStore.of(corpus))
    sizes = {"batch_tokens": 120, "steps": 30, "validate_every": 0, "save_every": 0, "warmup": 4, "precision": "fp32"}
    losses = []
    for moving in (True, False):
        model = build_model(CAPTURED["input feeding"], source_size=11, target_size=13)
        settings = TrainingSettings.model_validate(sizes)
        context = TrainingContext(settings, device=torch.device("cuda"))
        trainer = Trainer(model, StoredCorpus(pairs), context, folder=RunFolder(tmp_path))
        trainer.save = lambda: Saved(0, "")  # type: ignore[method-assign]
        losses.append([])
        for event in trainer.events():
            if isinstance(event, Step):
                losses[-1].append(event.loss)
                if moving and event.step % 7 == 0:
                    torch.cuda.synchronize()
                    trainer.model.to("cuda")
    assert losses[0] == pytest.approx(losses[1], rel=0.005)


RESUMED = {
    "transformer": (transformer(["norm_placement=post"], "model.dropout=0.3"), "bf16"),
    "pre-norm transformer": (transformer([], "model.dropout=0.3"), "bf16"),
    "input feeding": (make_recipe({}, [*VARIANTS["input feeding"], "model.dropout=0.3"]).model, "tf32"),
}


@pytest.mark.parametrize("name", RESUMED)
def test_a_resumed_run_draws_the_same_dropout_masks(name: str, tmp_path: Path) -> None:
    """The losses after a checkpoint are those of a run that was not interrupted."""
    corpus = [[3 + (row * place) % 8 for place in range(1, 3 + row % 9)] + [2] for row in range(200)]
    pairs = PairStore(TokenStore.of(corpus), TokenStore.of(corpus))
    sizes = {"batch_tokens": 400, "validate_every": 0, "save_every": 0, "warmup": 4}
    model_settings, precision = RESUMED[name]

    def fill(new: RunFolder) -> None:
        (new.path / "tokenizer.json").write_text("{}")

    def losses(folder: Path, steps: int, *, resumed: bool = False) -> list[float]:
        settings = TrainingSettings.model_validate({**sizes, "precision": precision, "steps": steps})
        model = build_model(model_settings, source_size=11, target_size=13)
        context = TrainingContext(settings, device=torch.device("cuda"))
        run = RunFolder(folder) if resumed else RunFolder.create(folder, fill)
        trainer = Trainer(model, StoredCorpus(pairs), context, folder=run)
        if resumed:
            trainer.restore()
        return [event.loss for event in trainer.events() if isinstance(event, Step)]

    whole = losses(tmp_path / "whole", 20)
    parts = losses(tmp_path / "parts", 12) + losses(tmp_path / "parts", 20, resumed=True)
    assert len(whole) == 20 and parts == pytest.approx(whole, rel=1e-3)
