"""The result of a tuning run: a ranking, the ensemble of the best, and the files that hold them."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from typing import Any, Literal

from weft.apps.tuning.candidates import Candidate
from weft.apps.tuning.folder import TuningFolder
from weft.apps.tuning.job import Outcome
from weft.apps.tuning.plan import TuningPlan
from weft.files import json_value, save_text
from weft.recipe import Recipe, load_recipe
from weft.recipe.toml import write_toml

State = Literal["finished", "stopped", "failed", "left out"]
SIGNIFICANT = 0.05


@dataclass(frozen=True)
class CandidateResult:
    """The scores of a candidate."""

    name: str
    change: str
    reason: str
    state: State
    """finished: trained to the end; stopped: at a rung; left out: the time was too short for it."""
    step: int = 0
    value: float | None = None
    """The metric of its best validation during training."""
    whole: float | None = None
    """The metric of the finished model on the whole validation set."""
    interval: tuple[float, float] | None = None
    """Its 95 % interval."""
    p_value: float | None = None
    """The p-value of its difference from the finished candidate that was best during training."""
    parameters: int = 0
    seconds: float = 0.0
    """Training time."""
    problem: str = ""
    """The reason for a failure; empty if there was none."""
    curve: tuple[tuple[int, float], ...] = ()
    """Step and metric of each validation."""


@dataclass(frozen=True)
class EnsembleResult:
    """The ensemble of the best candidates that share a vocabulary, on the whole validation set."""

    members: tuple[str, ...]
    value: float
    gain: float
    """Improvement over the best candidate, in the direction that is better."""


@dataclass(frozen=True)
class TuningResult:
    """All candidates, the best first."""

    metric: str
    better: str
    """``"higher"`` or ``"lower"``."""
    candidates: list[CandidateResult]
    ensemble: EnsembleResult | None
    steps: int
    rungs: list[int]
    pairs: int
    """Pairs of the validation set; 0 if the finished candidates could not be compared on it."""
    signature: str
    """Signature of the metric on the whole validation set."""
    problem: str = ""
    """The reason why there is no comparison on the whole validation set."""

    @property
    def best(self) -> CandidateResult:
        return self.candidates[0]

    @property
    def finished(self) -> list[CandidateResult]:
        return [candidate for candidate in self.candidates if candidate.state == "finished"]

    @property
    def base(self) -> CandidateResult | None:
        """The recipe as it was given, if it was trained."""
        return next((c for c in self.candidates if c.change == "as given" and c.value is not None), None)

    @classmethod
    def collect(
        cls,
        candidates: Sequence[Candidate],
        plan: TuningPlan,
        outcomes: Mapping[str, Sequence[Outcome]],
        failures: Mapping[str, str],
        order: Sequence[str],
        comparison: Outcome,
    ) -> TuningResult:
        """The result of a tuning run.

        ``order``: the candidates that did not fail, ranked by their validations during training. ``comparison``: the
        comparison of the best ones on the whole validation set.
        """
        from weft.pairs.halving import better

        metric = candidates[0].recipe.training.metric
        direction = better(metric)
        values = comparison.get("values", {})
        results = [_result(candidate, outcomes[candidate.name], failures, values) for candidate in candidates]
        sign = 1.0 if direction == "higher" else -1.0

        def place(result: CandidateResult) -> tuple[Any, ...]:
            if result.name not in order:
                return (2, 0.0, list(failures).index(result.name) if result.name in failures else len(failures))
            if result.whole is not None:
                return (0, -sign * result.whole, order.index(result.name))
            return (1, 0.0, order.index(result.name))

        results.sort(key=place)
        return cls(
            metric=metric,
            better=direction,
            candidates=results,
            ensemble=_ensemble(results[0], comparison, sign),
            steps=plan.steps,
            rungs=plan.rungs,
            pairs=comparison.get("pairs", 0),
            signature=comparison.get("signature", ""),
            problem=comparison.get("failed", ""),
        )

    def difference_from_base(self) -> tuple[int, float] | None:
        """The improvement of the best candidate over the recipe, and its step.

        On the whole validation set if both were trained to the end, else at the last step at which both were validated.
        """
        base, best, sign = self.base, self.best, 1 if self.better == "higher" else -1
        if base is None or base is best:
            return None
        if base.whole is not None and best.whole is not None:
            return best.step, sign * (best.whole - base.whole)
        base_values, best_values = dict(base.curve), dict(best.curve)
        step = max((step for step in best_values if step in base_values), default=None)
        return None if step is None else (step, sign * (best_values[step] - base_values[step]))

    def record(self) -> dict[str, Any]:
        """The result as JSON values, for results.json and ``--json``."""
        return dict(json_value(asdict(self)))

    def write(self, folder: TuningFolder, recipe: Recipe) -> None:
        """Write results.json, results.tsv, best.toml and the picture."""
        from weft.pictures.tuning_curves import draw_curves

        save_text(folder.path / "results.json", json.dumps(self.record(), indent=1, ensure_ascii=False) + "\n")
        save_text(folder.path / "results.tsv", self._tsv(folder))
        save_text(folder.best, self._best_recipe(folder, recipe))
        draw_curves(self, folder.picture, title=f"{recipe.name}: validation of the candidates")

    def _tsv(self, folder: TuningFolder) -> str:
        header = ("candidate", "change", "state", "step", self.metric, "whole set", "low", "high", "parameters")
        rows: list[tuple[str, ...]] = [(*header, "seconds", "run or problem")]
        for c in self.candidates:
            low, high = c.interval or (None, None)
            numbers = (c.step, c.value, c.whole, low, high, c.parameters, round(c.seconds, 1))
            run = c.problem or (str(folder.run_path(c.name)) if c.curve else "")
            rows.append((c.name, c.change, c.state, *("" if n is None else str(n) for n in numbers), run))
        return "".join("\t".join(row) + "\n" for row in rows)

    def _best_recipe(self, folder: TuningFolder, recipe: Recipe) -> str:
        """The recipe of the best candidate, after comments that say what was tried."""
        best = load_recipe(folder.recipe_path(self.best.name))
        tried = sum(bool(candidate.step) for candidate in self.candidates)
        summary = f"the best of {tried} candidates for {recipe.name}: {self.best.name} ({self.best.change})"
        comments = [
            f"{summary[0].upper()}{summary[1:]}.",
            f"This recipe trains it again: weft train {folder.best}",
            f"Validation {self.metric} ({self.better} is better) and the step it was trained to:",
            *(f"  {_comment_line(candidate, self.metric)}" for candidate in self.candidates),
        ]
        if best.training.steps < recipe.training.steps:
            comments += [
                f"The time allowed for {best.training.steps:,} of the {recipe.training.steps:,} steps of the original "
                "recipe; more may be better.",
            ]
        data = best.data.model_copy(update={"prepared": recipe.data.prepared})
        named = best.model_copy(update={"name": f"{recipe.name}-tuned", "summary": summary, "data": data})
        return write_toml(named, comments)


def _comment_line(candidate: CandidateResult, metric: str) -> str:
    value = candidate.whole if candidate.whole is not None else candidate.value
    reached: str = candidate.state
    if value is not None:
        reached = f"{format_value(value, metric)} at step {candidate.step:,}"
    problem = f" ({' '.join(candidate.problem.split())})" if candidate.problem else ""
    return f"{candidate.name:<18}{reached:<24}{candidate.change}{problem}"


def format_value(value: float | None, metric: str) -> str:
    """A score with the digits that matter."""
    return "–" if value is None else f"{value:.3f}" if metric == "loss" else f"{value:.2f}"


def _result(
    candidate: Candidate,
    outcomes: Sequence[Outcome],
    failures: Mapping[str, str],
    values: Mapping[str, Mapping[str, Any]],
) -> CandidateResult:
    state: State = "stopped" if outcomes else "left out"
    if candidate.name in failures:
        state = "failed"
    elif outcomes and outcomes[-1]["finished"]:
        state = "finished"
    problem = failures.get(candidate.name, "")
    result = CandidateResult(candidate.name, candidate.change, candidate.reason, state, problem=problem)
    if not outcomes:
        return result
    last, whole = outcomes[-1], values.get(candidate.name, {})
    return replace(
        result,
        step=last["step"],
        value=last["value"],
        whole=whole.get("value"),
        interval=None if whole.get("interval") is None else tuple(whole["interval"]),
        p_value=whole.get("p_value"),
        parameters=last["parameters"],
        seconds=last["training_seconds"],
        curve=tuple((int(step), float(value)) for step, value in last["curve"]),
    )


def _ensemble(best: CandidateResult, comparison: Outcome, sign: float) -> EnsembleResult | None:
    value = comparison.get("values", {}).get("ensemble", {}).get("value")
    if value is None or best.whole is None:
        return None
    return EnsembleResult(tuple(comparison["members"]), value, sign * (value - best.whole))
