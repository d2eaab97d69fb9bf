"""The best candidates on the whole validation set: individually, and as an ensemble."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from weft.pairs.halving import FINALISTS
from weft.recipe import Recipe, load_recipe


def compare_best(arguments: Mapping[str, Any]) -> dict[str, Any]:
    """``folders``: runs, the best first; the first ``finalists`` of them were trained to the end.

    The value of each finalist, and of the ensemble of the best one with the next best that share its vocabulary.
    """
    folders = [Path(folder) for folder in arguments["folders"]]
    finalists, device = folders[: arguments["finalists"]], arguments["device"]
    recipes = {folder: load_recipe(folder / "recipe.toml").accepting_new_data() for folder in folders}
    recipe = recipes[folders[0]]
    members = ensemble_members(folders, recipes)
    if recipe.training.metric == "loss":
        return _losses(finalists, members, recipe, device)
    return _scores(finalists, members, recipe, device)


def ensemble_members(folders: Sequence[Path], recipes: Mapping[Path, Recipe]) -> list[Path]:
    """The first run, and the next ones that can be in an ensemble with it; at most three."""
    first = recipes[folders[0]]
    compatible = [
        folder
        for folder in folders
        if recipes[folder].tokenizer == first.tokenizer and recipes[folder].model.copies == first.model.copies
    ]
    return compatible[:FINALISTS]


def _scores(finalists: list[Path], members: list[Path], recipe: Recipe, device: str) -> dict[str, Any]:
    """Compare by the metric of the recipe, with 95 % intervals and p-values of the differences from the first run."""
    from weft.data.preparation import read_corpus
    from weft.evaluation.comparison import ComparedRun, compare_candidates
    from weft.evaluation.significance import Resampling
    from weft.translation.load import load

    pairs = list(read_corpus(recipe, "valid"))
    candidates = [
        ComparedRun(folder.name, recipe, lambda folder=folder: load(folder, device=device))  # type: ignore[misc]
        for folder in finalists
    ]
    if len(members) > 1:
        candidates.append(ComparedRun("ensemble", recipe, lambda: load(*members, device=device)))
    if len(candidates) == 1:
        candidates *= 2  # one finalist: its own score
    comparison = compare_candidates(
        candidates, pairs, [recipe.training.metric], None, Resampling(1_000, 12_345, "randomization"), {}
    )
    [metric] = comparison.metrics
    values = {}
    for candidate, score in zip(candidates, metric.runs, strict=True):
        p_value = None if score.difference is None else score.difference.p_value
        values[candidate.name] = {"value": score.value, "interval": score.interval, "p_value": p_value}
    return {
        "values": values,
        "members": [folder.name for folder in members],
        "pairs": comparison.pairs,
        "signature": f"{metric.signature}|{comparison.searches[0]}",
    }


def _losses(finalists: list[Path], members: list[Path], recipe: Recipe, device: str) -> dict[str, Any]:
    """Compare by the loss per target token."""
    from weft.data.preparation import read_corpus
    from weft.translation.load import load

    pairs = list(read_corpus(recipe, "valid"))
    groups = {folder.name: [folder] for folder in finalists}
    if len(members) > 1:
        groups["ensemble"] = members
    values = {}
    for name, folders in groups.items():
        scores = load(*folders, device=device, engine="torch", precision="fp32").score(pairs)
        tokens = sum(len(score.token_scores) for score in scores)
        loss = -sum(score.log_probability for score in scores) / max(tokens, 1)
        values[name] = {"value": loss if math.isfinite(loss) else None, "interval": None, "p_value": None}
    return {
        "values": values,
        "members": [folder.name for folder in members],
        "pairs": len(pairs),
        "signature": "loss of a target token",
    }
