"""Students by name: sizes relative to the teacher's, for every family, and always a model that can be built."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from weft.models.architecture import count_parameters
from weft.models.build import build_model
from weft.pairs.distillation.students import STUDENTS, make_student, named_student
from weft.recipe import Recipe, load_recipe, make_recipe
from weft.recipe.files import SHIPPED, read_tree, shipped
from weft.recipe.toml import write_toml


def tree_of(recipe: Recipe, folder: Path) -> dict[str, Any]:
    """The settings as a run folder has them, defaults included."""
    (folder / "recipe.toml").write_text(write_toml(recipe), "utf-8")
    return read_tree(folder / "recipe.toml")


def parameters(recipe: Recipe) -> int:
    return count_parameters(build_model(recipe.model, source_size=50, target_size=50, loss=recipe.training.loss))


@pytest.mark.parametrize("student", STUDENTS)
@pytest.mark.parametrize("name", [name for name in shipped() if SHIPPED])
def test_every_recipe_has_students(name: str, student: str, tmp_path: Path) -> None:
    teacher = load_recipe(name)
    made = make_recipe(named_student(tree_of(teacher, tmp_path), student))
    assert made.name == f"{teacher.name}-{student}" and made.training.steps == teacher.training.steps
    if student == "same":
        assert made.model == teacher.model
    elif student == "shallow":
        assert made.model.decoder.layers == 1 and made.model.decoder.hidden == teacher.model.decoder.hidden
    else:
        assert made.model.decoder.hidden <= teacher.model.decoder.hidden * STUDENTS[student].width + 8
        assert made.model.decoder.layers <= teacher.model.decoder.layers


@pytest.mark.parametrize("kind", ["lstm", "transformer"])
def test_sizes(kind: str, tmp_path: Path) -> None:
    stack = {"kind": kind, "layers": 4, "hidden": 256}
    stack |= {"heads": 8, "feed_forward": 512, "positions": "rotary"} if kind == "transformer" else {}
    teacher = make_recipe({"model": {"embedding": 256, "encoder": stack, "decoder": stack}})
    tree = tree_of(teacher, tmp_path)
    found = {student: make_recipe(named_student(tree, student)) for student in STUDENTS}
    sizes = {
        name: (one.model.encoder.layers, one.model.decoder.layers, one.model.decoder.hidden)
        for name, one in found.items()
    }
    assert sizes == {"same": (4, 4, 256), "small": (2, 2, 128), "tiny": (2, 1, 64), "shallow": (4, 1, 256)}
    counts = {name: parameters(one) for name, one in found.items()}
    assert counts["same"] > counts["shallow"] > counts["small"] > counts["tiny"]


def test_heads_divide_the_width(tmp_path: Path) -> None:
    stack = {"kind": "transformer", "layers": 3, "hidden": 84, "heads": 6, "key_value_heads": 3, "feed_forward": 20}
    teacher = make_recipe({"model": {"embedding": 84, "encoder": stack, "decoder": stack, "attention": {"size": 12}}})
    for student in STUDENTS:
        model = make_recipe(named_student(tree_of(teacher, tmp_path), student)).model
        assert model.decoder.hidden % model.decoder.heads == 0


def test_what_is_not_inherited(tmp_path: Path) -> None:
    tree = tree_of(make_recipe({"training": {"freeze": ["encoder.*"], "layer_decay": 0.5}}), tmp_path)
    tree["training"] |= {"start": "elsewhere", "lora": {"rank": 4}}
    tree["evaluation"] = {"former": "former.tsv", "metrics": ["bleu"]}
    made = make_recipe(named_student(tree, "same"))
    assert made.training.start is None and not made.training.lora.rank and not made.training.freeze
    assert made.training.layer_decay == 1.0 and made.evaluation.former is None and made.evaluation.metrics == ["bleu"]


def test_the_tokenizer_is_the_teachers_unless_the_recipe_has_one(tmp_path: Path) -> None:
    (tmp_path / "recipe.toml").write_text(write_toml(make_recipe({"tokenizer": {"kind": "character"}})), "utf-8")
    (tmp_path / "own.toml").write_text("[tokenizer]\nkind = 'byte'\n", "utf-8")
    (tmp_path / "other.toml").write_text("[model]\nembedding = 7\n", "utf-8")
    data = {"train": "copy"}
    named = make_student(tmp_path, "same", None, data, [])
    assert not named.has_own_tokenizer and named.recipe.tokenizer.kind == "character"
    own = make_student(tmp_path, "same", tmp_path / "own.toml", data, [])
    assert own.has_own_tokenizer and own.recipe.tokenizer.kind == "byte" and own.recipe.data.train == "copy"
    other = make_student(tmp_path, "same", tmp_path / "other.toml", data, [])
    assert not other.has_own_tokenizer and other.recipe.tokenizer.kind == "character"
    assert other.recipe.model.embedding == 7
    assert make_student(tmp_path, "same", None, data, ["tokenizer.lowercase=true"]).has_own_tokenizer
