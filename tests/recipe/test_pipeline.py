"""The steps of data.pipeline in a recipe: checked by their own classes, and refused in one line."""

import subprocess
import sys

import pytest
from pydantic import TypeAdapter, ValidationError

from weft.recipe.choices import STEPS, resolve
from weft.recipe.pipeline import AnyStep

STEP = TypeAdapter(AnyStep)
REQUIRED = {
    "scripts": {"allowed": ["Latin", "Greek"]},
    "pattern": {"expression": "^a"},
    "prefix": {"text": "<2de>"},
    "replace": {"expression": "(a)", "replacement": r"\1\1"},
    "truncate": {"max": 400},
    "noise": {"drop": 0.1},
    "exchange": {"groups": [[["a", "x"], ["b", "y"]]]},
    "substitute": {"groups": [[["a b", "x"], ["b", "y y"]]]},
}


@pytest.mark.parametrize("kind", STEPS)
def test_every_kind_is_validated_by_its_class_described_and_written(kind):
    step = STEP.validate_python({"kind": kind, **REQUIRED.get(kind, {})})
    assert type(step) is resolve(STEPS, kind) and step.kind == kind
    assert STEP.validate_python(step) is step
    assert str(step).startswith(f"{kind}: ") and "\n" not in str(step)
    assert all(field.description for field in type(step).model_fields.values())
    assert STEP.validate_json(STEP.dump_json(step)) == step


def test_a_recipe_without_steps_imports_no_filters():
    program = "import sys; from weft.recipe import load_recipe; load_recipe('grammar'); print(*sys.modules)"
    modules = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True).stdout.split()
    assert "weft.recipe.pipeline" in modules and not [name for name in modules if name.startswith("weft.data")]


def test_the_schema_lists_every_step():
    schema = STEP.json_schema()
    assert [step["properties"]["kind"]["const"] for step in schema["oneOf"]] == list(STEPS)


@pytest.mark.parametrize(
    ("value", "message"),
    [
        ({}, "data.pipeline: a step has no kind; for example {kind = 'length', max = 100}"),
        ("length", "data.pipeline: a step has no kind; for example {kind = 'length', max = 100}"),
        ({"kind": "lenght"}, "data.pipeline: 'lenght' is not a kind of step; did you mean 'length'?"),
        ({"kind": "call", "function": "os.system"}, "data.pipeline: 'call' is not a kind of step; choose one of leng"),
        ({"kind": 3}, "data.pipeline: 3 is not a kind of step; choose one of length,"),
        ({"kind": ["length"]}, "data.pipeline: ['length'] is not a kind of step"),
        ({"kind": "length", "min": 5, "max": 4}, "data.pipeline: length: min = 5 is above max = 4"),
        (
            {"kind": "pattern", "expression": "(a"},
            "data.pipeline: '(a' is not a regular expression: missing ), unterminated subpattern at position 0",
        ),
        ({"kind": "replace", "expression": "*"}, "data.pipeline: '*' is not a regular expression: nothing to repeat"),
        (
            {"kind": "replace", "expression": "a", "replacement": r"\1"},
            r"data.pipeline: '\\1' cannot replace 'a': invalid group reference 1",
        ),
        (
            {"kind": "replace", "expression": "a", "replacement": r"\g<x>"},
            r"data.pipeline: '\\g<x>' cannot replace 'a': unknown group name 'x'",
        ),
        ({"kind": "prefix", "text": " "}, "data.pipeline: prefix: the text is blank; give one, such as text = '<2de>'"),
        ({"kind": "scripts", "allowed": ["latin"]}, "data.pipeline: scripts: 'latin' is not a script; did you mean"),
        ({"kind": "scripts", "allowed": ["Common"]}, "data.pipeline: scripts: 'Common' is not a script; "),
        ({"kind": "noise"}, "data.pipeline: noise: all are 0; set drop, blank, replace or shuffle_distance"),
        ({"kind": "noise", "drop": 0.7, "blank": 0.7}, "data.pipeline: noise: drop, blank and replace sum to 1.4"),
        (
            {"kind": "noise", "blank": 0.1, "blank_text": "a b"},
            "data.pipeline: noise: blank_text = 'a b'; it must be one word",
        ),
    ],
)
def test_an_error_is_one_line(value, message):
    with pytest.raises(ValidationError) as caught:
        STEP.validate_python(value)
    (error,) = caught.value.errors()
    assert error["type"] == "value_error"
    text = str(error["ctx"]["error"])
    assert text.startswith(message) and "\n" not in text


@pytest.mark.parametrize(
    ("value", "location"),
    [
        ({"kind": "length", "maxx": 3}, ("<length>", "maxx")),
        ({"kind": "length", "max": "3"}, ("<length>", "max")),
        ({"kind": "length", "side": "left"}, ("<length>", "side")),
        ({"kind": "ratio", "max": 0.5}, ("<ratio>", "max")),
        ({"kind": "ratio", "max": float("nan")}, ("<ratio>", "max")),
        ({"kind": "scripts"}, ("<scripts>", "allowed")),
        ({"kind": "scripts", "allowed": []}, ("<scripts>", "allowed")),
        ({"kind": "pattern"}, ("<pattern>", "expression")),
        ({"kind": "noise", "drop": 1.1}, ("<noise>", "drop")),
    ],
)
def test_an_error_is_located_at_the_kind_and_the_setting(value, location):
    with pytest.raises(ValidationError) as caught:
        STEP.validate_python(value)
    assert caught.value.errors()[0]["loc"] == location
