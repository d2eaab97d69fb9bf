"""The folder of a tuning run: everything that the same command needs to continue.

tuning.json         the recipe and the minutes it was started with, the candidates and, once it is made, the plan
progress.json       the time used so far, and which candidates train in each rung
recipes/NAME.toml   the recipe of each candidate
corpora/            the prepared corpus of each tokenizer
runs/NAME/          its run folder
results/            the result of each job
logs/NAME.log       what its processes wrote to stderr
results.json, results.tsv, best.toml, curves.svg          the outcome
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

from weft.apps.tuning.candidates import Candidate
from weft.apps.tuning.job import Outcome, TuningJob
from weft.apps.tuning.plan import TuningPlan, fitted
from weft.errors import CheckpointError, option
from weft.files import read_json, save_text
from weft.recipe import Recipe
from weft.recipe.toml import write_toml
from weft.runs.locks import is_empty_folder

FORMAT = 1


class TuningFolder:
    """A folder of a tuning run, new or to be continued."""

    def __init__(self, path: Path | str) -> None:
        self.path = Path(path)
        self.request = self.path / "tuning.json"
        self.progress = self.path / "progress.json"
        self.recipes = self.path / "recipes"
        self.runs = self.path / "runs"
        self.results = self.path / "results"
        self.logs = self.path / "logs"
        self.best = self.path / "best.toml"
        self.picture = self.path / "curves.svg"
        self.seconds_before = 0.0
        """Time used by earlier processes."""

    def check(self, recipe: Recipe, minutes: float) -> None:
        """Fail if the folder is neither new nor of a tuning run of this recipe and time; imports no torch."""
        if not self.path.exists() or is_empty_folder(self.path):
            return
        if not self.request.is_file():
            raise CheckpointError(
                f"{self.path}: already exists and is not a tuning run; choose another {option('out')}"
            )
        saved = self._read(self.request)
        if saved.get("format") != FORMAT:
            raise CheckpointError(f"{self.request}: written by another version of weft; choose another {option('out')}")
        if saved["recipe"] != write_toml(recipe):
            lines = zip(saved["recipe"].splitlines(), write_toml(recipe).splitlines(), strict=False)
            then, now = next(((then, now) for then, now in lines if then != now), ("another recipe", "this one"))
            raise CheckpointError(
                f"{self.path}: was tuned with {then}, not {now}; choose another {option('out')}, or the same settings"
            )
        if saved["minutes"] != minutes and "plan" in saved:
            planned = f"{saved['minutes']:g}"
            raise CheckpointError(
                f"{self.path}: was planned for {planned} minutes; continue with {option('minutes', planned)}, or "
                f"choose another {option('out')}"
            )

    def create(self, recipe: Recipe, minutes: float) -> None:
        """Write the request, unless there is a plan for it already."""
        for folder in (self.recipes, self.runs, self.results, self.logs):
            folder.mkdir(parents=True, exist_ok=True)
        if not self.request.is_file() or self.read_plan() is None:
            self._write(self.request, {"format": FORMAT, "minutes": minutes, "recipe": write_toml(recipe)})
        if self.progress.is_file():
            self.seconds_before = float(self._read(self.progress)["seconds"])

    def recipe_path(self, name: str) -> Path:
        return self.recipes / f"{name}.toml"

    def run_path(self, name: str) -> Path:
        return self.runs / name

    def write_recipe(self, name: str, recipe: Recipe) -> None:
        """Write a candidate's recipe; those with the same tokenizer share a prepared corpus in this folder."""
        if not recipe.data.streaming:
            key = hashlib.sha256(repr(recipe.tokenizer).encode()).hexdigest()[:8]
            data = recipe.data.model_copy(update={"prepared": str(self.path.resolve() / "corpora" / key)})
            recipe = recipe.model_copy(update={"data": data})
        save_text(self.recipe_path(name), write_toml(recipe))

    def read_plan(self) -> TuningPlan | None:
        """The plan; None if it has not been made."""
        plan = self._read(self.request).get("plan")
        return None if plan is None else TuningPlan(**plan)

    def write_plan(self, plan: TuningPlan, candidates: Sequence[Candidate]) -> None:
        """Write the recipes of the candidates, then the plan: where there is a plan, there are recipes too."""
        for candidate in candidates:
            if candidate.name in plan.candidates:
                self.write_recipe(candidate.name, fitted(candidate.recipe, plan))
        self._write(self.request, {**self._read(self.request), "plan": asdict(plan)})

    def read_rungs(self) -> list[list[str]]:
        """The candidates of each rung that was decided on."""
        return list(self._read(self.progress)["rungs"]) if self.progress.is_file() else []

    def write_progress(self, seconds: float, rungs: Sequence[Sequence[str]]) -> None:
        """Write the time used and the rungs; ``seconds``: the time used by this process."""
        self._write(self.progress, {"seconds": self.seconds_before + seconds, "rungs": rungs})

    def job(self, action: str, name: str, arguments: dict[str, Any], suffix: str = "") -> TuningJob:
        """A job whose result is kept in this folder."""
        return TuningJob(action, name, str(self.results / f"{name}.{suffix or action}.json"), arguments)

    def outcome(self, job: TuningJob) -> Outcome | None:
        """The outcome of a job that was done before."""
        return self._read(Path(job.result)) if Path(job.result).is_file() else None

    def _read(self, path: Path) -> dict[str, Any]:
        content = read_json(path)
        if not isinstance(content, dict):
            raise CheckpointError(f"{path}: damaged; it is not a JSON object")
        return content

    def _write(self, path: Path, content: Any) -> None:
        save_text(path, json.dumps(content, indent=1, ensure_ascii=False) + "\n")
