"""The arguments of ``weft train``, and the recipe, the run folder and the comments that follow from them."""

from __future__ import annotations

import os
import sys
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from weft.cli.arguments import check_runs
from weft.cli.own_pairs import OwnPairs

if TYPE_CHECKING:
    from weft.recipe import Recipe
    from weft.recommendation.for_pairs import RecommendedRecipe

MAX_MINUTES = 1e6


class TrainingRequest(NamedTuple):
    """RECIPE or PAIRS, --set, --out, --from, --resume, --minutes and --evaluate."""

    recipe: str
    changes: list[str]
    out: Path | None
    start: Path | None
    resume: bool
    minutes: float | None = None
    evaluate: bool | None = None
    pairs: OwnPairs | None = None
    recommended: RecommendedRecipe | None = None
    """The recipe for the pairs, once they have been looked at."""
    watch: bool = False

    def evaluates(self, folder: Path) -> bool:
        """Whether the run in this folder is evaluated at the end; by default so is one on pairs, also if resumed."""
        from weft.recipe.toml import leading_comments

        if self.evaluate is not None:
            return self.evaluate
        if self.resume:
            comments = leading_comments((folder / "recipe.toml").read_text("utf-8"))
            return any(line.startswith("pairs: ") for line in comments)
        return self.minutes is not None or self.recommended is not None

    def check_options(self, workers: int) -> None:
        """Fail on options that do not go together."""
        from weft.errors import RecipeError

        is_team = workers > 1 or "RANK" in os.environ
        if self.evaluate and is_team:
            raise RecipeError("--evaluate: several workers do not evaluate; use weft evaluate RUN after training")
        if self.minutes is None:
            return
        if self.resume:
            raise RecipeError("--minutes: a resumed run keeps its number of steps; leave --minutes out")
        if is_team:
            raise RecipeError("--minutes: the speed of several workers is not measured; use one, or training.steps")
        if not 0 < self.minutes <= MAX_MINUTES:
            raise RecipeError(f"--minutes {self.minutes:g}: expected a number above 0")

    @property
    def run(self) -> Path | None:
        """The run folder, if RECIPE names one."""
        path = Path(self.recipe)
        return path if self.out is self.pairs is None and (path / "recipe.toml").is_file() else None

    def with_recommendation(self) -> TrainingRequest:
        """The same with a recipe for the pairs, if a new run is to be trained on pairs."""
        from weft.recipe import parse_change
        from weft.runs.layout import RunFolder

        if self.pairs is None or self.resume:
            return self
        if self.start is not None:
            check_runs(self.start)
        names = [str(value) for path, value in map(parse_change, self.changes) if path == ["name"]]
        folder = self.out or Path("runs") / (names[-1] if names else self.pairs.name)
        RunFolder.check_new(folder)
        return self._replace(recommended=self.pairs.recommend(self.changes, self.start, folder, self.minutes))

    def settings(self) -> Recipe:
        """The recipe of a new run; of a resumed run, which has its own settings, only to compare the names."""
        from weft.errors import RecipeError
        from weft.recipe import load_recipe, parse_change, shipped
        from weft.runs.origin import resume_command

        if self.recommended is not None:
            return self.recommended.recipe
        if self.resume and self.pairs is not None:
            folder = self.out or Path("runs") / self.pairs.name
            check_runs(folder)
            return load_recipe(folder / "recipe.toml")
        if self.resume:
            if self.out is None and "/" in self.recipe and not self.recipe.endswith(".toml"):
                check_runs(Path(self.recipe))
            name = self.recipe if self.run is None else self.run / "recipe.toml"
            return load_recipe(name, [change for change in self.changes if parse_change(change)[0] == ["name"]])
        if self.run is not None and self.recipe not in shipped():
            raise RecipeError(f"{self.run}: is a run folder, not a recipe; continue with: {resume_command(self.run)}")
        if self.start is not None:
            check_runs(self.start)
        return load_recipe(self.recipe, self.changes, start=self.start)

    def folder(self, settings: Recipe) -> Path:
        if self.resume and self.run is not None:
            return self.run
        return Path("runs") / settings.name if self.out is None else self.out

    def saved_settings(self, settings: Recipe) -> Recipe:
        """The settings of the run to resume, with the changes."""
        from weft.errors import RecipeError
        from weft.recipe import load_recipe

        folder = self.folder(settings)
        check_runs(folder)
        saved = load_recipe(folder / "recipe.toml", self.changes)
        if saved.name != settings.name:
            raise RecipeError(f"--resume: {folder} was trained from recipe {saved.name!r}, not {settings.name!r}")
        return saved

    def comments(self) -> list[str]:
        """The head of RUN/recipe.toml: the reasons of the choices, or what stands at the head of a recipe file."""
        from weft.recipe import shipped
        from weft.recipe.files import find_recipe
        from weft.recipe.toml import leading_comments

        if self.recommended is not None:
            return self.recommended.lines()
        if self.resume or self.changes or self.recipe in shipped():  # they may no longer be true
            return []
        return leading_comments(find_recipe(self.recipe).read_text("utf-8-sig"))

    def worker_arguments(self, folder: Path) -> list[str]:
        """The arguments of a worker process; a recipe for pairs is written to a folder for it."""
        from weft.recipe.toml import write_toml

        if self.recommended is None:
            return without_worker_options(sys.argv[1:])
        recipe = self.recommended.recipe
        data = recipe.data.model_copy(update={"folder": str(Path(recipe.data.folder).resolve())})
        path = folder / "recipe.toml"
        path.write_text(write_toml(recipe.model_copy(update={"data": data}), self.comments()), "utf-8")
        return ["train", str(path), "--out", str(self.folder(recipe))]

    def check(self) -> None:
        """Fail on a recipe, a setting or a folder that cannot be used, without importing torch."""
        from weft.files import check_unlocked
        from weft.runs.layout import RunFolder

        settings = self.settings()
        if self.resume:
            self.saved_settings(settings)
        else:
            RunFolder.check_new(self.folder(settings))
        check_unlocked(self.folder(settings))


def lora_changes(given: str | None) -> list[str]:
    """``--lora rank=16,targets=query+value`` as changes of settings: training.lora.rank=16, …"""
    from weft.errors import RecipeError, nearest
    from weft.recipe.toml import toml_value
    from weft.recipe.training import LoraSettings

    changes = []
    for part in () if given is None else given.split(","):
        name, equals, value = part.strip().partition("=")
        if not equals or not value:
            raise RecipeError(f"--lora {given}: expected NAME=VALUE separated by commas, for example rank=16")
        if name not in LoraSettings.model_fields:
            raise RecipeError(f"--lora {name}: unknown setting; {nearest(name, LoraSettings.model_fields)}")
        if name in ("targets", "name"):
            value = toml_value(value.split("+") if name == "targets" else value)
        elif name in ("alpha", "dropout") and value.isdigit():
            value += ".0"
        changes.append(f"training.lora.{name}={value}")
    ranks = [change.partition("=")[2] for change in changes if change.startswith("training.lora.rank=")]
    if changes and ranks in ([], ["0"]):
        raise RecipeError(f"--lora {given}: needs a rank, for example rank=16")
    return changes


def without_worker_options(arguments: list[str]) -> list[str]:
    """The arguments of this command without --workers and --restarts."""
    kept: list[str] = []
    remaining = iter(arguments)
    for argument in remaining:
        if argument in ("--workers", "--restarts"):
            next(remaining)
        elif not argument.startswith(("--workers=", "--restarts=")):
            kept.append(argument)
    return kept
