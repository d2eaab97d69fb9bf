"""The tables of what a recipe may choose by name."""

import subprocess
import sys
from typing import Literal

import pytest
from pydantic import TypeAdapter, ValidationError

from weft.recipe.choices import CELLS, ENCODERS, SCORES, CellName, ScoreName, resolve

TABLES = {"scores": SCORES, "cells": CELLS, "encoders": ENCODERS}


@pytest.mark.parametrize("table", TABLES.values(), ids=TABLES)
def test_every_line_has_its_class(table):
    for name in table:
        assert resolve(table, name)


@pytest.mark.parametrize("value", ["lstn", "", 1, None, ["lstm"]])
def test_a_choice_is_refused_as_a_literal_is(value):
    errors = []
    for annotation in (CellName, Literal["rnn", "gru", "lstm"]):
        with pytest.raises(ValidationError) as caught:
            TypeAdapter(annotation).validate_python(value)
        [problem] = caught.value.errors(include_url=False)
        errors.append(problem)
    assert errors[0] == errors[1]


def test_the_schema_lists_the_names():
    assert TypeAdapter(CellName).json_schema() == TypeAdapter(Literal["rnn", "gru", "lstm"]).json_schema()
    assert TypeAdapter(ScoreName).json_schema()["enum"] == ["none", *SCORES]


def test_a_new_line_is_a_new_choice(monkeypatch):
    monkeypatch.setitem(CELLS, "mine", f"{__name__}:TABLES")
    assert TypeAdapter(CellName).validate_python("mine") == "mine"
    assert "mine" in TypeAdapter(CellName).json_schema()["enum"]


def test_reading_a_recipe_imports_no_torch():
    code = (
        "import sys; from weft.recipe import load_recipe; load_recipe('luong2015'); assert 'torch' not in sys.modules"
    )
    subprocess.run([sys.executable, "-c", code], check=True)
