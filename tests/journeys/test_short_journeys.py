"""Every shipped recipe, trained for a moment and used in other processes; `test_journeys.py` walks the whole way."""

from __future__ import annotations

from pathlib import Path

import pytest

from journeys.checks import largest_difference
from journeys.journeys import Journey, journeys, recipe_journeys
from journeys.processes import Processes


@pytest.mark.parametrize("name", [journey.name for journey in recipe_journeys()])
def test_trained_loaded_and_used(name: str, tmp_path: Path, light_processes: Processes) -> None:
    journey = journeys()[name]
    journey.prepare(tmp_path)
    changes = ["--set", "training.steps=8"]  # with a validation
    trained = light_processes.weft(tmp_path, "train", name, "--out", "run", *journey.options(), *changes)
    assert trained.code == 0, trained.stderr
    pairs, scores, outputs = light_processes.call(tmp_path, "journeys.checks:used", "run")
    sources = "".join(f"{source}\n" for source, _ in pairs)
    translated = light_processes.weft(tmp_path, "translate", "run", "--json", stdin=sources)
    assert translated.code == 0, translated.stderr
    assert largest_difference([line["score"] for line in translated.json_lines], outputs) < 1e-4
    lines = "".join(f"{source}\t{target}\n" for source, target in pairs)
    scored = light_processes.weft(tmp_path, "score", "run", "--json", stdin=lines)
    assert scored.code == 0, scored.stderr
    assert largest_difference([line["log_probability"] for line in scored.json_lines], scores) < 1e-4


def test_every_kind_of_task_has_a_journey() -> None:
    """The automatic choice knows no kind of task of which no pairs are made up."""
    from typing import get_args

    from journeys.journeys import kinds_of_tasks
    from weft.pairs.recommendation.kinds import Kind

    assert kinds_of_tasks() == {*get_args(Kind)}


def test_sizes_change_no_kind_of_model() -> None:
    """A journey's model differs from its recipe's in numbers alone."""

    def kinds(journey: Journey, *, small: bool) -> dict[str, object]:
        from journeys.journeys import recipe_with

        recipe = recipe_with(journey.recipe, journey.changes) if small else journey.recipe
        settings = recipe.model_dump(include={"model", "tokenizer", "search", "evaluation", "training"})
        flat: dict[str, object] = {}

        def flatten(prefix: str, value: object) -> None:
            if isinstance(value, dict):
                for name, part in value.items():
                    flatten(f"{prefix}.{name}", part)
            elif prefix == ".model.stem.widths":
                flat[prefix] = len(value)  # type: ignore[arg-type]
            elif prefix != ".training.device" and (isinstance(value, bool) or not isinstance(value, int | float)):
                flat[prefix] = value

        flatten("", settings)
        return flat

    for journey in journeys().values():
        assert kinds(journey, small=True) == kinds(journey, small=False), journey.name
