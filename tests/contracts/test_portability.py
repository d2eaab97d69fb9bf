"""Every model that the automatic choice can make, or that can win a race, is exported to the formats that are stated
before it is trained, and to no other: those refuse it with the stated reason."""

from __future__ import annotations

from functools import cache
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest

from journeys.journeys import Journey, journeys, kinds_of_rows, recipe_with, sizes_of, structure, write_rows
from weft.data.preparation import prepare
from weft.errors import RecipeError
from weft.interop.export import FORMATS
from weft.interop.onnx.exporting import check_exportable
from weft.interop.portability import Portability, portability
from weft.models.build import build_model
from weft.pairs.profiling.inputs import PairsArgument
from weft.pairs.recommendation.proposals import propose
from weft.pairs.recommendation.recommend import recommend_recipe
from weft.runs.load import LoadedRun, set_copy_table

AUTOMATIC = {name: journey for name, journey in journeys().items() if name.startswith("pairs-")}


@cache
def raced() -> dict[str, Journey]:
    """Candidates of races whose structure no automatic choice has."""
    every, seen = {}, {structure(journey.recipe) for journey in AUTOMATIC.values()}
    with TemporaryDirectory() as folder:
        pairs = Path(folder) / "pairs.tsv"
        for kind, rows in kinds_of_rows().items():
            write_rows(pairs, rows)
            for candidate in propose(recommend_recipe(PairsArgument(str(pairs))), device="cpu"):
                if structure(candidate.recipe) not in seen:
                    seen.add(structure(candidate.recipe))
                    name, recipe = f"raced-{kind}-{candidate.name}", candidate.recipe
                    recipe = recipe_with(recipe, ['data.train="pairs.tsv"'])
                    every[name] = Journey(name, "pairs.tsv", sizes_of(recipe), recipe, rows)
    return every


CHOSEN = {**AUTOMATIC, **raced()}


def untrained_run(journey: Journey, folder: Path) -> LoadedRun:
    """The run of a journey before its first update."""
    journey.prepare(folder)
    recipe = recipe_with(journey.recipe, [*journey.changes, f'data.folder="{folder}"'])
    tokenizers = prepare(recipe).tokenizers
    sizes = {"source_size": tokenizers.source.size, "target_size": tokenizers.target.size}
    model = build_model(recipe.model, loss=recipe.training.loss, **sizes)
    set_copy_table(model, recipe.model, tokenizers)
    return LoadedRun(model.eval(), tokenizers, recipe)


def check(run: LoadedRun, stated: Portability, folder: Path, *, traces: bool) -> None:
    """Export a run, or see that it is refused; ``traces``: whether graphs of ONNX are made, which takes long."""
    if stated.refusal is not None:
        with pytest.raises(RecipeError) as error:
            FORMATS[stated.format](run, folder, "float32")
        assert str(error.value) == f"{run.recipe.name}: {stated.refusal}"
    elif stated.format == "onnx" and not traces:
        check_exportable(run, "float32")
    else:
        assert any(FORMATS[stated.format](run, folder, "float32").iterdir())


@pytest.mark.parametrize("name", CHOSEN)
def test_stated_formats(name: str, tmp_path: Path) -> None:
    for package in ("ctranslate2", "onnx", "onnxscript", "onnxruntime"):
        pytest.importorskip(package)
    run = untrained_run(CHOSEN[name], tmp_path)
    for stated in portability(run.recipe):
        check(run, stated, tmp_path / stated.format, traces=False)


@pytest.mark.slow
@pytest.mark.parametrize("name", CHOSEN)
def test_graphs(name: str, tmp_path: Path) -> None:
    run = untrained_run(CHOSEN[name], tmp_path)
    [onnx] = [stated for stated in portability(run.recipe) if stated.format == "onnx"]
    check(run, onnx, tmp_path / "onnx", traces=True)
