"""A recipe's model at given sizes."""

from __future__ import annotations

from typing import Any

import pytest
import torch

from weft.apps.bench import workloads
from weft.apps.bench.flops import attention_flops, training_flops
from weft.apps.bench.scale import measure_scale
from weft.apps.bench.sizes import Sizes
from weft.apps.bench.sweep import MemoryExhaustedError
from weft.apps.bench.workloads import EncoderWorkload, StepWorkload, UpdateWorkload, memory_errors, random_batch
from weft.errors import InputTooLongError, RecipeError
from weft.models.build import build_model
from weft.recipe import Recipe, make_recipe, shipped
from weft.recipe.loading import load_recipe
from weft.text.specials import END

CPU = torch.device("cpu")
SIZES = Sizes(source_length=7, target_length=5, batch=3, beam=2, vocabulary=53)
TRANSFORMER = {"kind": "transformer", "layers": 2, "hidden": 8, "heads": 2, "feed_forward": 12}
MODELS: dict[str, dict[str, Any]] = {
    "lstm": {"embedding": 5, "encoder": {"hidden": 6}, "decoder": {"hidden": 6}},
    "transformer": {"embedding": 8, "encoder": TRANSFORMER, "decoder": TRANSFORMER},
    "language model": {"kind": "language_model", "embedding": 5, "decoder": {"hidden": 6}},
    "two columns": {"embedding": 5, "encoder": {"hidden": 6}, "decoder": {"hidden": 6}, "sources": {"count": 2}},
}


def recipe(model: str, **training: Any) -> Recipe:
    return make_recipe({"model": MODELS[model], "training": {"device": "cpu", **training}})


@pytest.mark.parametrize("name", MODELS)
def test_every_phase_of_every_kind_of_model(name: str) -> None:
    made = recipe(name)
    kinds = [UpdateWorkload, EncoderWorkload, StepWorkload]
    for workload in [
        kind(made, CPU, SIZES.vocabulary) for kind in kinds if made.model.has_source or "Enc" not in str(kind)
    ]:
        case = workload.case(SIZES)
        case.run()
        memory = case.memory()
        work = case.work()
        assert workload.precision == "fp32" and workload.parameters > 500 and work.flops > 0 and work.bytes > 0
        assert memory is None or memory >= 4 * workload.parameters


def test_the_operations_of_an_update_and_of_a_step() -> None:
    made = recipe("transformer")
    model = build_model(made.model, source_size=53, target_size=53)
    work = UpdateWorkload(made, CPU, 53).case(SIZES).work()
    attention = 3 * attention_flops(made.model, source=7, target=5)
    assert work.flops == training_flops(model, source=21, target=15) + 3 * attention
    step = StepWorkload(made, CPU, 53).case(SIZES).work()
    queries = 2 * 4 * 8 * (7 + 3)  # layers, width, and the keys: seven of the source, three of the history on average
    assert step.flops == training_flops(model, source=0, target=6) / 3 + 6 * queries


def test_updates_change_no_weight() -> None:
    workload = UpdateWorkload(recipe("lstm"), CPU, 53)
    before = [parameter.clone() for parameter in workload.models.get(53).parameters()]
    case = workload.case(SIZES)
    case.run()
    assert all(map(torch.equal, before, workload.models.get(53).parameters()))


def test_a_search_takes_all_its_steps(monkeypatch: pytest.MonkeyPatch) -> None:
    workload = StepWorkload(recipe("lstm"), CPU, 53)
    model, steps = workload.model(53), []
    original = model.step
    monkeypatch.setattr(model, "step", lambda *arguments: steps.append(len(arguments[0])) or original(*arguments))
    case = workload.case(SIZES)
    case.run()
    assert steps == [6] * 5 and case.units == 5


def test_rows_of_a_batch() -> None:
    batch = random_batch(recipe("two columns"), SIZES)
    rows_BS = batch.source.values.view(3, 7)
    assert (rows_BS == END).sum(1).tolist() == [2, 2, 2] and (rows_BS[:, -1] == END).all()
    assert (batch.target.values.view(3, 5) == END).sum(1).tolist() == [1, 1, 1]
    assert random_batch(recipe("language model"), SIZES).source.lengths.tolist() == [0, 0, 0]


def test_more_tokens_than_positions() -> None:
    learned = {**TRANSFORMER, "positions": "learned", "max_positions": 20}
    made = make_recipe({"data": {"max_length": 9}, "model": {**MODELS["transformer"], "decoder": learned}})
    for workload in (UpdateWorkload(made, CPU, 53), StepWorkload(made, CPU, 53)):
        with pytest.raises(InputTooLongError, match="a target of 21 tokens: this model has 20 positions"):
            workload.case(SIZES._replace(target_length=21))


def test_memory_that_is_exhausted(monkeypatch: pytest.MonkeyPatch) -> None:
    for error in (
        torch.OutOfMemoryError("CUDA out of memory"),
        RuntimeError("DefaultCPUAllocator: can't allocate memory"),
    ):
        with pytest.raises(MemoryExhaustedError), memory_errors():
            raise error
    with pytest.raises(RuntimeError, match="another"), memory_errors():
        raise RuntimeError("another")
    workload = UpdateWorkload(recipe("lstm"), CPU, 53)
    monkeypatch.setattr(workloads, "device_memory", lambda device: 1000)
    with pytest.raises(MemoryExhaustedError, match="for weights"):
        workload.case(SIZES._replace(vocabulary=1000))


@pytest.mark.slow
@pytest.mark.parametrize("name", shipped())
def test_every_recipe(name: str) -> None:
    made = load_recipe(name, ["training.device=cpu"])
    if made.model.stem.kind != "none":
        with pytest.raises(RecipeError, match="no length in tokens"):
            measure_scale(made)
        return
    for kind in (UpdateWorkload, EncoderWorkload, StepWorkload):
        case = kind(made, CPU, 50).case(SIZES._replace(vocabulary=50))
        case.run()
        case.memory()
        assert case.work().flops > 0
