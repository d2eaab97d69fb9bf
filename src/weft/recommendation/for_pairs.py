"""From pairs that a command line names to a checked recipe: profile, recommendation, and what was given beside it."""

from __future__ import annotations

from collections.abc import Sequence
from copy import deepcopy
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from weft.data.profiling.inputs import PairsArgument
from weft.data.profiling.profile import PairProfile, profile_parts
from weft.errors import RecipeError
from weft.recipe import Recipe, load_recipe, make_recipe, parse_change
from weft.recipe.files import find_recipe, read_tree, with_paths
from weft.recipe.loading import starting_from
from weft.recommendation.choices import Choice, as_tree
from weft.recommendation.devices import Device, likely_device
from weft.recommendation.recommend import Recommendation, recommend

OF_THE_CORPUS = ("data.train", "data.valid", "data.test", "data.holdout", "data.bad_rows")
"""Settings that name the pairs; another recipe has its own."""


@dataclass(frozen=True)
class RecommendedRecipe:
    """A recipe for pairs, and the choices in it that were not overridden."""

    recipe: Recipe
    choices: list[Choice]
    warnings: list[str]

    def lines(self) -> list[str]:
        """A line for each choice and each warning."""
        return [*(choice.line() for choice in self.choices), *(f"warning: {warning}" for warning in self.warnings)]


def recommend_recipe(
    pairs: PairsArgument,
    changes: Sequence[str] = (),
    *,
    like: str | None = None,
    start: Path | None = None,
    minutes: float | None = None,
) -> RecommendedRecipe:
    """The recipe for these pairs, with ``a.b=c`` changes applied; no torch is imported.

    ``like``: a recipe whose choices are taken over, but for the pairs. ``start``: a run whose model and tokenizer are.
    ``minutes``: the time that there is for training.
    """
    base = None if like is None else _base(like)
    given = [parse_change(change)[0] for change in changes]
    device = _device(changes)
    parts = pairs.inputs()
    profile = profile_parts(parts, columns=pairs.columns)
    hold_out = [part for part in ("valid", "test") if not _is_given(part, given)]
    minutes = minutes if start is None else None  # a trained model needs little time
    recommendation = recommend(profile, parts, device, hold_out, _steps(changes), minutes)
    choices, tree = recommendation.choices, recommendation.tree()
    if base is not None and like is not None:
        choices, tree = _like(like, base, recommendation, profile)
    if start is not None:
        tree = starting_from(tree, start)
        choices = [choice for choice in choices if not _sets(choice, (["model"], ["tokenizer"]))]
        choices = [choice for choice in choices if choice.topic != "target units"]
        choices.append(Choice("model and tokenizer", f"those of {start}", "--from"))
        if (rate := _fine_tuning_rate(tree, start, given)) is not None:
            tree["training"]["learning_rate"] = rate.settings["training.learning_rate"]
            choices = [rate if choice.topic == "learning rate" else choice for choice in choices]
    tree.setdefault("name", pairs.run_name)
    choices = [choice for choice in choices if not _sets(choice, given)]
    recipe, choices = _checked(tree, changes, choices)
    return RecommendedRecipe(recipe, choices, recommendation.warnings)


def _fine_tuning_rate(tree: dict[str, Any], start: Path, given: Sequence[Sequence[str]]) -> Choice | None:
    """A learning rate no higher than that of the run to start from, if that changes the one in ``tree``.

    For adapters, three times the rate of weights, and no more than ten times that of the run: benchmarks/RESULTS.md.
    """
    adapters = any([*name][:2] == ["training", "lora"] for name in given)
    limit = load_recipe(Path(start) / "recipe.toml").training.learning_rate * (10 if adapters else 1)
    chosen = tree.get("training", {}).get("learning_rate")
    if chosen is None or (chosen <= limit and not adapters):
        return None
    if adapters and 3 * chosen <= limit:
        rate, reason = 3 * chosen, "for adapters, three times that of weights"
    else:
        rate, reason = limit, f"{'ten times that' if adapters else 'that'} of {start}"
    return Choice("learning rate", f"{rate:g}", reason, {"training.learning_rate": rate})


def _is_given(part: str, given: Sequence[Sequence[str]]) -> bool:
    """Whether the changes say which pairs a part has."""
    return any([*name] in (["data", part], ["data", "holdout"], ["data", "holdout", part]) for name in given)


def _device(changes: Sequence[str]) -> Device:
    """The kind of device that training.device is set to, or that this machine likely has."""
    values = [value for name, value in map(parse_change, changes) if name == ["training", "device"]]
    if values and str(values[-1]).startswith(("cpu", "cuda")):
        return "cpu" if str(values[-1]) == "cpu" else "cuda"
    return likely_device()


def _steps(changes: Sequence[str]) -> int | None:
    """The number of steps that training.steps is set to; None if it is not set to a valid number."""
    values = [value for name, value in map(parse_change, changes) if name == ["training", "steps"]]
    return values[-1] if values and type(values[-1]) is int and values[-1] > 0 else None


def _base(like: str) -> dict[str, Any]:
    """The settings of another recipe; its paths are absolute, since its folder is not that of the pairs."""
    tree = read_tree(find_recipe(like))
    folder = tree.get("data", {}).get("folder", ".")
    return with_paths(
        tree, lambda name: str(Path(folder) / name), (("tokenizer", "file"), ("tokenizer", "target_file"))
    )


def _sets(choice: Choice, names: Sequence[Sequence[str]]) -> bool:
    """Whether a choice makes one of these settings, or one of these groups of settings."""
    made = [name.split(".") for name in choice.settings]
    return any(name[: len(group)] == [*group] or [*group][: len(name)] == name for name in made for group in names)


def _like(
    like: str, base: dict[str, Any], recommendation: Recommendation, profile: PairProfile
) -> tuple[list[Choice], dict[str, Any]]:
    """The choices of another recipe, on these pairs."""
    own = [
        choice
        for choice in recommendation.choices
        if choice.topic in ("columns", "direction")
        or (choice.settings and all(name.startswith(OF_THE_CORPUS) for name in choice.settings))
    ]
    kept = {"pipeline", "max_length", "blank_rows", "temperature", "prompts"}
    tree = {name: value for name, value in base.items() if name not in ("name", "summary", "data")}
    tree["data"] = {name: value for name, value in base.get("data", {}).items() if name in kept}
    for name, value in as_tree(own)["data"].items():
        tree["data"][name] = value
    sources, columns = tree.get("model", {}).get("sources", {}), len(profile.columns.source)
    if sources.get("count", 1) not in (1, columns):
        tree["model"] = {**tree["model"], "sources": {**sources, "count": columns}}
    return [*own, Choice("all other settings", f"those of the recipe {like}", "--like")], tree


def _checked(tree: dict[str, Any], changes: Sequence[str], choices: list[Choice]) -> tuple[Recipe, list[Choice]]:
    """The recipe; a choice that contradicts what was given is given up, and so is its line."""
    given = {".".join(parse_change(change)[0]) for change in changes}
    while True:
        try:
            return make_recipe(deepcopy(tree), changes), choices
        except RecipeError as error:
            names = [line.split(":")[0] for line in str(error).split("\n")]
            removable = [name for name in names if given and name not in given and _remove(tree, name)]
            if not removable:
                raise
            groups = [name.split(".") for name in removable]
            choices = [choice for choice in choices if not _sets(choice, groups)]


def _remove(tree: dict[str, Any], name: str) -> bool:
    """Remove a setting, which then has its default; whether there was one."""
    *groups, last = name.split(".")
    branch: Any = tree
    for group in groups:
        branch = branch.get(group) if isinstance(branch, dict) else None
    return isinstance(branch, dict) and branch.pop(last, None) is not None
