"""Pictures in static memory, without a GPU; on one, updates are compared in tests/contracts/test_gpu.py."""

from __future__ import annotations

import itertools
import math
from typing import Any

import numpy as np
import pytest
import torch

from fixtures.plain_picture_kernels import use_plain_kernels
from fixtures.simulated_graphs import simulate_graphs
from weft.data.batching.batches import StepBatches
from weft.data.store.token_store import Batch, CorpusSize
from weft.fast.layers import ragged_stem
from weft.fast.updating import cuda_graph_update
from weft.fast.updating.cuda_graph_update import WARMUP_UPDATES, CudaGraphUpdate, can_capture
from weft.fast.updating.static_pictures import PictureKey, PictureShape, StaticPictures, captured_stem
from weft.fast.updating.static_sides import StaticSide
from weft.models.build import build_model
from weft.models.interface import Model
from weft.models.stems import Stem
from weft.packed import pack
from weft.ragged import Ragged
from weft.recipe import ModelSettings, TrainingSettings
from weft.training.optimizer import make_optimizer
from weft.training.update import PlainUpdate, TrainingContext, UpdateStatistics

CPU = torch.device("cpu")
STACK = {"kind": "transformer", "layers": 1, "hidden": 6, "heads": 2, "feed_forward": 7}
SIZES = [(13, 17), (5, 3), (1, 1), (2, 29), (11, 7), (23, 3)]


def model_of(**tree: object) -> Model:
    stem = {"kind": "grid", "widths": [16, 32], "blocks": 1}
    given = {"embedding": 6, "stem": stem, "encoder": STACK | {"positions": "none"}, "decoder": STACK, "dropout": 0.0}
    return build_model(ModelSettings.model_validate(given | tree), source_size=11, target_size=13)


def pictures(sizes: list[tuple[int, int]], channels: int = 1) -> Ragged:
    random = np.random.default_rng(len(sizes))
    return Ragged.of(
        [torch.from_numpy(pack(random.integers(0, 256, (*size, channels), dtype=np.uint8))) for size in sizes]
    )


def batch_of(sizes: list[tuple[int, int]]) -> Batch:
    targets = [[3 + (place + row) % 8 for place in range(1 + row % 4)] + [2] for row in range(len(sizes))]
    return Batch(pictures(sizes), Ragged.of(targets))


def corpus_size(batches: list[Batch]) -> CorpusSize:
    sources, targets = ([side.layout for side in sides] for sides in zip(*batches, strict=True))
    return CorpusSize(
        sum(side.rows for side in sources),
        *(sum(side.total for side in sides) for sides in (sources, targets)),
        *(max(side.longest for side in sides) for sides in (sources, targets)),
    )


@pytest.fixture
def kernels(monkeypatch: pytest.MonkeyPatch) -> None:
    """Stems over ragged pictures on the CPU."""
    use_plain_kernels(monkeypatch)
    monkeypatch.setattr(Stem, "ragged", ragged_stem.ragged)


@pytest.mark.usefixtures("kernels")
@pytest.mark.parametrize("channels", [1, 3])
def test_pictures_that_are_filled_up(channels: int) -> None:
    """The same states and gradients as without; in the same memory again: nothing is left of the batch before."""
    stem_settings = {"kind": "grid", "widths": [16, 32], "blocks": 1, "inputs": channels}
    model = model_of(stem=stem_settings)
    stem = captured_stem(model)
    assert stem is not None
    encoder = model.double().encoder  # type: ignore[attr-defined]
    side = StaticPictures(stem, [600, 160, 50], PictureKey(7, 40, 8, 1), CPU)
    for sizes in (SIZES, SIZES[3:1:-1], [SIZES[0], (3, 4)]):
        source = pictures(sizes, channels)
        side.copy_from(source)
        filled, expected = (encoder(stem.ragged(given)).states for given in (side.ragged(), source))
        count = expected.layout.total
        torch.testing.assert_close(filled.values[:count], expected.values)
        assert len(filled.values) == 50 and filled.layout.rows == 7 and bool(filled.values.isfinite().all())
        weights_ND = torch.linspace(-1, 1, expected.values.numel(), dtype=torch.float64).view_as(expected.values)
        parameters = [*stem.parameters()]
        ours, theirs = (
            torch.autograd.grad((states_ND[:count] * weights_ND).sum(), parameters)
            for states_ND in (filled.values, expected.values)
        )
        torch.testing.assert_close(ours, theirs)


def test_every_batch_fits_its_key() -> None:
    stem = captured_stem(model_of())
    assert stem is not None
    sides = [1, 2, 3, 8, 17, 64]
    batches = [
        batch_of([*sizes] * repeats)
        for sizes in itertools.product([*zip(sides, sides[::-1], strict=True)], repeat=2)
        for repeats in (1, 3)
    ]
    shape = PictureShape(stem, corpus_size(batches), 2000)
    for batch in batches:
        key = shape.key(batch)
        side = shape.source_side(key, CPU)
        side.copy_from(batch.source)
        starts_L3B, counts = side.stage_grids.starts_L3B, side.stage_grids.counts
        ends_LB = starts_L3B[:, 0] + starts_L3B[:, 1] * starts_L3B[:, 2]
        assert ends_LB[:, -1].tolist() == [*counts], "the last picture fills up the batch"
        assert bool((starts_L3B >= 0).all()) and bool((ends_LB.diff(dim=1) >= 0).all())
        assert int(side.layout.device_lengths.max()) <= key.max_source_length
        assert int(side.layout.device_lengths.sum()) == counts[-1]
        assert key.rows % shape.row_multiple == 0 and batch.target.layout.longest <= key.max_target_length
    for key in shape.likely_keys():
        source, target = (
            shape.source_side(key, CPU).layout,
            StaticSide(shape.target_tokens, key[2], key.rows, CPU).layout,
        )
        assert source.rows == target.rows == key.rows and key.rows % shape.row_multiple == 0


@pytest.mark.parametrize(
    ("tree", "expected"),
    [
        ({}, True),
        ({"stem": {"kind": "grid", "widths": [16, 24]}}, False),
        ({"stem": {"kind": "columns", "widths": [16, 32]}}, False),
        ({"decoder": {"kind": "gru", "hidden": 6}, "attention": {"score": "additive"}}, False),
        ({"encoder": {"kind": "lstm", "hidden": 6}}, False),
    ],
)
def test_what_is_captured(tree: dict[str, Any], expected: bool) -> None:
    """Grids read by attention, with channels that the kernels can multiply."""
    model = model_of(**tree)
    assert (captured_stem(model) is not None) is expected
    assert can_capture(model, TrainingSettings(), torch.device("cuda")) is expected
    assert not can_capture(model, TrainingSettings(coverage_loss=1.0), torch.device("cuda"))


@pytest.mark.usefixtures("kernels")
@pytest.mark.parametrize("consistency", [0.0, 2.0], ids=["one pass", "R-Drop"])
def test_replayed_updates_are_plain_ones(consistency: float, monkeypatch: pytest.MonkeyPatch) -> None:
    """On a simulated GPU: warm-up, captures of several shapes, replays; all losses are those of plain updates."""
    log = simulate_graphs(monkeypatch)
    monkeypatch.setattr(torch.Tensor, "pin_memory", lambda tensor: tensor)
    monkeypatch.setattr(cuda_graph_update, "copy_to_host", lambda statistics: lambda: UpdateStatistics(*statistics))
    monkeypatch.setattr(cuda_graph_update, "maybe_mark_dynamic", lambda *_: None)
    settings = TrainingSettings(
        optimizer="adam", batch_tokens=700, precision="fp32", compile="off", consistency=consistency
    )
    batches = [batch_of(SIZES[:2]), batch_of(SIZES), batch_of(SIZES[2:])]
    models = [model_of(), model_of()]
    models[1].load_state_dict(models[0].state_dict())
    captured, plain = models
    context = TrainingContext(settings)
    update = CudaGraphUpdate(captured, make_optimizer(captured, settings), context, corpus_size(batches))
    expected = PlainUpdate(plain, make_optimizer(plain, settings), context)
    for step in range(15):
        losses = []
        for each in (update, expected):
            result = each(
                StepBatches.of([batches[step % 3]]), learning_rate=0.01 / (1 + step), sampling_probability=0.0
            )
            losses.append(float(result.statistics().loss))
        assert losses[0] == pytest.approx(losses[1], rel=1e-3) and math.isfinite(losses[0])
    graphs = [recorded.graph for recorded in update.recorder.graphs.values()]
    assert len(graphs) >= 2 and None not in graphs
    assert log.count("replay") == 15 - max(WARMUP_UPDATES, len(graphs))


@pytest.mark.gpu
@pytest.mark.skipif(not torch.cuda.is_available(), reason="no CUDA device")
@pytest.mark.parametrize("precision", ["fp32", "bf16"])
def test_on_a_gpu_captured_updates_equal_plain_ones(precision: str) -> None:
    """The same losses, whether replayed as CUDA graphs or not; batches of several keys, among them a large one."""
    stack = STACK | {"hidden": 64, "feed_forward": 96, "layers": 2}
    tree = {"embedding": 64, "encoder": stack | {"positions": "none"}, "decoder": stack}
    settings = TrainingSettings(batch_tokens=200_000, precision=precision, learning_rate=0.001)
    large = [(40 + 7 * row, 300 - 11 * row) for row in range(9)]
    batches = [batch_of(SIZES * 4), batch_of(large), batch_of(large[:2] + SIZES), batch_of(large[4:])]
    shape = PictureShape(captured_stem(model_of(**tree)), corpus_size(batches), settings.batch_tokens)  # type: ignore[arg-type]
    assert all(batch.target.layout.total <= shape.target_tokens for batch in batches)
    losses: list[list[float]] = []
    weights = None
    for kind in (CudaGraphUpdate, PlainUpdate):
        torch.manual_seed(1)
        model = model_of(**tree).cuda()
        weights = weights or {name: value.clone() for name, value in model.state_dict().items()}
        model.load_state_dict(weights)
        context = TrainingContext(settings, device=torch.device("cuda"))
        optimizer = make_optimizer(model, settings)
        more = (corpus_size(batches),) if kind is CudaGraphUpdate else ()
        update = kind(model, optimizer, context, *more)
        losses.append([])
        for step in range(24):
            steps = StepBatches.of([batches[step % 4]])
            result = update(steps, learning_rate=0.001, sampling_probability=0.0)
            losses[-1].append(result.statistics().loss)
        if kind is CudaGraphUpdate:
            assert all(recorded.graph is not None for recorded in update.recorder.graphs.values())
    assert losses[0] == pytest.approx(losses[1], rel=0.03 if precision == "bf16" else 0.005)
    assert np.mean(losses[0][-4:]) < np.mean(losses[0][:4])
