"""The settings of pipeline steps: they make the steps, with the same names and defaults, and refuse in one line."""

import dataclasses
from typing import get_args

import pytest
from pydantic import TypeAdapter, ValidationError

from weft.data.filtering.steps import STEPS
from weft.recipe.pipeline import KINDS, StepSettings

STEP = TypeAdapter(StepSettings)
NEEDED = {
    "scripts": {"allowed": ["Latin", "Greek"]},
    "pattern": {"expression": "^a"},
    "prefix": {"text": "<2de>"},
    "replace": {"expression": "(a)", "by": r"\1\1"},
    "noise": {"drop": 0.1},
}


def test_every_step_has_settings_and_no_other():
    assert list(KINDS) == list(STEPS)
    assert [part.__origin__ for part in get_args(get_args(StepSettings)[0])] == list(KINDS.values())


@pytest.mark.parametrize("kind", STEPS)
def test_settings_make_the_step_with_the_same_defaults(kind):
    needed = NEEDED.get(kind, {})
    settings = STEP.validate_python({"kind": kind, **needed})
    assert type(settings) is KINDS[kind]
    step = STEPS[kind](**settings.model_dump(exclude={"kind"}))
    assert step == STEPS[kind](**needed)
    fields = [field.name for field in dataclasses.fields(step)]
    assert sorted(fields) == sorted(set(type(settings).model_fields) - {"kind"})
    assert str(step).startswith(f"{kind}: ") and "\n" not in str(step)


@pytest.mark.parametrize("kind", KINDS)
def test_every_setting_has_one_line_of_help(kind):
    assert all(field.description for field in KINDS[kind].model_fields.values())


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({}, "data.pipeline: a step has no kind; for example {kind = 'length', most = 100}"),
        ("length", "data.pipeline: a step has no kind; for example {kind = 'length', most = 100}"),
        ({"kind": "lenght"}, "data.pipeline: 'lenght' is no kind of step; did you mean 'length'?"),
        ({"kind": "call", "function": "os.system"}, "data.pipeline: 'call' is no kind of step; choose one of length,"),
        ({"kind": 3}, "data.pipeline: 3 is no kind of step; choose one of length,"),
        ({"kind": ["length"]}, "data.pipeline: ['length'] is no kind of step"),
        ({"kind": "length", "least": 5, "most": 4}, "data.pipeline: length: least = 5 is above most = 4"),
        (
            {"kind": "pattern", "expression": "(a"},
            "data.pipeline: '(a' is no regular expression: missing ), unterminated subpattern at position 0",
        ),
        ({"kind": "replace", "expression": "*"}, "data.pipeline: '*' is no regular expression: nothing to repeat"),
        (
            {"kind": "replace", "expression": "a", "by": r"\1"},
            r"data.pipeline: '\\1' cannot replace 'a': invalid group reference 1",
        ),
        (
            {"kind": "replace", "expression": "a", "by": r"\g<x>"},
            r"data.pipeline: '\\g<x>' cannot replace 'a': unknown group name 'x'",
        ),
        ({"kind": "prefix", "text": " "}, "data.pipeline: prefix: the text is blank; give one, such as text = '<2de>'"),
        ({"kind": "noise"}, "data.pipeline: noise: there is none; set drop, blank, replace or swap"),
        ({"kind": "noise", "drop": 0.7, "blank": 0.7}, "data.pipeline: noise: drop, blank and replace sum to 1.4"),
        (
            {"kind": "noise", "blank": 0.1, "blank_text": "a b"},
            "data.pipeline: noise: blank_text = 'a b'; it must be one word",
        ),
    ],
)
def test_what_is_wrong_is_said_in_one_line(given, message):
    with pytest.raises(ValidationError) as caught:
        STEP.validate_python(given)
    (problem,) = caught.value.errors()
    assert problem["type"] == "value_error"
    said = str(problem["ctx"]["error"])
    assert said.startswith(message) and "\n" not in said


@pytest.mark.parametrize(
    ("given", "place"),
    [
        ({"kind": "length", "moost": 3}, ("<length>", "moost")),
        ({"kind": "length", "most": "3"}, ("<length>", "most")),
        ({"kind": "length", "side": "left"}, ("<length>", "side")),
        ({"kind": "ratio", "most": 0.5}, ("<ratio>", "most")),
        ({"kind": "ratio", "most": float("nan")}, ("<ratio>", "most")),
        ({"kind": "scripts"}, ("<scripts>", "allowed")),
        ({"kind": "scripts", "allowed": []}, ("<scripts>", "allowed")),
        ({"kind": "pattern"}, ("<pattern>", "expression")),
        ({"kind": "noise", "drop": 1.1}, ("<noise>", "drop")),
    ],
)
def test_what_is_wrong_is_found_at_the_kind_meant(given, place):
    with pytest.raises(ValidationError) as caught:
        STEP.validate_python(given)
    assert caught.value.errors()[0]["loc"] == place


def test_settings_survive_being_written_as_json():
    for kind in KINDS:
        settings = STEP.validate_python({"kind": kind, **NEEDED.get(kind, {})})
        assert STEP.validate_json(STEP.dump_json(settings)) == settings
