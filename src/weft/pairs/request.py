"""A request to train, and the recipe, the run folder and the comments that follow from it; no torch is imported."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from weft.errors import RecipeError, option
from weft.pairs.source import PairSource
from weft.recipe import Recipe, load_recipe, parse_change, shipped
from weft.recipe.files import find_recipe
from weft.recipe.toml import leading_comments
from weft.runs.layout import RunFolder
from weft.runs.locks import check_unlocked
from weft.runs.weights import resume_command

if TYPE_CHECKING:
    from weft.pairs.recommendation.proposals import CandidateRecipe
    from weft.pairs.recommendation.recommend import Recommendation

MAX_MINUTES = 1_000_000


class TrainingRequest(NamedTuple):
    """A request to train: on what, starting from which run, where, for how long and with which changes."""

    recipe: str
    """The name of a recipe or its file; to resume, also a run folder. Not used if there are pairs."""
    changes: list[str]
    out: Path | None
    start: Path | None
    """The run whose weights, model and tokenizer training starts from."""
    resume: bool
    minutes: float | None = None
    evaluate: bool | None = None
    pairs: PairSource | None = None
    recommended: Recommendation | None = None
    """The recipe for the pairs, once they have been looked at."""
    accept_new_data: bool = False

    def evaluates(self, folder: Path) -> bool:
        """Whether the run in this folder is evaluated at the end; by default so is one on pairs, also if resumed."""
        if self.evaluate is not None:
            return self.evaluate
        if self.resume:
            comments = leading_comments((folder / "recipe.toml").read_text("utf-8"))
            return any(line.startswith("pairs: ") for line in comments)
        return self.minutes is not None or self.recommended is not None

    def check_options(self, *, several_workers: bool = False) -> None:
        """Fail on options that do not go together."""
        if self.evaluate and several_workers:
            raise RecipeError("--evaluate: several workers do not evaluate; use weft evaluate RUN after training")
        if self.accept_new_data and not self.resume:
            added = option("resume", True)
            raise RecipeError(
                f"{option('accept_new_data')}: is for a run that is resumed; add {added}, or leave it out"
            )
        minutes = option("minutes")
        if self.minutes is None:
            return
        if self.resume:
            raise RecipeError(f"{minutes}: a resumed run keeps its number of steps; leave {minutes} out")
        if several_workers:
            raise RecipeError(f"{minutes}: the speed of several workers is not measured; use one, or training.steps")
        if not 0 < self.minutes <= MAX_MINUTES:
            raise RecipeError(f"{minutes} {self.minutes:.10g}: expected a number above 0, at most {MAX_MINUTES:,}")

    @property
    def run(self) -> Path | None:
        """The run folder, if RECIPE names one."""
        path = Path(self.recipe)
        return path if self.out is self.pairs is None and (path / "recipe.toml").is_file() else None

    def with_recommendation(self) -> TrainingRequest:
        """This request with a recommended recipe, if a new run is to be trained on pairs; else this request."""
        if self.pairs is None or self.resume:
            return self
        if self.start is not None:
            RunFolder(self.start).check()
        names = [str(value) for path, value in map(parse_change, self.changes) if path == ["name"]]
        folder = self.out or Path("runs") / (names[-1] if names else self.pairs.name)
        RunFolder.check_new(folder)
        return self._replace(recommended=self.pairs.recommend(self.changes, self.start, folder, self.minutes))

    def candidates(self) -> list[CandidateRecipe]:
        """Recipes that a time limit decides between; only the recommended one if a change pins the model.

        None without pairs or a time limit, and where the length of the training is given: by training.steps, or by
        another recipe (``like``) or run (``start``).
        """
        source, recommendation = self.pairs, self.recommended
        if source is None or recommendation is None or self.minutes is None:
            return []
        given = [parse_change(change)[0] for change in self.changes]
        if source.like is not None or self.start is not None or ["training", "steps"] in given:
            return []
        from weft.pairs.recommendation.proposals import propose

        return propose(recommendation, given)

    def settings(self) -> Recipe:
        """The recipe of a new run; of a resumed run, which has its own settings, only to compare the names."""
        if self.recommended is not None:
            return self.recommended.recipe
        if self.resume and self.pairs is not None:
            folder = self.out or Path("runs") / self.pairs.name
            RunFolder(folder).check()
            return load_recipe(folder / "recipe.toml")
        if self.resume:
            if self.out is None and "/" in self.recipe and not self.recipe.endswith(".toml"):
                RunFolder(Path(self.recipe)).check()
            name = self.recipe if self.run is None else self.run / "recipe.toml"
            return load_recipe(name, [change for change in self.changes if parse_change(change)[0] == ["name"]])
        if self.run is not None and self.recipe not in shipped():
            raise RecipeError(f"{self.run}: is a run folder, not a recipe; continue with: {resume_command(self.run)}")
        if self.start is not None:
            RunFolder(self.start).check()
        return load_recipe(self.recipe, self.changes, start=self.start)

    def folder(self, settings: Recipe) -> Path:
        if self.resume and self.run is not None:
            return self.run
        return Path("runs") / settings.name if self.out is None else self.out

    def saved_settings(self, settings: Recipe) -> Recipe:
        """The settings of the run to resume, with the changes."""
        folder = self.folder(settings)
        RunFolder(folder).check()
        saved = load_recipe(folder / "recipe.toml", self.changes)
        if saved.name != settings.name:
            raise RecipeError(
                f"{option('resume', True)}: {folder} was trained from recipe {saved.name!r}, not {settings.name!r}"
            )
        return saved

    def comments(self) -> list[str]:
        """The head of RUN/recipe.toml: the reasons of the choices, or what stands at the head of a recipe file."""
        if self.recommended is not None:
            return self.recommended.lines()
        if self.resume or self.changes or self.recipe in shipped():  # they may no longer be true
            return []
        return leading_comments(find_recipe(self.recipe).read_text("utf-8-sig"))

    def check(self) -> None:
        """Fail on a recipe, a setting or a folder that cannot be used, without importing torch."""
        settings = self.settings()
        if self.resume:
            self.saved_settings(settings)
        else:
            RunFolder.check_new(self.folder(settings))
        check_unlocked(self.folder(settings))
