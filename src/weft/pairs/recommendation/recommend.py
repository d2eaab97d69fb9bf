"""`weft.recommend`: from pairs to a checked recipe, each choice with its reason; what was given is kept."""

from __future__ import annotations

from collections.abc import Sequence
from copy import deepcopy
from dataclasses import dataclass
from html import escape
from pathlib import Path
from typing import Any

from weft.errors import DataError, RecipeError, plural
from weft.interop.portability import export_lines, portability
from weft.pairs.profiling.inputs import PairsArgument
from weft.pairs.profiling.profile import PairProfile, profile_parts
from weft.pairs.recommendation.choices import Choice, as_tree
from weft.pairs.recommendation.devices import Device, likely_device
from weft.pairs.recommendation.settings import ChosenSettings, choose_settings
from weft.recipe import Recipe, load_recipe, make_recipe, parse_change
from weft.recipe.files import find_recipe, read_tree, with_paths
from weft.recipe.loading import apply_change, starting_from
from weft.recipe.toml import comment, toml_value
from weft.runs.layout import RunFolder

OF_THE_CORPUS = ("data.train", "data.valid", "data.test", "data.holdout", "data.bad_rows")
"""Settings that name the pairs; another recipe has its own."""


@dataclass(frozen=True, repr=False)
class Recommendation:
    """A recipe for pairs, and the reasons of its choices; printed, a line for each."""

    recipe: Recipe
    choices: list[Choice]
    """The choices that no given change overrides."""
    warnings: list[str]
    settings: dict[str, Any]
    """The settings that were chosen or given, as nested dictionaries; all others have their defaults."""
    profile: PairProfile
    """The profile of the pairs."""

    def __repr__(self) -> str:
        return f"<Recommendation for {self.profile.input.name}: {plural(len(self.choices), 'choice')}>"

    def __str__(self) -> str:
        return "\n".join(self.lines())

    def lines(self) -> list[str]:
        """A line for each choice, the formats to which the model can be exported, and a line for each warning."""
        choices = [choice.line() for choice in self.choices]
        return [*choices, *export_lines(self.recipe), *(f"warning: {warning}" for warning in self.warnings)]

    def toml(self) -> str:
        """A recipe file with these settings, for `weft.load_recipe`; the reasons are comments."""
        return "\n".join([*map(comment, self.lines()), "", *_sections(self.settings)]).rstrip() + "\n"

    def record(self) -> dict[str, Any]:
        """Plain values, for JSON."""
        choices = [{"topic": choice.topic, "value": choice.value, "reason": choice.reason} for choice in self.choices]
        exports = {entry.format: entry.refusal for entry in portability(self.recipe)}
        record = {"choices": choices, "exports": exports, "warnings": self.warnings, "recipe": self.settings}
        return {**record, "profile": self.profile.record()}

    def _repr_html_(self) -> str:
        rows = [(choice.topic, choice.value, choice.reason) for choice in self.choices]
        exports = (line.partition(": ") for line in export_lines(self.recipe))
        rows += [(topic, value, "") for topic, _, value in exports]
        rows += [("warning", warning, "") for warning in self.warnings]
        cells = ("".join(f"<td style='text-align:left'>{escape(cell)}</td>" for cell in row) for row in rows)
        return f"<table>{''.join(f'<tr>{row}</tr>' for row in cells)}</table>"


def recommend(
    pairs: str | Path | tuple[str | Path, str | Path],
    *,
    minutes: float | None = None,
    like: str | None = None,
    columns: tuple[str | int, str | int] | None = None,
    changes: Sequence[str] | str = (),
    start: Path | str | None = None,
) -> Recommendation:
    """A recipe for pairs, each choice with its reason; a bounded sample of them is read, and nothing is trained.

        print(weft.recommend("pairs.tsv", minutes=10))

    These are the choices of ``weft.train("pairs.tsv", minutes=10)``, whose parameters are the same.
    """
    source, target = (None, None) if columns is None else map(str, columns)
    if isinstance(pairs, str | Path):
        argument = PairsArgument(str(pairs), source, target)
    elif isinstance(pairs, tuple) and len(pairs) == 2 and all(isinstance(file, str | Path) for file in pairs):
        argument = PairsArgument(None, *map(str, pairs))
    else:
        given = f"recommend: a {type(pairs).__name__} was given"
        raise DataError(f"{given}; expected a file or a folder of pairs (weft.train accepts a list, and saves it)")
    changes = [changes] if isinstance(changes, str) else list(changes)
    start = None if start is None else RunFolder(start).check().path
    return recommend_recipe(argument, changes, like=like, start=start, minutes=minutes)


def recommend_recipe(
    pairs: PairsArgument,
    changes: Sequence[str] = (),
    *,
    like: str | None = None,
    start: Path | None = None,
    minutes: float | None = None,
) -> Recommendation:
    """The recipe for these pairs, with ``a.b=c`` changes applied; no torch is imported.

    ``like``: a recipe whose choices are used, except for the pairs. ``start``: a run whose model and tokenizer are
    used. ``minutes``: the time limit of the training.
    """
    base = None if like is None else _base(like)
    given = [parse_change(change)[0] for change in changes]
    device = _device(changes)
    parts = pairs.inputs()
    profile = profile_parts(parts, columns=pairs.columns)
    hold_out = [part for part in ("valid", "test") if not _is_given(part, given)]
    minutes = minutes if start is None else None  # a trained model needs little time
    chosen = choose_settings(profile, parts, device, hold_out, _steps(changes), minutes)
    choices, tree = chosen.choices, chosen.tree()
    if base is not None and like is not None:
        choices, tree = _like(like, base, chosen, profile)
    if start is not None:
        tree = starting_from(tree, start)
        choices = [choice for choice in choices if not _sets(choice, (["model"], ["tokenizer"]))]
        choices = [choice for choice in choices if choice.topic != "target units"]
        choices.append(Choice("model and tokenizer", f"those of {start}", "--from"))
        if (rate := _fine_tuning_rate(tree, start, given)) is not None:
            tree["training"]["learning_rate"] = rate.settings["training.learning_rate"]
            choices = [rate if choice.topic == "learning rate" else choice for choice in choices]
    choices = [choice for choice in choices if not _sets(choice, given)]
    recipe, choices = _checked(tree, changes, choices, pairs.run_name)
    for change in changes:
        apply_change(tree, change)
    return Recommendation(recipe, choices, chosen.warnings, tree, profile)


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
    like: str, base: dict[str, Any], chosen: ChosenSettings, profile: PairProfile
) -> tuple[list[Choice], dict[str, Any]]:
    """The choices of another recipe, on these pairs."""
    own = [
        choice
        for choice in chosen.choices
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


def _checked(
    tree: dict[str, Any], changes: Sequence[str], choices: list[Choice], name: str
) -> tuple[Recipe, list[Choice]]:
    """The recipe; a choice that contradicts what was given is given up, and so is its line."""
    given = {".".join(parse_change(change)[0]) for change in changes}
    while True:
        try:
            return make_recipe({"name": name, **deepcopy(tree)}, changes), choices
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


def _sections(tree: dict[str, Any], prefix: str = "") -> list[str]:
    """The groups of settings, each with its header; ``data.train`` and the like are values, not groups."""
    values = {name: value for name, value in tree.items() if not _is_group(prefix, name, value)}
    lines = [f"{name} = {toml_value(value)}" for name, value in values.items()]
    parts = ["\n".join([f"[{prefix}]", *lines, ""])] if prefix and lines else lines
    for name, value in tree.items():
        if name not in values:
            parts += _sections(value, f"{prefix}.{name}".removeprefix("."))
    return parts


def _is_group(prefix: str, name: str, value: Any) -> bool:
    return isinstance(value, dict) and (prefix != "data" or name == "holdout")
