"""The methods of distillation and their defaults."""

from __future__ import annotations

from typing import Any

import pytest

from weft.errors import RecipeError
from weft.pairs.distillation.method import Method


def make(name: str, **options: Any) -> Method:
    given = {"references": None, "n_best": None, "teacher_weight": None, "search": {}, **options}
    return Method.make(name, **given)


@pytest.mark.parametrize(
    ("name", "defaults", "text"),
    [
        ("sequence", (0.0, 1, 0.0), "sequence-level, the best output; references 0%"),
        ("interpolation", (0.0, 5, 0.0), "sequence-level interpolation, 5-best output; references 0%"),
        ("word", (1.0, 1, 0.5), "word-level, weight 0.5; references 100%"),
    ],
)
def test_defaults(name: str, defaults: tuple[float, int, float], text: str) -> None:
    method = make(name)
    assert (method.references, method.n_best, method.teacher_weight) == defaults
    assert method.uses_outputs == (name != "word") and method.describe() == text


def test_methods_combine() -> None:
    both = make("sequence", references=0.25, teacher_weight=0.5, n_best=3)
    assert both.describe() == "sequence-level, 3-best output; word-level, weight 0.5; references 25%"
    assert make("word", references=0.0).uses_outputs


@pytest.mark.parametrize(
    ("name", "options", "message"),
    [
        ("words", {}, "method='words': unknown method; did you mean 'word'"),
        ("sequence", {"references": 1.5}, "references='1.5': expected a number from 0 to 1"),
        ("sequence", {"teacher_weight": -1.0}, "teacher_weight='-1': expected a number from 0 to 1"),
        ("sequence", {"n_best": 0}, "n_best=0: expected a whole number from 1 on"),
        ("interpolation", {"n_best": 1}, "n_best=1: interpolation chooses among several outputs"),
        ("word", {"teacher_weight": 0.0}, "teacher_weight='0': word-level distillation needs a weight above 0"),
    ],
)
def test_bad_options(name: str, options: dict[str, Any], message: str) -> None:
    with pytest.raises(RecipeError) as error:
        make(name, **options)
    assert str(error.value).startswith(message)
