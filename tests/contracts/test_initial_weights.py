"""The initial weights of every model: a seed gives the weights that earlier versions of weft gave it.

``fixtures/initial_weights.json`` has a few numbers of every parameter of the models of `test_models` and of the shipped
recipes, made small. Processors differ in the last digits of a weight, so the numbers are rounded. To record the models
that are new::

    python tests/contracts/test_initial_weights.py

and with ``--all`` those whose weights are meant to change, too.
"""

from __future__ import annotations

import json
import math
import sys
import zlib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

if __name__ == "__main__":
    sys.path.insert(0, str(Path(__file__).parents[1]))

from contracts.test_models import CASES, SOURCE_SIZE, TARGET_SIZE, loss_of
from weft.models.build import build_model
from weft.recipe import ModelSettings, load_recipe, shipped

RECORD = Path(__file__).parents[1] / "fixtures" / "initial_weights.json"
SEED = 11
SMALL = {
    **{"embedding": 6, "hidden": 8, "feed_forward": 7, "heads": 2, "key_value_heads": 1, "head_size": 4},
    **{"layers": 2, "size": 5, "max_positions": 9, "relative_buckets": 8, "location_filters": 2, "location_width": 3},
}
"""The largest value of each setting in the model of a shipped recipe."""


def made_small(settings: dict[str, Any]) -> dict[str, Any]:
    """The settings of a model, with all sizes limited to `SMALL`."""

    def limit(name: str, value: Any) -> Any:
        if isinstance(value, dict):
            return made_small(value)
        return value if value is None or name not in SMALL else min(value, SMALL[name])

    return {name: limit(name, value) for name, value in settings.items()}


def recipe_cases() -> dict[str, tuple[ModelSettings, str]]:
    """The model and the loss of every shipped recipe."""
    recipes = {name: load_recipe(name) for name in shipped()}
    return {
        f"recipe-{name}": (ModelSettings.model_validate(made_small(recipe.model.model_dump())), recipe.training.loss)
        for name, recipe in recipes.items()
    }


def every_case() -> dict[str, tuple[ModelSettings, str]]:
    """The settings and the loss of every model."""
    contracts = {name: (ModelSettings.model_validate(case), loss_of(name)) for name, case in CASES.items()}
    return {**contracts, **recipe_cases()}


def describe(settings: ModelSettings, loss: str) -> Iterator[tuple[str, list[float]]]:
    """The name and shape of every parameter, with its sum and its first, middle and last values."""
    source_size = TARGET_SIZE if settings.ties_inputs else SOURCE_SIZE
    model = build_model(settings, source_size=source_size, target_size=TARGET_SIZE, loss=loss, seed=SEED)
    for name, parameter in model.named_parameters():
        values = parameter.detach().double().flatten()
        chosen = values[[0, len(values) // 2, -1]].tolist()
        yield f"{name} {list(parameter.shape)}", [values.sum().item(), *chosen]


def encode(settings: ModelSettings, loss: str) -> list[Any]:
    """The record of a model: a checksum of names and shapes, then the numbers of each parameter, rounded."""
    names, numbers = zip(*describe(settings, loss), strict=True)
    return [zlib.crc32("\n".join(names).encode()), " ".join(f"{value:.4g}" for row in numbers for value in row)]


CASES_OF_MODELS = every_case()


def recorded() -> dict[str, list[Any]]:
    record: dict[str, list[Any]] = json.loads(RECORD.read_text("utf-8")) if RECORD.exists() else {}
    return record


@pytest.fixture(scope="module")
def record() -> dict[str, list[Any]]:
    return recorded()


@pytest.mark.parametrize("case", CASES_OF_MODELS)
def test_initial_weights_are_those_of_earlier_versions(case: str, record: dict[str, list[Any]]) -> None:
    names, numbers = zip(*describe(*CASES_OF_MODELS[case]), strict=True)
    assert case in record, f"a new model: run {Path(__file__).name}"
    checksum, expected = record[case]
    assert zlib.crc32("\n".join(names).encode()) == checksum, "parameters have other names or shapes"
    given = list(map(float, expected.split()))
    rows = [given[start : start + 4] for start in range(0, len(given), 4)]
    different = [
        name
        for name, row, other in zip(names, numbers, rows, strict=True)
        if not all(math.isclose(*pair, rel_tol=1e-3, abs_tol=2e-4) for pair in zip(row, other, strict=True))
    ]
    assert not different


def test_every_recorded_model_is_tested(record: dict[str, list[Any]]) -> None:
    assert record.keys() == CASES_OF_MODELS.keys()


def write_record(*, keep: bool) -> None:
    """Write the record; ``keep``: leave models that it has as they are."""
    before = recorded() if keep else {}
    after = {name: before.get(name) or encode(*case) for name, case in CASES_OF_MODELS.items()}
    lines = (f"{json.dumps(name)}: {json.dumps(entry)}" for name, entry in after.items())
    RECORD.write_text("{\n" + ",\n".join(lines) + "\n}\n", "utf-8")


if __name__ == "__main__":
    write_record(keep="--all" not in sys.argv)
