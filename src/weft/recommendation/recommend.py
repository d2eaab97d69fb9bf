"""From a profile to a recipe."""

from __future__ import annotations

from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from weft.data.profiling.columns import ColumnLayout
from weft.data.profiling.inputs import PairInput
from weft.data.profiling.profile import PairProfile
from weft.data.profiling.rows import RowStream
from weft.errors import plural
from weft.recommendation.choices import Choice, as_tree
from weft.recommendation.devices import Device, likely_device
from weft.recommendation.kinds import find_task
from weft.recommendation.network import choose_model
from weft.recommendation.schedule import choose_training
from weft.recommendation.units import choose_units


@dataclass(frozen=True)
class Recommendation:
    """Choices for a corpus, and what is odd about it."""

    choices: list[Choice]
    warnings: list[str]

    def tree(self) -> dict[str, Any]:
        """The recipe as nested dictionaries, for `weft.recipe.make_recipe`."""
        return as_tree(self.choices)


def recommend(
    profile: PairProfile, parts: dict[str, PairInput] | None = None, device: Device | None = None
) -> Recommendation:
    """A recipe for pairs that look like this; ``parts``: the inputs of all parts that there are.

    ``device``: where the model is to be trained; if not given, where it most likely will be on this machine.
    """
    device = device or likely_device()
    task = find_task(profile)
    choices = [*_choose_data(profile, parts or {"train": profile.input}), task.choice()]
    choices += choose_units(profile, task)
    choices += choose_model(profile, task, device)
    tree = as_tree(choices)
    if tree["tokenizer"]["joint"] and tree["model"]["encoder"]["kind"] == "transformer":
        choices.append(Choice("embeddings", "shared by both sides", "one vocabulary", {"model.tie": "all"}))
    choices += choose_training(profile, task, tree, device)
    return Recommendation(choices, _warnings(profile))


def _choose_data(profile: PairProfile, parts: dict[str, PairInput]) -> list[Choice]:
    """The corpora of all parts and, of two files, which one is the source."""
    data = {f"data.{part}": _corpus(profile.columns, value) for part, value in parts.items()}
    if profile.bad_rows:
        data["data.bad_rows"] = "skip"
    certainty = {"exact": "", "estimated": "about ", "at least": "at least "}[profile.count.certainty]
    choices = [Choice("pairs", f"{certainty}{profile.count.rows:,}", profile.input.name, data)]
    train = parts["train"]
    if train.targets is not None:
        source, target = Path(train.file).name, Path(train.targets).name
        choices.append(Choice("direction", f"{source} to {target}", f"to swap: --source {target} --target {source}"))
    return choices


def _corpus(columns: ColumnLayout, part: PairInput) -> Any:
    """The corpus of a part as a recipe names it; columns that only this part has, as more references, are ignored."""
    if part.format == "tsv" and part.file != "-":
        first = next(iter(RowStream(part)), [])
        known = 1 + max((*columns.source, *columns.target, *columns.ignored, columns.links or 0))
        columns = replace(columns, ignored=(*columns.ignored, *range(known, len(first))))
    return columns.corpus(part)


def _warnings(profile: PairProfile) -> list[str]:
    """What a person should know before training, each in a line."""
    warnings = []
    if profile.pairs < 500:
        warnings.append(f"{plural(profile.pairs, 'pair')}: very few; expect errors, and collect more")
    if profile.sampled > 1 and profile.target.distinct * profile.sampled <= 1:
        warnings.append("all targets are equal; there is nothing to learn")
    if profile.relations.identical > 0.5:
        warnings.append(f"{profile.relations.identical:.0%} of the pairs have equal sides; a copy would score well")
    if profile.looks_swapped:
        warnings.append("the sides look swapped: symbols in the source, words in the target; swap them if so")
    if profile.duplicates > 0.05:
        warnings.append(f"{profile.duplicates:.0%} of the pairs are duplicates")
    if profile.blank > 0:
        warnings.append(f"{profile.blank:.1%} of the pairs have a blank side and are left out")
    if profile.bad_rows:
        warnings.append(f"{profile.bad_rows:,} rows cannot be read and are left out; the first: {profile.first_error}")
    if profile.sorted_by_length:
        warnings.append("sorted by length; training shuffles the pairs")
    return warnings
