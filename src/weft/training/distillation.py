"""Word-level knowledge distillation: a student learns the distributions of a teacher.

loss_t = −(1 − λ) log p(y_t | y_<t, x) − λ Σ_v q(v | y_<t, x) log p(v | y_<t, x)     Kim & Rush 2016, 3.1

p: the student; q: the teacher, frozen; λ = training.distillation. Label smoothing applies to the first term. Both read
the same ids under teacher forcing, so their vocabularies are the same (`weft.pairs.distillation` checks that). Batches
are not padded: `weft.fast` captures no such update.
"""

from __future__ import annotations

from typing import cast

import torch
from torch import nn

from weft.data.store.token_store import Batch
from weft.errors import RecipeError
from weft.models.interface import Model
from weft.recipe import Recipe
from weft.training.forcing import forced_logits
from weft.training.loss import Loss, cross_entropy, single_precision


def distillation_loss(
    model: Model, teacher: Model, batch: Batch, *, weight: float, smoothing: float, begin: int
) -> Loss:
    """(1 − λ) cross-entropy against the targets + λ cross-entropy against the teacher, summed; ``weight``: λ."""
    logits_NV = forced_logits(model, batch, begin=begin)
    with torch.no_grad():
        teacher_NV = single_precision(forced_logits(teacher, batch, begin=begin)).softmax(-1)
    reference = cross_entropy(logits_NV, batch.target.values, smoothing=smoothing)
    against_teacher = nn.functional.cross_entropy(single_precision(logits_NV), teacher_NV, reduction="sum")
    return reference._replace(smoothed=(1 - weight) * reference.smoothed + weight * against_teacher)


def check_teacher(recipe: Recipe, teacher: Model | None) -> None:
    """Fail if a recipe needs a teacher that is not given: a recipe cannot name one, so it makes weft read no folder."""
    if recipe.training.distillation and teacher is None:
        raise RecipeError(
            f"training.distillation: {recipe.training.distillation:g} needs a teacher, which only weft distill names; "
            "train or continue the run with it, or set it to 0"
        )


def freeze_teacher(teacher: Model, device: torch.device) -> Model:
    """The teacher on a device, in evaluation mode."""
    module = cast(nn.Module, teacher)
    return cast(Model, module.to(device).eval().requires_grad_(False))
