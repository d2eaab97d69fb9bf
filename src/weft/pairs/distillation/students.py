"""The recipe of a student.

By name, a student has the recipe of its teacher with a model of another size:

    same      the model of the teacher; with one teacher, self-distillation
    small     half the width, half the layers
    tiny      a quarter of the width, half the encoder's layers, one decoder layer
    shallow   one decoder layer, which is what search spends its time in        Kasai et al. 2021

Sizes are relative, so that they mean the same for recurrent networks and Transformers. A recipe of a file has any
model. The student reads with the teacher's tokenizer, unless its recipe or a change has settings of [tokenizer].
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any, NamedTuple

from weft.errors import RecipeError, nearest, option
from weft.recipe import Recipe, make_recipe, parse_change
from weft.recipe.files import find_recipe, read_tree

GPU_MULTIPLE = 8
"""Widths that are not very small are multiples of this."""


class StudentSize(NamedTuple):
    """The size of a student relative to its teacher's."""

    width: float = 1.0
    encoder_layers: float = 1.0
    decoder_layers: float = 1.0
    """0: one layer."""


STUDENTS = {
    "same": StudentSize(),
    "small": StudentSize(1 / 2, 1 / 2, 1 / 2),
    "tiny": StudentSize(1 / 4, 1 / 2, 0),
    "shallow": StudentSize(1, 1, 0),
}
UNINHERITED = {"start", "lora", "freeze", "layer_decay", "distillation"}
"""Settings of the teacher's [training] that are about weights which the student does not have."""


class Student(NamedTuple):
    """The recipe of a student."""

    recipe: Recipe
    """Its [data] names the pairs whose sources the teacher translates."""
    has_own_tokenizer: bool


def make_student(
    teacher: Path, name: str, recipe: Path | str | None, data: dict[str, Any], changes: Sequence[str]
) -> Student:
    """The student of this name, or of a recipe; ``teacher``: the teacher's run folder; ``data``: its new [data]."""
    taught = read_tree(teacher / "recipe.toml")
    tree = named_student(taught, name) if recipe is None else read_tree(find_recipe(recipe))
    paths = [parse_change(change)[0] for change in changes]
    for path in paths:
        if path[:2] in (["data", "train"], ["data", "holdout"], ["data", "prepared"]):
            raise RecipeError(f"--set {'.'.join(path)}: the student's pairs are those of {option('data')}")
    own = (recipe is not None and "tokenizer" in tree) or any(
        path[0] == "tokenizer" and path[1:2] not in (["dropout"], ["variants"]) for path in paths
    )
    if not own:
        removed = {"file", "target_file", "extend", "new_languages"}
        tree["tokenizer"] = {key: value for key, value in taught["tokenizer"].items() if key not in removed}
    tree["data"] = data
    return Student(make_recipe(tree, list(changes)), own)


def named_student(teacher: dict[str, Any], name: str) -> dict[str, Any]:
    """The settings of a student by its name and those of the teacher."""
    if name not in STUDENTS:
        raise RecipeError(f"{option('student', name)}: unknown student; {nearest(name, STUDENTS)}")
    training = {key: value for key, value in teacher["training"].items() if key not in UNINHERITED}
    evaluation = {key: value for key, value in teacher.get("evaluation", {}).items() if key != "former"}
    return {
        **teacher,
        "name": f"{teacher['name']}-{name}",
        "model": resized(teacher["model"], STUDENTS[name]),
        "training": training,
        "evaluation": evaluation,
    }


def resized(model: dict[str, Any], size: StudentSize) -> dict[str, Any]:
    """The settings of a model of another size."""
    if size == StudentSize():
        return dict(model)
    layers = {"encoder": size.encoder_layers, "decoder": size.decoder_layers}
    stacks = {side: _resized_stack(model[side], size.width, layers[side]) for side in layers if side in model}
    attention = dict(model.get("attention", {}))
    if attention.get("size"):
        attention["size"] = _width(attention["size"], size.width)
    return {**model, **stacks, "attention": attention, "embedding": _width(model["embedding"], size.width)}


def _resized_stack(stack: dict[str, Any], width: float, layers: float) -> dict[str, Any]:
    """The settings of an encoder or a decoder of another size."""
    changed = {
        **stack,
        "layers": max(1, round(stack["layers"] * layers + 0.01)),
        "hidden": _width(stack["hidden"], width),
    }
    if "heads" not in stack:
        return changed
    changed.pop("alignment_heads", None)
    head_size = stack.get("head_size", 0)
    heads = max(1, int(stack["heads"] * width))
    even = stack.get("positions") == "rotary"
    while not head_size and (changed["hidden"] % heads or (even and changed["hidden"] // heads % 2)):
        heads -= 1
    groups = stack.get("key_value_heads", 0)
    kept_groups = groups if groups and heads % groups == 0 else 0
    feed_forward = _width(stack["feed_forward"], width)
    return {**changed, "heads": heads, "key_value_heads": kept_groups, "feed_forward": feed_forward}


def _width(value: int, factor: float) -> int:
    """A width times a factor, even, and a multiple of `GPU_MULTIPLE` unless it is small."""
    multiple = GPU_MULTIPLE if value * factor >= 4 * GPU_MULTIPLE else 2
    return max(2, multiple * round(value * factor / multiple)) if factor != 1 else value
