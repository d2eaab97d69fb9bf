"""[data]: pipelines that are written and read again, and wrong values refused in one line."""

import tomllib

import pytest

from weft.errors import RecipeError
from weft.recipe import make_recipe
from weft.recipe.choices import STEPS as STEP_TABLE
from weft.recipe.choices import resolve
from weft.recipe.toml import write_toml

STEPS = [
    {"kind": "length", "min": 2, "max": 9, "unit": "characters", "side": "source"},
    {"kind": "ratio", "max": 2.5},
    {"kind": "duplicates", "of": "target"},
    {"kind": "identical"},
    {"kind": "scripts", "allowed": ["Latin", "Greek"], "min_share": 0.75},
    {"kind": "pattern", "expression": r'^"\w+\s$', "keep": False},
    {"kind": "lowercase", "side": "target"},
    {"kind": "prefix", "text": "<2de>"},
    {"kind": "replace", "expression": r"(\d)\\", "replacement": r"\1\t"},
    {"kind": "truncate", "max": 7, "unit": "characters", "side": "both"},
    {"kind": "noise", "drop": 0.1, "shuffle_distance": 2},
    {"kind": "exchange", "groups": [[["a", "x"], ["b", "y"]], [["c", "z"], ["d", "w"]]]},
    {"kind": "substitute", "groups": [[["a b", "x"], ["b", 'y "y']]], "probability": 0.25},
    {"kind": "splice", "probability": 0.75, "context": 3, "unit": "characters"},
]


def again(recipe, folder):
    """A recipe written as TOML and read."""
    (folder / "written.toml").write_text(write_toml(recipe), "utf-8")
    return make_recipe(tomllib.loads((folder / "written.toml").read_text("utf-8")))


def refusal(tree, changes=()):
    with pytest.raises(RecipeError) as caught:
        make_recipe(tree, changes)
    assert "\n" not in str(caught.value)
    return str(caught.value)


def test_every_step_survives_being_written(tmp_path):
    assert [step["kind"] for step in STEPS] == list(STEP_TABLE)
    recipe = make_recipe({"data": {"pipeline": STEPS}})
    assert [type(one) for one in recipe.data.pipeline] == [resolve(STEP_TABLE, kind) for kind in STEP_TABLE]
    assert again(recipe, tmp_path) == recipe


def test_steps_may_be_written_as_groups():
    text = '[[data.pipeline]]\nkind = "length"\nmax = 5\n\n[[data.pipeline]]\nkind = "identical"\n'
    assert [one.kind for one in make_recipe(tomllib.loads(text)).data.pipeline] == ["length", "identical"]


@pytest.mark.parametrize(
    ("kind", "key", "meant"),
    [
        ("length", "maxx", "max"),
        ("ratio", "units", "unit"),
        ("duplicates", "off", "of"),
        ("scripts", "alowed", "allowed"),
        ("pattern", "expresion", "expression"),
        ("lowercase", "sides", "side"),
        ("prefix", "texts", "text"),
        ("replace", "replacment", "replacement"),
        ("noise", "dropp", "drop"),
    ],
)
def test_an_unknown_key_of_a_step_gets_the_nearest_of_that_step(kind, key, meant):
    [step] = [step for step in STEPS if step["kind"] == kind]
    message = refusal({"data": {"pipeline": [{"kind": "identical"}, {**step, key: 1}]}})
    assert message == f"data.pipeline.1.{key}: unknown setting; did you mean {meant!r}?"


@pytest.mark.parametrize(
    ("data", "message"),
    [
        ({"train": {"name": 3}}, "data.train.name: 3 was given; input should be a valid string"),
        ({"train": 3}, "data.train: 3 was given; input should be a valid string"),
        ({"train": []}, "data.train: [] was given; list should have at least 1 item"),
        ({"train": [["a"]]}, "data.train.0: ['a'] was given; input should be a valid string"),
        ({"train": {"file": "a", "source": 1}}, "data.train.target: missing"),
        ({"train": {"source": "a"}}, "data.train.target: missing"),
        ({"train": {"dataset": "a", "target": "b"}}, "data.train.source: missing"),
        (
            {"train": {"dataset": "a", "source": 1, "target": "b"}},
            "data.train.source: 1 was given; columns of a data set have names, not numbers",
        ),
        (
            {"train": {"file": "a", "source": 1, "target": 2, "format": "xml"}},
            "data.train.format: 'xml' was given; input should be 'auto', 'tsv', 'csv', 'jsonl' or 'parquet'",
        ),
        (
            {"train": {"file": "a", "source": 1, "target": 2, "delimiter": "ab"}},
            "data.train.delimiter: 'ab' was given; string should have at most 1 character",
        ),
        (
            {"train": {"file": "a", "source": 0, "target": 2}},
            "data.train.source: 0 was given; expected a column's name, or its number from 1 on",
        ),
        (
            {"train": {"file": "a", "source": [], "target": 2}},
            "data.train.source: [] was given; expected a column's name or number, or a list of them",
        ),
        ({"train": {"file": "a", "source": 1.5, "target": 2}}, "data.train.source: 1.5 was given; expected a column"),
        ({"train": {"instructions": []}}, "data.train.instructions: [] was given; expected a file's name, or a list"),
        ({"train": {"source": "a", "target": 3}}, "data.train.target: 3 was given; expected a file's name, or a list"),
        (
            {"train": {"file": "a", "source": 1, "target": 2, "tags": 3}},
            "data.train.tags: 3 was given; column 3 is in neither source nor",
        ),
        ({"train": {"name": "x", "tag": " "}}, "data.train: the tag is blank; give one, such as tag = '<2de>'"),
        (
            {"train": {"source": "a\0", "target": "b"}},
            "data.train.source: 'a\\x00' was given; expected a file's name, or a list",
        ),
        ({"train": {"dialogues": "x", "context": 0}}, "data.train.context: 0 was given; input should be greater than"),
        ({"train": {"name": "x", "weight": 0.0}}, "data.train.weight: 0.0 was given; input should be greater than 0"),
        (
            {"train": {"name": "x", "first_step": 5, "last_step": 3}},
            "data.train: last_step 3 is before first_step 5",
        ),
        ({"bad_rows": "ignore"}, "data.bad_rows: 'ignore' was given; input should be 'error' or 'skip'"),
        ({"blank_rows": "ignore"}, "data.blank_rows: 'ignore' was given; input should be 'error' or 'skip'"),
        ({"temperature": 0.5}, "data.temperature: 0.5 was given; input should be greater than or equal to 1"),
        ({"workers": -1}, "data.workers: -1 was given; input should be greater than or equal to 0"),
        ({"pipeline": {"kind": "length"}}, "data.pipeline: {'kind': 'length'} was given; input should be a valid list"),
        ({"pipeline": [{"kind": "lenght"}]}, "data.pipeline: 'lenght' is not a kind of step; did you mean 'length'?"),
        ({"pipeline": ["length"]}, "data.pipeline: a step has no kind; for example"),
        ({"pipeline": [{"kind": "prefix"}]}, "data.pipeline.0.text: missing"),
        ({"pipeline": [{"kind": "length", "max": "9"}]}, "data.pipeline.0.max: '9' was given; input should be a"),
        (
            {"streaming": True, "prepared": "x"},
            "data.streaming: a stream is not prepared; leave out data.prepared",
        ),
        (
            {"streaming": True, "pipeline": [{"kind": "identical"}, {"kind": "duplicates"}]},
            "data.streaming: duplicates are known only after reading everything; leave out that step",
        ),
        ({"prompt": True}, "data.prompt: unknown setting; did you mean 'prompts'?"),
    ],
)
def test_a_wrong_value_is_one_line(data, message):
    assert refusal({"data": data}).startswith(message)
