"""The journeys: every shipped recipe, every built-in task, and every model that the automatic choice can make.

All of them come from the tables of the library, so a new recipe, task or kind of task has its journey without a line
here. Models and corpora are made small by settings of sizes only.
"""

from __future__ import annotations

import inspect
import tempfile
from collections.abc import Iterator
from dataclasses import replace
from functools import cache
from itertools import product
from pathlib import Path
from typing import Any, NamedTuple, get_args

from fixtures import kinds_of_pairs, kinds_of_pictures
from journeys.corpora import write_corpora
from journeys.processes import DEVICE
from weft.data.columns.rows import PairInput, RowCount
from weft.pairs.profiling.profile import profile_pairs
from weft.pairs.recommendation.devices import Device
from weft.pairs.recommendation.kinds import find_task
from weft.pairs.recommendation.settings import choose_settings
from weft.recipe import Recipe, load_recipe, make_recipe
from weft.recipe.files import shipped
from weft.recipe.toml import write_toml
from weft.tasks import TASKS

PAIRS = 200
HELD_OUT = {"valid": 0.1, "test": 0.06}
PAIR_COUNTS = (PAIRS, 10_000, 1_000_000)
"""Numbers of pairs at which the automatic choice is asked: on each side of its thresholds."""

PICTURES: dict[str, Any] = {
    "tokenizer": {"kind": "picture", "target_kind": "character", "joint": False},
    "model": {"stem": {"kind": "columns"}},
}
"""Settings for sources that are pictures of lines."""


class Journey(NamedTuple):
    """What a user trains, and the settings that keep it small."""

    name: str
    argument: str
    """Of ``weft train``: a recipe, or a file of pairs."""
    changes: list[str]
    recipe: Recipe
    """As it is without the changes."""
    rows: kinds_of_pairs.Rows | None = None
    """The content of pairs.tsv."""
    pictures: str | None = None
    """The kind of pictures that pairs.tsv names."""

    def prepare(self, folder: Path) -> None:
        """Write the files that training reads."""
        if self.rows is not None:
            write_rows(folder / "pairs.tsv", self.rows)
        if self.pictures is not None:
            kinds_of_pictures.write_table(folder, kinds_of_pictures.KINDS[self.pictures](PAIRS))
            return
        if self.argument.endswith(".toml"):
            (folder / self.argument).write_text(write_toml(self.recipe), "utf-8")
        if self.rows is None:
            write_corpora(self.recipe, folder)

    def options(self) -> list[str]:
        return [part for change in self.changes for part in ("--set", change)]


def write_rows(path: Path, rows: kinds_of_pairs.Rows) -> None:
    path.write_text("".join("\t".join(row) + "\n" for row in rows), "utf-8")


def sizes_of(recipe: Recipe) -> list[str]:
    """Settings that make a recipe small and leave its kind of model, data, training and search as they are."""
    changes: dict[str, Any] = {"model.embedding": 16, "training.device": DEVICE}
    for side in ("encoder", "decoder"):
        stack = getattr(recipe.model, side)
        changes[f"model.{side}.hidden"] = 16
        changes[f"model.{side}.layers"] = min(stack.layers, 2)
        if stack.kind in ("transformer", "attention"):
            changes |= {f"model.{side}.heads": min(stack.heads, 2), f"model.{side}.feed_forward": 24}
    training = recipe.training
    most = {"steps": 24, "batch_tokens": 300, "warmup": 8, "valid_sentences": 10, "average": 2}
    changes |= {f"training.{name}": min(getattr(training, name), limit) for name, limit in most.items()}
    changes |= {f"training.{name}": 8 for name in ("validate_every", "save_every") if getattr(training, name)}
    if recipe.tokenizer.reads_arrays:
        changes["training.batch_tokens"] = 20_000  # bytes of pictures
        changes["model.stem.widths"] = [16] * len(recipe.model.stem.widths)
        changes["model.stem.blocks"] = min(recipe.model.stem.blocks, 1)
    changes |= {"training.log_every": 1, "tokenizer.size": min(recipe.tokenizer.size, 160), "search.max_nodes": 200}
    if isinstance(recipe.data.train, str) and recipe.data.train in TASKS:
        changes |= {"data.train_size": 150, "data.valid_size": 20, "data.test_size": 12}
    return [f"{name}={value}" for name, value in changes.items()]


@cache
def recipe_journeys() -> list[Journey]:
    recipes = {name: load_recipe(name) for name in shipped()}
    return [Journey(name, name, sizes_of(recipe), recipe) for name, recipe in recipes.items()]


def _task_journeys() -> Iterator[Journey]:
    for name, task in TASKS.items():
        settings = {"tokenizer": {"kind": "word"}} if task.draw is None else PICTURES
        recipe = make_recipe({"name": name, "data": {"train": name}, **settings})
        yield Journey(f"task-{name}", "task.toml", sizes_of(recipe), recipe)


def _automatic_journeys(seen: set[str]) -> Iterator[Journey]:
    """Every kind of pairs, as ``weft train pairs.tsv``; and the other models that more pairs or a GPU would get.

    ``seen``: the structures of other journeys, which need no second one.
    """
    for kind, rows in kinds_of_rows().items():
        for (count, device), recipe in _choices(rows).items():
            shape = structure(recipe)
            if (count, device) == (PAIRS, "cpu"):
                yield Journey(f"pairs-{kind}", "pairs.tsv", sizes_of(recipe), recipe, rows)
            elif shape not in seen:
                yield Journey(f"pairs-{kind}-{count}-{device}", "pairs.toml", sizes_of(recipe), recipe, rows)
            seen.add(shape)


def _picture_journeys() -> Iterator[Journey]:
    """Every kind of pictures and frames, as ``weft train pairs.tsv``."""
    for kind, make in kinds_of_pictures.KINDS.items():
        with tempfile.TemporaryDirectory() as folder:
            path = kinds_of_pictures.write_table(Path(folder), make(40))
            tree = choose_settings(profile_pairs(PairInput(str(path))), device="cpu").tree()
        tree["data"] = {"train": "pairs.tsv", "holdout": HELD_OUT}
        recipe = make_recipe({"name": "pairs", **tree})
        yield Journey(f"pictures-{kind.replace('_', '-')}", "pairs.tsv", sizes_of(recipe), recipe, pictures=kind)


def _choices(rows: kinds_of_pairs.Rows) -> dict[tuple[int, str], Recipe]:
    """The recipes for pairs like these, by their number and the device."""
    recipes = {}
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "pairs.tsv"
        write_rows(path, rows)
        profile = profile_pairs(PairInput(str(path)))
        for count, device in product(PAIR_COUNTS, get_args(Device)):
            tree = choose_settings(replace(profile, count=RowCount(count)), device=device).tree()
            train = tree["data"]["train"]
            tree["data"]["train"] = "pairs.tsv" if isinstance(train, str) else {**train, "file": "pairs.tsv"}
            tree["data"]["holdout"] = HELD_OUT
            recipes[count, device] = make_recipe({"name": "pairs", **tree})
    return recipes


def structure(recipe: Recipe) -> str:
    """A recipe's model, tokenizers and loss, without their sizes."""
    small = recipe_with(recipe, sizes_of(recipe))
    settings = small.model_dump(include={"model": True, "tokenizer": {"kind", "target_kind", "joint", "tags"}})
    settings["model"]["dropout"] = 0
    return f"{settings} {recipe.training.loss}"


def recipe_with(recipe: Recipe, changes: list[str]) -> Recipe:
    return make_recipe(recipe.model_dump(exclude_unset=True), changes)


def kinds_of_tasks() -> set[str]:
    """The kinds of task that the pairs of all journeys are taken for."""
    kinds = set()
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "pairs.tsv"
        for rows in kinds_of_rows().values():
            write_rows(path, rows)
            kinds.add(find_task(profile_pairs(PairInput(str(path)))).kind)
    return kinds


@cache
def kinds_of_rows() -> dict[str, kinds_of_pairs.Rows]:
    makers = {
        name: make
        for name, make in vars(kinds_of_pairs).items()
        if inspect.isfunction(make) and [*inspect.signature(make).parameters] == ["count"]
    }
    return {name: make(PAIRS) for name, make in makers.items()}


@cache
def journeys() -> dict[str, Journey]:
    every = [*recipe_journeys(), *_task_journeys(), *_picture_journeys()]
    every += _automatic_journeys({structure(journey.recipe) for journey in every})
    return {journey.name: journey for journey in every}
