"""Which sizes vary, and from where."""

from __future__ import annotations

import pytest

from weft.apps.bench.sizes import AXES, BYTES, CHARACTERS, Sizes, base_sizes, check_axis
from weft.errors import RecipeError
from weft.recipe import load_recipe


def test_sizes_double() -> None:
    assert AXES["batch"].values()[:4] == [1, 2, 4, 8] and AXES["source_length"].values(5)[0] == 8


def test_those_of_a_recipe() -> None:
    assert base_sizes(load_recipe("addition"), on_gpu=False) == Sizes(16, 16, 8, 5, CHARACTERS)
    changed = load_recipe("grammar", ["search.size=3", "tokenizer.kind=byte"])
    assert base_sizes(changed, on_gpu=True, at=("batch=7", "source_length=100")) == Sizes(100, 32, 7, 3, BYTES)
    assert base_sizes(load_recipe("grammar", ["tokenizer.size=321"]), on_gpu=False).vocabulary == 321


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ("batc=3", "at='batc=3': unknown size 'batc'; did you mean 'batch'?"),
        ("batch", "at='batch': expected batch=N with a number from 1 on"),
        ("batch=0", "at='batch=0': expected batch=N with a number from 1 on"),
        ("batch=-3", "at='batch=-3': expected batch=N with a number from 1 on"),
        ("vocabulary=³", "at='vocabulary=³': expected vocabulary=N with a number from 500 on"),
    ],
)
def test_refusals(change: str, message: str) -> None:
    with pytest.raises(RecipeError) as error:
        base_sizes(load_recipe("addition"), on_gpu=False, at=(change,))
    assert str(error.value) == message


def test_a_name() -> None:
    assert check_axis("beam", "vary", "beam") == "beam"
    with pytest.raises(RecipeError, match=r"vary='x': unknown size 'x'; choose one of source_length, "):
        check_axis("x", "vary", "x")
