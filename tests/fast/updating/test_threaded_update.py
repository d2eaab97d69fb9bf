"""An update in shares: equal to the plain one, deterministic, and only where it may be used."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator
from typing import Any

import pytest
import torch

from weft.data.batching.batches import StepBatches
from weft.data.store.token_store import Batch, CorpusSize
from weft.fast.updating import threaded_update
from weft.fast.updating.threaded_update import MAX_SHARES, ThreadedUpdate
from weft.models.build import build_model
from weft.models.interface import Model
from weft.ragged import Ragged
from weft.recipe import ModelSettings, TrainingSettings
from weft.training.distributed import Workers
from weft.training.loss import Loss
from weft.training.optimizer import make_optimizer
from weft.training.update import PlainUpdate, TrainingContext, UpdateStatistics, make_update

STACK = {"kind": "transformer", "layers": 2, "hidden": 6, "heads": 2, "feed_forward": 7}
MODELS = {
    "transformer": {"encoder": STACK, "decoder": STACK},
    "lstm": {
        "encoder": {"kind": "lstm", "hidden": 6},
        "decoder": {"kind": "lstm", "hidden": 6, "input_feeding": True},
        "attention": {"score": "general"},
    },
    "prefix": {"kind": "prefix_lm", "decoder": STACK},
    "attention dropout": {"encoder": {**STACK, "attention_dropout": 0.1}, "decoder": STACK},
}
BATCH = Batch(
    Ragged.of([[9, 2], [3, 7, 2], [5, 4, 2], [8, 6, 3, 2], [4, 2]]),
    Ragged.of([[3, 2], [7, 2], [4, 5, 2], [6, 8, 10, 2], [4, 4, 5, 3, 2]]),
)
CORPUS_SIZE = CorpusSize(5, 14, 16, 4, 5)
both = pytest.mark.parametrize("name", ["transformer", "lstm"])


@pytest.fixture(autouse=True)
def small_shares(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    monkeypatch.setattr(threaded_update, "MIN_SHARE_PRODUCTS", 1)
    cores = torch.get_num_threads()
    torch.set_num_threads(1)  # outside the shares
    yield
    torch.set_num_threads(cores)


def build(name: str, dropout: float = 0.0) -> Model:
    torch.manual_seed(1)
    tree = {"embedding": 6, "dropout": dropout, **MODELS[name]}
    return build_model(ModelSettings.model_validate(tree), source_size=11, target_size=13).train()


def context(**changes: object) -> TrainingContext:
    return TrainingContext(TrainingSettings(**{"label_smoothing": 0.1, "clip": 0.5, "optimizer": "sgd", **changes}))


def make(kind: type[PlainUpdate], model: Model, used: TrainingContext) -> PlainUpdate:
    optimizer = make_optimizer(model, used.settings)
    if kind is PlainUpdate:
        return PlainUpdate(model, optimizer, used)
    update = ThreadedUpdate(model, optimizer, used, CORPUS_SIZE)
    update.cores = 2
    return update


def chosen(model: Model, used: TrainingContext) -> type[object]:
    """The update that is chosen for a run."""
    return type(make_update(model, make_optimizer(model, used.settings), used, CORPUS_SIZE))


def train(kind: type[PlainUpdate], model: Model, batches: list[Batch], steps: int = 2) -> list[UpdateStatistics]:
    update = make(kind, model, context(accumulate=len(batches)))
    torch.manual_seed(2)
    step = StepBatches.of(batches)
    return [update(step, learning_rate=0.1, sampling_probability=0.0).statistics() for _ in range(steps)]


@both
def test_equals_the_plain_update_with_a_teacher(name: str) -> None:
    results = []
    for kind in (PlainUpdate, ThreadedUpdate):
        model, teacher = build(name), build("lstm").eval()
        used = dataclasses.replace(context(distillation=0.5), teacher=teacher)
        update = make(kind, model, used)(StepBatches.of([BATCH]), learning_rate=0.1, sampling_probability=0.0)
        results.append((update.statistics(), dict(model.named_parameters())))
    (expected, plain), (found, threaded) = results
    assert found == pytest.approx(expected, rel=1e-5)
    torch.testing.assert_close(threaded, plain)


@pytest.mark.skipif(not hasattr(torch.backends.mkldnn, "matmul"), reason="a PyTorch without the switch")
@pytest.mark.parametrize("cores", [1, 2, MAX_SHARES + 1])
def test_products_by_onednn_in_the_update_alone(cores: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """Tiny ones, which it leaves to others: results are the same."""
    plain, threaded = build("lstm"), build("lstm")
    expected = train(PlainUpdate, plain, [BATCH])
    monkeypatch.setattr(threaded_update, "gains_by_onednn", lambda model: True)
    monkeypatch.setattr(torch, "get_num_threads", lambda: cores)
    assert chosen(threaded, context()) is ThreadedUpdate
    update = ThreadedUpdate(threaded, make_optimizer(threaded, context().settings), context(), CORPUS_SIZE)
    assert update.cores == (1 if cores > MAX_SHARES else cores)
    modes = []
    computed = update.loss

    def loss(*arguments: Any) -> Loss:
        modes.append(torch.backends.mkldnn.matmul.fp32_precision)
        return computed(*arguments)

    monkeypatch.setattr(update, "loss", loss)
    torch.manual_seed(2)
    step = StepBatches.of([BATCH])
    before = torch.backends.mkldnn.matmul.fp32_precision
    for values in expected:
        found = update(step, learning_rate=0.1, sampling_probability=0.0).statistics()
        assert found == pytest.approx(values, rel=1e-3)
        assert torch.backends.mkldnn.matmul.fp32_precision == before
    assert set(modes) == {"bf16"}


@both
@pytest.mark.parametrize("count", [1, 2])
def test_equals_the_plain_update(name: str, count: int) -> None:
    plain, threaded = build(name), build(name)
    expected = train(PlainUpdate, plain, [BATCH] * count)
    assert train(ThreadedUpdate, threaded, [BATCH] * count) == [pytest.approx(values, rel=1e-5) for values in expected]
    torch.testing.assert_close(dict(threaded.named_parameters()), dict(plain.named_parameters()))


@both
def test_is_deterministic_and_draws_dropout_from_the_generator_of_the_process(name: str) -> None:
    models = [build(name, dropout=0.4) for _ in range(2)]
    first, second = (train(ThreadedUpdate, model, [BATCH], steps=3) for model in models)
    assert first == second
    state = torch.get_rng_state()
    for one, other in zip(models[0].parameters(), models[1].parameters(), strict=True):
        assert torch.equal(one, other)
    update = make(ThreadedUpdate, models[0], context())
    losses = []
    for _ in range(2):  # as after --resume
        torch.set_rng_state(state)
        losses.append(update(StepBatches.of([BATCH]), learning_rate=0.0, sampling_probability=0.0).statistics())
    assert losses[0] == losses[1] != update(StepBatches.of([BATCH]), learning_rate=0.0, sampling_probability=0.0)


@both
def test_two_passes_of_consistency(name: str) -> None:
    """Without dropout the result of the plain update; with it, deterministic masks that differ between the passes."""
    losses, weights = [], []
    for kind, dropout in ((PlainUpdate, 0.0), (ThreadedUpdate, 0.0), (ThreadedUpdate, 0.4), (ThreadedUpdate, 0.4)):
        model = build(name, dropout)
        update = make(kind, model, context(consistency=5.0))
        torch.manual_seed(2)
        statistics = update(StepBatches.of([BATCH]), learning_rate=0.1, sampling_probability=0.0).statistics()
        losses.append([*statistics])
        weights.append([parameter.detach() for parameter in model.parameters()])
    assert losses[0] == pytest.approx(losses[1], rel=1e-4) and losses[2] == losses[3] != losses[1]
    torch.testing.assert_close(weights[0], weights[1])
    assert all(map(torch.equal, weights[2], weights[3]))


def test_shares_have_all_rows() -> None:
    parts = BATCH.divided(2)
    assert [part.target.lengths.tolist() for part in parts] == [[2, 3, 5], [2, 4]]
    assert [part.source.lengths.tolist() for part in parts] == [[2, 3, 2], [3, 4]]


def test_an_error_in_a_share_is_raised() -> None:
    model = build("transformer")
    update = make(ThreadedUpdate, model, context())
    bad = Batch(BATCH.source, BATCH.target.map(lambda ids: ids + 90))
    with pytest.raises(IndexError):
        update(StepBatches.of([bad]), learning_rate=0.1, sampling_probability=0.0)


def test_where_it_is_used(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(torch, "get_num_threads", lambda: 2)
    model = build("transformer")
    assert chosen(model, context()) is ThreadedUpdate
    assert chosen(build("lstm"), context()) is ThreadedUpdate
    assert chosen(build("prefix"), context()) is PlainUpdate
    assert chosen(build("attention dropout"), context()) is PlainUpdate
    assert chosen(model, context(forcing="scheduled")) is PlainUpdate
    assert chosen(model, TrainingContext(context().settings, workers=Workers(0, 2))) is PlainUpdate
    on_meta = TrainingContext(context().settings, device=torch.device("meta"))
    assert chosen(model, on_meta) is PlainUpdate
    for cores in (1, MAX_SHARES + 1):
        monkeypatch.setattr(torch, "get_num_threads", lambda cores=cores: cores)
        assert chosen(model, context()) is PlainUpdate
    assert chosen(model, context()) is PlainUpdate


def test_small_batches_are_not_divided(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(threaded_update, "MIN_SHARE_PRODUCTS", 1 << 32)
    monkeypatch.setattr(ThreadedUpdate, "_share", None)
    train(ThreadedUpdate, build("transformer"), [BATCH])
