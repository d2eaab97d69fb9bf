"""The costs of a worker's own model: lengths, declared bytes beside allocated ones, and the end of computations."""

from __future__ import annotations

import base64
import threading
from collections import deque
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from torch.profiler import ProfilerActivity, profile

import weft
from weft.apps.serve import operations
from weft.apps.serve.costs import Cost, CostError, Lengths
from weft.apps.serve.observation import Abandoned
from weft.apps.serve.worker_limits import (
    KEPT_SPEEDS,
    Cancellation,
    CostControl,
    Speeds,
    longest_output,
    lower_priority,
    model_shape,
    operation_lengths,
    source_size,
    stem_costs,
)
from weft.data.arrays.png import png_bytes
from weft.recipe.stem import StemSettings
from weft.training.train import train
from weft.translation.translator import Translator

QUEUES = ("batch", "long")


@pytest.fixture(scope="module")
def transformer(transformer_run: Path) -> Translator:
    return weft.load(transformer_run, device="cpu")


@pytest.fixture(scope="module")
def recurrent(recurrent_run: Path) -> Translator:
    return weft.load(recurrent_run, device="cpu")


def payload_of(translator: Translator, text: str, **search: Any) -> dict[str, Any]:
    return {"texts": [text], "search": {**translator.recipe.search.model_dump(), **search}, "n_best": 1}


def test_sizes(transformer: Translator, recurrent: Translator) -> None:
    shape = model_shape(transformer)
    assert (shape.width, shape.feed_forward, shape.layers, shape.decoder_layers) == (16, 16, 4, 2)
    assert not shape.recurrent and shape.heads["encoder"] == shape.heads["cross"] == (2, 2)
    assert shape.vocabulary == transformer.tokenizers.target.size and shape.parameters > 1_000
    assert model_shape(recurrent).recurrent and model_shape(recurrent).heads == {"cross": (1, 1)}


def test_lengths(transformer: Translator) -> None:
    """With the end token, as the model reads it."""
    assert source_size(transformer, "a b") == (3, 0)
    payload = payload_of(transformer, "a b", max_length=9)
    assert operation_lengths(transformer, "translate", payload) == [Lengths(3, 9, 3)]
    assert operation_lengths(transformer, "translate", {**payload, "prefix_ids": [5] * 7}) == [Lengths(3, 9, 7)]
    payload["search"]["min_length"] = 20
    assert operation_lengths(transformer, "stream", payload) == [Lengths(3, 9, 9)]
    assert operation_lengths(transformer, "heads", {**payload, "target": "a b c"}) == [Lengths(3, 4, 4)]
    assert operation_lengths(transformer, "heads", {**payload, "target_ids": [5, 6]}) == [Lengths(3, 3, 3)]
    assert operation_lengths(transformer, "score", {"pairs": [("a", "b c")]}) == [Lengths(2, 3, 3)]
    assert operation_lengths(transformer, "positions", {}) == []
    assert longest_output(transformer, 3, {"max_ratio": 2.0, "max_extra": 4}) == 10


def test_pictures(tiny: Any, tmp_path: Path) -> None:
    """A picture costs by its columns and its pixels, and not by its bytes; nobody waits for one that is decoded."""
    changes = {
        **{"data.train": "drawn-digits", "data.valid": "drawn-digits", "data.options": {}, "data.train_size": 8},
        **{"tokenizer.kind": "picture", "tokenizer.target_kind": "character", "tokenizer.joint": False},
        **{"model.stem.kind": "columns", "training.steps": 1, "training.validate_every": 0},
    }
    list(train(tiny(changes), tmp_path / "run"))
    translator = weft.load(tmp_path / "run", device="cpu")
    url = f"data:image/png;base64,{base64.b64encode(png_bytes(np.full((24, 80), 200, np.uint8))).decode()}"
    assert source_size(translator, url) == (20, 24 * 80) and source_size(translator, "") == (0, 0)
    [length] = operation_lengths(translator, "translate", payload_of(translator, url))
    shape = model_shape(translator)
    assert length.pixels == 24 * 80 and shape.stem == stem_costs(translator.recipe.model.stem)
    with_picture, without = shape.search([length], 1), shape.search([length._replace(pixels=0)], 1)
    assert with_picture.bytes - without.bytes == pytest.approx(4 * 24 * 80 * shape.stem[0])
    assert with_picture.multiplications - without.multiplications == pytest.approx(24 * 80 * shape.stem[1])
    with pytest.raises(Abandoned):
        operation_lengths(translator, "translate", payload_of(translator, url), lambda: True)


def test_the_cost_of_a_stem() -> None:
    """By hand, for two stages and for frames."""
    settings = StemSettings(kind="columns", inputs=3, widths=[5, 7], blocks=2, strides=[[2, 2], [2, 1]])
    numbers = max(2 * 3 + 6 / 4 * 5, 2 / 4 * 5 + 6 / 8 * 7)
    assert stem_costs(settings) == (numbers, 9 / 4 * 5 * (3 + 20) + 9 / 8 * 7 * (5 + 28))
    assert stem_costs(StemSettings(kind="frames", inputs=3, widths=[5], blocks=0)) == (2 * 3 + 3 * 5, 3 / 2 * 5 * 3)
    assert stem_costs(StemSettings()) == (0.0, 0.0)


def allocated(compute: Any) -> int:
    """The most bytes of tensors that a computation holds at a time: counted, so it depends on no other process."""
    compute()
    with profile(activities=[ProfilerActivity.CPU], profile_memory=True) as profiled:
        compute()
    events = profiled.profiler.kineto_results.events()
    changes = [event.nbytes() for event in events if event.name() == "[memory]"]
    held = most = 0
    for change in changes:
        held += change
        most = max(most, held)
    return most


@pytest.mark.parametrize("kind", ["transformer", "recurrent"])
@pytest.mark.parametrize(
    ("op", "search", "words"),
    [
        ("translate", {"kind": "greedy"}, 30),
        ("translate", {"kind": "beam", "size": 7}, 90),
        ("translate", {"kind": "beam", "size": 16, "min_length": 100, "max_length": 120, "no_loops": False}, 40),
        ("translate", {"kind": "sample"}, 200),
        ("score", {}, 150),
        ("heads", {"kind": "greedy"}, 100),
    ],
)
def test_no_more_is_allocated_than_was_declared(
    kind: str, op: str, search: dict[str, Any], words: int, request: pytest.FixtureRequest
) -> None:
    translator = request.getfixturevalue(kind)
    text = "a b c d e "[: 2 * (words % 5)] + "a b c d e " * (words // 5)
    payload = payload_of(translator, text, **search)
    if op == "score":
        payload = {"pairs": [(text, text)] * 3, "edits": None}
    compute = getattr(operations, op)
    declared = CostControl(translator, {}, None, QUEUES).declare(op, payload, "batch")
    assert allocated(lambda: compute(translator, payload)) < declared.bytes


def test_what_fits_waits_and_what_cannot_is_refused(transformer: Translator) -> None:
    control = CostControl(transformer, {"deadline": 5.0}, 2 * 9e6, QUEUES)
    small, large = payload_of(transformer, "a b"), payload_of(transformer, "a b c d e " * 80, size=64)
    assert control.run("translate", small, "batch", lambda: False, lambda: 7) == 7
    with pytest.raises(CostError, match=r"would need about .* MB; at most 9 MB are available"):
        control.run("translate", large, "batch", lambda: False, lambda: 7)
    control.speeds.latest["translate"] = deque([1.0])
    with pytest.raises(CostError, match="a request may take 5 seconds"):
        control.run("translate", small, "batch", lambda: False, lambda: 7)
    control.speeds.latest.clear()
    with control.budgets["batch"].reserve(9e6), pytest.raises(Abandoned):
        control.run("translate", small, "batch", lambda: True, lambda: 7)
    assert control.within(small, "long")["search"]["memory"] == 4.5e6
    assert CostControl(None, {}, None, QUEUES).declare("translate", large, "batch") == Cost(0, 0)


def test_pairs_are_scored_in_parts(transformer: Translator) -> None:
    """Of a quarter of the memory each; every part at least one pair, in order."""
    pairs = [["a b", "c " * count] for count in range(1, 9)]
    control = CostControl(transformer, {}, 2 * 60_000.0, QUEUES)
    parts = [part["pairs"] for part in control.parts_of_pairs({"pairs": pairs}, "batch")]
    assert [pair for part in parts for pair in part] == pairs and 1 < len(parts) < len(pairs)
    assert len(CostControl(transformer, {}, 2.0, QUEUES).parts_of_pairs({"pairs": pairs}, "batch")) == len(pairs)
    unlimited = CostControl(transformer, {}, None, QUEUES)
    assert unlimited.parts_of_pairs({"pairs": pairs}, "batch") == [{"pairs": pairs}]


@pytest.mark.parametrize("op", ["heads", "score", "translate"])
def test_computations_end_when_nobody_waits(op: str, transformer: Translator) -> None:
    """At one of the next functions of PyTorch; other threads go on."""
    calls = []

    def is_abandoned() -> bool:
        calls.append(threading.get_ident())
        return len(calls) > 20

    payload = payload_of(transformer, "a b c")
    payload = {"pairs": [("a", "b")], "edits": None} if op == "score" else payload
    with pytest.raises(Abandoned), Cancellation(is_abandoned):
        getattr(operations, op)(transformer, payload)
        torch.zeros(1).add_(1)
    assert {*calls} == {threading.get_ident()}
    assert torch.ones(1).item() == 1.0


def test_speeds() -> None:
    speeds = Speeds()
    speeds.measured("heads", Cost(0, 100), 0.01)
    assert speeds.get("heads") is None, "too short to tell"
    speeds.measured("heads", Cost(0, 300), 1.0)
    speeds.measured("heads", Cost(0, 100), 50.0)
    assert speeds.get("heads") == 300, "one slow operation is not believed"


def test_a_machine_that_stood_still() -> None:
    """A slow first operation does not refuse long ones forever, though all that follow are short."""
    speeds = Speeds()
    speeds.measured("heads", Cost(0, 100), 50.0)
    assert speeds.get("heads") == 2
    speeds.measured("heads", Cost(0, 100), 0.01)
    assert speeds.get("heads") == 10_000
    speeds.measured("heads", Cost(0, 10), 0.01)
    assert list(speeds.latest["heads"]) == [2, 10_000], "short operations count only if they are faster"


def test_a_machine_that_stays_slow() -> None:
    speeds = Speeds()
    for seconds in (1.0, *[10.0] * KEPT_SPEEDS):
        speeds.measured("heads", Cost(0, 100), seconds)
    assert speeds.get("heads") == 10


def test_the_priority_of_a_thread() -> None:
    """Where the system allows it, and of that thread alone."""
    thread = threading.Thread(target=lower_priority)
    thread.start()
    thread.join(60)
    assert not thread.is_alive()


def test_a_cancellation_restores_gradients() -> None:
    """Leaving ``torch.no_grad`` is a PyTorch function, too."""
    with pytest.raises(Abandoned), Cancellation(lambda: True), torch.no_grad():
        torch.zeros(1)
    assert torch.is_grad_enabled()
