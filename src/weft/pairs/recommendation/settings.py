"""From a profile to the settings of a recipe: what an expert would choose, each choice with its reason."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass
from typing import Any

from weft.data.columns.rows import PairInput
from weft.errors import plural
from weft.pairs.profiling.profile import PairProfile, left_out
from weft.pairs.recommendation.choices import Choice, as_tree
from weft.pairs.recommendation.devices import Device, likely_device
from weft.pairs.recommendation.kinds import TaskProfile, find_task
from weft.pairs.recommendation.network import choose_model
from weft.pairs.recommendation.schedule import choose_training, epoch_tokens
from weft.pairs.recommendation.speed import epochs_in
from weft.pairs.recommendation.splits import NAMES, choose_pairs
from weft.pairs.recommendation.units import choose_units

FEW_EPOCHS = 10
"""Below this many epochs of the usual Transformer, a small one with small batches learns more in the same time."""


@dataclass(frozen=True)
class ChosenSettings:
    """Choices for a corpus, and what is odd about it."""

    choices: list[Choice]
    warnings: list[str]

    def tree(self) -> dict[str, Any]:
        """The recipe as nested dictionaries, for `weft.recipe.make_recipe`."""
        return as_tree(self.choices)


def choose_settings(
    profile: PairProfile,
    parts: dict[str, PairInput] | None = None,
    device: Device | None = None,
    hold_out: Collection[str] = ("valid", "test"),
    steps: int | None = None,
    minutes: float | None = None,
) -> ChosenSettings:
    """A recipe for pairs with this profile; ``parts``: the inputs of all parts that exist.

    ``device``: the device to train on; by default the most likely one on this machine.
    ``hold_out``: the parts that are taken from the training pairs if there is no input for them.
    ``steps``: the number of training steps, if it was given; ``minutes``: the time limit.
    """
    device, parts = device or likely_device(), parts or {"train": profile.input}
    if profile.arrays is not None:
        from weft.pairs.recommendation.arrays import array_warnings, choose_for_arrays

        chosen = choose_for_arrays(profile, parts, device, hold_out, steps)
        return ChosenSettings(chosen, array_warnings(profile, profile.arrays))
    task = find_task(profile)
    choices = [*choose_pairs(profile, parts, hold_out), task.choice()]
    choices += choose_units(profile, task)
    few_epochs = None if minutes is None else _few_epochs(profile, task, device, minutes)
    choices += choose_model(profile, task, device, few_epochs)
    tree = as_tree(choices)
    if tree["tokenizer"]["joint"] and tree["model"]["encoder"]["kind"] == "transformer":
        choices.append(Choice("embeddings", "shared by both sides", "one vocabulary", {"model.tie": "all"}))
    choices += choose_training(profile, task, tree, device, steps, few_epochs)
    return ChosenSettings(choices, _warnings(profile))


def _few_epochs(profile: PairProfile, task: TaskProfile, device: Device, minutes: float) -> str | None:
    """The reason for a small model: on a CPU, ``minutes`` allow only a few epochs of the usual Transformer."""
    tree = as_tree(choose_model(profile, task, device))
    if device == "cuda" or tree["model"]["encoder"]["kind"] != "transformer":
        return None
    epochs = epochs_in(60 * minutes, tree, epoch_tokens(profile, task))
    return None if epochs >= FEW_EPOCHS else f"in {minutes:g} min, two CPU cores do {epochs:.1g} epochs of a larger one"


def _warnings(profile: PairProfile) -> list[str]:
    """Warnings to show before training, one line each."""
    warnings = []
    if profile.pairs < 500:
        warnings.append(f"{plural(profile.pairs, 'pair')}: very few; expect errors, and collect more")
    if profile.sampled > 1 and profile.target.distinct * profile.sampled <= 1:
        warnings.append("all targets are equal; there is nothing to learn")
    if profile.relations.identical > 0.5:
        warnings.append(f"{profile.relations.identical:.0%} of the pairs have equal sides; a copy would score well")
    if profile.looks_swapped:
        swap = ": --source 2 --target 1" if profile.columns.is_plain and profile.input.targets is None else ""
        warnings.append(f"the sides look swapped: symbols in the source, words in the target; if so, swap them{swap}")
    for part, share in profile.overlaps.items():
        if share > 0.01:
            warnings.append(
                f"{share:.0%} of the {NAMES[part]} have a source that is trained on; scores will be too good"
            )
    for part, differences in profile.differences.items():
        warnings += differences.lines(NAMES[part])
    if profile.duplicates > 0.05:
        warnings.append(f"{profile.duplicates:.0%} of the pairs are duplicates")
    if profile.blank > 0:
        warnings.append(f"{profile.blank:.1%} of the pairs have a blank side and are left out")
    if profile.bad_rows:
        warnings.append(left_out(profile.bad_rows, profile.first_error))
    warnings += [f"{NAMES[part]}: {error}" for part, error in profile.part_errors.items()]
    if profile.sorted_by_length:
        warnings.append("sorted by length; training shuffles the pairs")
    return warnings
