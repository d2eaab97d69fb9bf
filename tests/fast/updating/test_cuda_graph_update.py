"""Batches padded to a static shape, without a GPU; on one, updates are compared in tests/contracts/test_gpu.py."""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from fixtures.simulated_graphs import simulate_graphs
from weft.data.batching.batches import Position, StepBatches, StoredCorpus, side_budgets
from weft.data.store.token_store import Batch, PairStore, TokenStore
from weft.errors import DataError, WeftWarning
from weft.fast.recording.recorder import Recorder
from weft.fast.updating import cuda_graph_update
from weft.fast.updating.cuda_graph_update import (
    COMPILE_SECONDS,
    WARMUP_UPDATES,
    CudaGraphUpdate,
    can_capture,
    layers_to_compile,
    linear_weights,
    should_compile,
    static_shape,
)
from weft.fast.updating.static_sides import StaticSide, pad, padded_rows
from weft.models.build import build_model
from weft.models.interface import Model
from weft.ragged import Layout, Ragged
from weft.recipe import ModelSettings, TrainingSettings
from weft.training.optimizer import make_optimizer
from weft.training.update import PlainUpdate, TrainingContext, UpdateStatistics, decide_compilation

quick = settings(deadline=None, max_examples=50)
CPU, CUDA = torch.device("cpu"), torch.device("cuda")
LENGTHS = st.lists(st.tuples(st.integers(1, 13), st.integers(1, 13)), min_size=1, max_size=50)
either = pytest.mark.parametrize("recurrent", [False, True], ids=["attention", "recurrence"])
STACK = {"kind": "transformer", "layers": 1, "hidden": 6, "heads": 2, "feed_forward": 7}


def corpus(lengths: list[tuple[int, int]]) -> PairStore:
    return PairStore(
        TokenStore.of([3] * source for source, _ in lengths), TokenStore.of([4] * target for _, target in lengths)
    )


def epoch_of(pairs: PairStore, budget: int, epoch: int) -> Iterator[Batch]:
    """All batches of an epoch."""
    stream = StoredCorpus(pairs).batches(budget, seed=1, start=Position(epoch=epoch))
    while stream.position.epoch == epoch:
        [planned] = stream.take(1, 1)
        yield planned.make()


def transformer(**tree: object) -> Model:
    given = {"embedding": 6, "encoder": STACK, "decoder": STACK, **tree}
    return build_model(ModelSettings.model_validate(given), source_size=11, target_size=13)


@either
def test_a_frame_by_hand(recurrent: bool) -> None:
    pairs = corpus([(4, 8), (2, 3), (5, 11)])  # 11 and 22 tokens
    assert static_shape(pairs.corpus_size, 100, recurrent=recurrent)[:4] == (53, 100, 5, 11)
    assert static_shape(pairs.corpus_size, 6400, recurrent=recurrent)[:4] == (3360, 6400, 5, 11)


@either
def test_a_row_over_the_budget_sets_the_shape(recurrent: bool) -> None:
    assert static_shape(corpus([(4, 8), (30, 3), (3, 50)]).corpus_size, 20, recurrent=recurrent)[:4] == (30, 50, 30, 50)


@either
def test_the_shape_of_an_empty_corpus_holds_a_token(recurrent: bool) -> None:
    assert min(static_shape(corpus([]).corpus_size, 20, recurrent=recurrent)[:5]) >= 1


@quick
@given(LENGTHS, st.integers(1, 40), st.integers(0, 3), st.booleans())
def test_every_batch_of_an_epoch_fits_the_static_shape(
    lengths: list[tuple[int, int]], budget: int, epoch: int, recurrent: bool
) -> None:
    """Padded, it has just that shape: all of its tokens, no row above the bucket, as many rows as its key."""
    pairs = corpus(lengths)
    shape = static_shape(pairs.corpus_size, budget, recurrent=recurrent)
    assert all(own >= least for own, least in zip(shape[:2], side_budgets(pairs.corpus_size, budget), strict=True))
    for batch in epoch_of(pairs, budget, epoch):
        key = shape.key(batch)
        assert key.rows % shape.row_multiple == 0
        for own, tokens, longest in (
            (batch.source.lengths, shape.source_tokens, key.max_source_length),
            (batch.target.lengths, shape.target_tokens, key.max_target_length),
        ):
            found = StaticSide(tokens, longest, key.rows, CPU).padded_lengths(own)
            assert len(found) == key.rows >= padded_rows(own, tokens, longest)
            assert int(found.sum()) == tokens and int(found.max()) <= longest
            assert found[: len(own)].tolist() == own.tolist() and int(found.min()) >= 0


def test_buckets_keep_to_learned_positions() -> None:
    """Rows of at most 12 tokens, as many as were learned: a padded batch can be embedded."""
    learned = {**STACK, "positions": "learned", "max_positions": 12}
    model = transformer(encoder=learned, decoder=learned)
    pairs = corpus([(12, 12), (3, 5)])
    shape = static_shape(pairs.corpus_size, 40, recurrent=False)
    key = shape.key(pairs.batch(np.array([1])))
    assert (key.max_source_length, key.max_target_length) == (12, 12), "not the bucket of 16"
    source = StaticSide(shape.source_tokens, key.max_source_length, key.rows, CPU).ragged()
    target = StaticSide(shape.target_tokens, key.max_target_length, key.rows, CPU).ragged()
    states_ND = model.hidden_states(source, target).states.values
    assert len(states_ND) == shape.target_tokens and bool(states_ND.isfinite().all())
    with pytest.raises(DataError, match="a sequence of 16 tokens"):
        model.hidden_states(StaticSide(shape.source_tokens, 16, key.rows, CPU).ragged(), target)


def test_a_bound_stands_for_the_longest_row() -> None:
    assert Layout(torch.tensor([2, 3]), longest=9).longest == 9
    assert Layout(torch.tensor([2, 3])).longest == 3


def test_the_shape_of_a_language_model_has_no_source() -> None:
    pairs = corpus([(0, 8), (0, 3), (0, 11)])
    shape = static_shape(pairs.corpus_size, 40, recurrent=False)
    assert shape[:4] == (0, 40, 0, 11)
    key = shape.key(pairs.batch(np.array([0, 1])))
    assert (key.max_source_length, key.max_target_length) == (0, 11)
    side = StaticSide(shape.source_tokens, key.max_source_length, key.rows, CPU)
    assert side.padded_lengths(torch.zeros(2, dtype=torch.int64)).tolist() == [0] * key.rows
    assert side.ragged().layout.total == 0


RECURRENT = {"hidden": 6, "kind": "lstm", "layers": 2}
PADDED = {
    "prefix": {"kind": "prefix_lm"},
    "prefix, rotary": {"kind": "prefix_lm", "decoder": {**STACK, "heads": 3, "positions": "rotary"}},
    "prefix, relative": {"kind": "prefix_lm", "decoder": {**STACK, "positions": "relative"}},
    "prefix, learned": {"kind": "prefix_lm", "decoder": {**STACK, "positions": "learned", "max_positions": 26}},
    "lm": {"kind": "language_model"},
    "prompts": {"kind": "language_model"},
    "prompts, alibi": {"kind": "language_model", "decoder": {**STACK, "positions": "alibi"}},
    "recurrent": {"kind": "language_model", "decoder": RECURRENT, "attention": {"score": "general"}},
    "recurrent prompts": {"kind": "language_model", "decoder": RECURRENT, "attention": {"score": "general"}},
}


@pytest.mark.parametrize("name", PADDED)
def test_padding_changes_neither_states_nor_gradients(name: str) -> None:
    """Twice in the same static memory: nothing of the first batch is left in the second."""
    model = transformer(**PADDED[name], dropout=0.0).double()
    with_source = "prefix" in name or "prompts" in name
    lengths = [(3 * with_source, 4), (5 * with_source, 1), (1 * with_source, 7), (13 * with_source, 13)]
    pairs = PairStore(
        TokenStore.of([3 + (row + place) % 7 for place in range(source)] for row, (source, _) in enumerate(lengths)),
        TokenStore.of([4 + (row * place) % 6 for place in range(target)] for row, (_, target) in enumerate(lengths)),
    )
    shape = static_shape(pairs.corpus_size, 40, recurrent="recurrent" in name)
    rows = shape.key(pairs.batch(np.array([0, 1, 2]))).rows
    key = shape.key(pairs.batch(np.array([3])))._replace(rows=rows)
    source = StaticSide(shape.source_tokens, key.max_source_length, key.rows, CPU)
    inputs = StaticSide(shape.target_tokens, key.max_target_length, key.rows, CPU)
    for numbers in ([3], [0, 1, 2]):
        batch = pairs.batch(np.array(numbers))
        given_inputs = batch.target.shifted(1)
        for side, ragged in ((source, batch.source), (inputs, given_inputs)):
            side.layout.assign(side.padded_lengths(ragged.lengths))
            side.values.copy_(pad(ragged.values, side.tokens, 1))
        plain_ND = model.hidden_states(batch.source, given_inputs).states.values
        padded_ND = model.hidden_states(source.ragged(), inputs.ragged()).states.values[: len(plain_ND)]
        torch.testing.assert_close(padded_ND, plain_ND)
        parameters = [parameter for key, parameter in model.named_parameters() if not key.startswith("output")]
        found, expected = (torch.autograd.grad((states_ND**2).sum(), parameters) for states_ND in (padded_ND, plain_ND))
        torch.testing.assert_close(found, expected)


class TestWhatCanBeCaptured:
    @pytest.mark.parametrize(
        ("model", "training", "expected"),
        [
            ({}, {}, True),
            ({}, {"optimizer": "adam"}, True),
            ({"encoder": {**STACK, "kind": "attention"}}, {}, True),
            ({"encoder": {"hidden": 6}, "decoder": {"hidden": 6}}, {}, True),
            ({"encoder": {"hidden": 6}, "decoder": {"hidden": 6}, "attention": {"hard": "first"}}, {}, True),
            ({}, {"optimizer": "sgd"}, False),
            ({}, {"accumulate": 2}, False),
            ({}, {"forcing": "scheduled"}, False),
            ({}, {"forcing": "free"}, False),
            ({}, {"consistency": 5.0}, True),
            ({}, {"ema": 0.99, "word_dropout": 0.1, "choose": "last"}, True),
            ({}, {"distillation": 0.5}, False),
            ({"encoder": {"hidden": 6, "bidirectional": False, "reverse_source": True}}, {}, False),
            ({"kind": "prefix_lm"}, {}, True),
            ({"kind": "language_model"}, {}, True),
            ({"kind": "language_model", "decoder": {"hidden": 6}}, {}, True),
            ({"kind": "language_model"}, {"accumulate": 2}, False),
        ],
    )
    def test_on_a_gpu(self, model: dict[str, object], training: dict[str, object], expected: bool) -> None:
        built, settings_ = transformer(**model), TrainingSettings(**training)
        assert can_capture(built, settings_, CUDA) is expected
        assert not can_capture(built, settings_, CPU)


def test_long_runs_are_compiled() -> None:
    """Unless all layers have kernels of their own."""
    stack = {**STACK, "hidden": 32, "heads": 2, "activation": "relu"}
    published = transformer(encoder=stack, decoder=stack)
    other = {**stack, "activation": "silu"}
    small = transformer(encoder=other, decoder=other)
    assert not should_compile(published, TrainingSettings(steps=10**12))
    assert should_compile(published, TrainingSettings(steps=10**12, precision="tf32"))
    assert not layers_to_compile(published, TrainingSettings(compile="on"))
    assert len(layers_to_compile(small, TrainingSettings())) == 2
    assert not should_compile(small, TrainingSettings(steps=100_000))
    assert should_compile(small, TrainingSettings(steps=10**12))
    assert should_compile(small, TrainingSettings(compile="on"))
    assert not should_compile(small, TrainingSettings(compile="off", steps=10**12))


def test_weights_that_are_converted_together() -> None:
    """Those of linear maps in layers with kernels: not of norms, embeddings, or layers without."""
    stack = STACK | {"hidden": 32}
    model = transformer(embedding=32, encoder=stack, decoder=stack | {"activation": "gelu"})
    names = {id(parameter): name for name, parameter in model.named_parameters()}
    parts = ("self_attention.query_key_value", "self_attention.output", "feed_forward.linear1", "feed_forward.linear2")
    expected = {f"encoder.stack.layers.0.{part}.{kind}" for part in parts for kind in ("weight", "bias")}
    assert {names[id(weight)] for weight in linear_weights(model)} == expected


@pytest.mark.parametrize(
    ("setting", "pays", "seconds", "expected"),
    [
        ("auto", True, COMPILE_SECONDS + 1, "on"),
        ("auto", True, COMPILE_SECONDS, "off"),
        ("auto", False, COMPILE_SECONDS + 1, "off"),
        ("off", True, COMPILE_SECONDS + 1, "off"),
        ("on", False, 1.0, "on"),
    ],
)
def test_whether_to_compile_is_decided_with_all_steps(
    monkeypatch: pytest.MonkeyPatch, setting: str, pays: bool, seconds: float, expected: str
) -> None:
    """Before a time limit reduces them."""
    monkeypatch.setattr(cuda_graph_update, "should_compile", lambda *_: pays)
    settings_, model = TrainingSettings(compile=setting), transformer()
    assert decide_compilation.plain(settings_, model, CUDA, seconds) == settings_  # type: ignore[attr-defined]
    assert not cuda_graph_update.is_undecided(settings_, model, CPU, seconds)
    if cuda_graph_update.is_undecided(settings_, model, CUDA, seconds):
        settings_ = cuda_graph_update.decide_compilation(settings_, model, CUDA, seconds)
    assert settings_.compile == expected


def failing_update(error: Exception, monkeypatch: pytest.MonkeyPatch) -> CudaGraphUpdate:
    """An update on a CPU whose capture fails."""
    monkeypatch.setattr(torch.cuda, "synchronize", lambda device: None)
    model, settings = transformer(dropout=0.0), TrainingSettings(optimizer="adam")
    update = CudaGraphUpdate.__new__(CudaGraphUpdate)
    PlainUpdate.__init__(update, model, make_optimizer(model, settings), TrainingContext(settings))
    update.device, update.captures, update.recorder = CPU, True, Recorder(math.inf)

    def fail(batches: StepBatches, learning_rate: float) -> None:
        raise error

    monkeypatch.setattr(update, "_captured_update", fail)
    return update


ONE = StepBatches.of([Batch(Ragged.of([[3, 2], [4, 2]]), Ragged.of([[5, 2], [6, 2]]))])


def test_without_memory_for_graphs_updates_are_plain(monkeypatch: pytest.MonkeyPatch) -> None:
    """Said once; results are those of a plain update."""
    update = failing_update(torch.OutOfMemoryError(), monkeypatch)
    model, settings = transformer(dropout=0.0), TrainingSettings(optimizer="adam")
    model.load_state_dict(update.model.state_dict())
    plain = PlainUpdate(model, make_optimizer(model, settings), TrainingContext(settings))
    with pytest.warns(WeftWarning) as warned:
        for _ in range(2):
            found = update(ONE, learning_rate=0.1, sampling_probability=0.0)
            expected = plain(ONE, learning_rate=0.1, sampling_probability=0.0)
            assert not found.deferred and found.statistics() == expected.statistics()
    assert [str(one.message) for one in warned] == [
        "training: not enough memory for CUDA graphs; continuing without them, more slowly, with the same results"
    ]
    assert not update.captures


@pytest.mark.parametrize("error", [ValueError("bad"), torch.OutOfMemoryError("none")])
def test_other_errors_and_a_fixed_size_are_raised(error: Exception, monkeypatch: pytest.MonkeyPatch) -> None:
    update = failing_update(error, monkeypatch)
    update.can_divide = isinstance(error, ValueError)
    with pytest.raises(type(error)):
        update(ONE, learning_rate=0.1, sampling_probability=0.0)
    assert update.captures


@either
@quick
@given(LENGTHS, st.integers(1, 200))
def test_likely_keys_hold_the_tokens_of_a_batch(recurrent: bool, lengths: list[tuple[int, int]], budget: int) -> None:
    """Batches whose sides have equally long rows need no other lengths."""
    longer = [(13 * source, 13 * target) for source, target in lengths]
    shape = static_shape(corpus(longer).corpus_size, budget, recurrent=recurrent)
    keys = shape.likely_keys()
    assert len(keys) == len(set(keys))
    for key in keys:
        assert key.rows * key.max_source_length >= shape.source_tokens
        assert key.rows * key.max_target_length >= shape.target_tokens
    for _, target in longer:
        length = min(target, shape.max_source_length)
        [batch] = [corpus([(length, min(target, length))]).batch(np.array([0]))]
        key = shape.key(batch)
        assert key[1] in {likely[1] for likely in keys} and key[2] in {likely[2] for likely in keys}


RECURRENT = {"kind": "gru", "layers": 1, "hidden": 6}


@pytest.mark.parametrize("consistency", [0.0, 2.0], ids=["one pass", "R-Drop"])
@pytest.mark.parametrize("stack", [STACK, RECURRENT], ids=["attention", "recurrence"])
def test_replayed_updates_are_plain_ones(
    stack: dict[str, Any], consistency: float, monkeypatch: pytest.MonkeyPatch
) -> None:
    """On a simulated GPU: warm-up, captures of several shapes, replays; all losses are those of plain updates."""
    log = simulate_graphs(monkeypatch)
    monkeypatch.setattr(torch.Tensor, "pin_memory", lambda tensor: tensor)
    monkeypatch.setattr(cuda_graph_update, "copy_to_host", lambda statistics: lambda: UpdateStatistics(*statistics))
    monkeypatch.setattr(cuda_graph_update, "maybe_mark_dynamic", lambda *_: None)
    settings = TrainingSettings(
        optimizer="adam", batch_tokens=40, precision="fp32", compile="off", consistency=consistency
    )
    pairs = corpus([(4, 8), (9, 3), (5, 20), (2, 2)])
    models = [transformer(dropout=0.0, encoder=stack, decoder=stack) for _ in range(2)]
    models[1].load_state_dict(models[0].state_dict())
    captured, plain = models
    context = TrainingContext(settings)
    rehearsed: list[object] = []
    monkeypatch.setattr(cuda_graph_update, "rehearse", lambda function: rehearsed.append(function()))
    update = CudaGraphUpdate(captured, make_optimizer(captured, settings), context, pairs.corpus_size)
    assert len(rehearsed) == len(update.shape.likely_keys()) > 0
    assert all(parameter.grad is None for parameter in captured.parameters())
    expected = PlainUpdate(plain, make_optimizer(plain, settings), context)
    for step in range(12):
        batches = StepBatches.of([pairs.batch(np.array([[0, 3], [2, 3]][step % 2]))])
        losses = []
        for each in (update, expected):
            result = each(batches, learning_rate=0.01 / (1 + step), sampling_probability=0.0)
            losses.append(float(result.statistics().loss))
        assert losses[0] == pytest.approx(losses[1], rel=1e-3)
    graphs = [recorded.graph for recorded in update.recorder.graphs.values()]
    assert len(graphs) == 2 and None not in graphs
    assert log.count("begin global pool 0") == 2 and log.count("replay") == 12 - WARMUP_UPDATES
