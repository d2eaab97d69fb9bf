"""The forms that a corpus and a pipeline have in a recipe: read, written, read again; and refused in one line."""

import tomllib

import pytest
from hypothesis import given
from hypothesis import strategies as st

from weft.errors import RecipeError
from weft.recipe import load_recipe, make_recipe, write_toml
from weft.recipe.choices import STEPS as STEP_TABLE
from weft.recipe.choices import resolve
from weft.recipe.corpus import (
    DialogueFile,
    HubDataset,
    InstructionFile,
    NamedCorpus,
    ParallelFiles,
    TableFile,
)

FORMS = {
    "a name": ("grammar", str),
    "a file": ("pairs.tsv.gz", str),
    "named": ({"name": "copy", "size": 7, "options": {"length": 3}, "weight": 0.5}, NamedCorpus),
    "files": ({"source": "a.en", "target": "a.de", "tag": "<2de>", "first_step": 3, "last_step": 9}, ParallelFiles),
    "lists of files": ({"source": ["a.en", "b.en"], "target": ["a.de", "b.de"]}, ParallelFiles),
    "a table": ({"file": "t.csv", "source": "en", "target": ["de", 3], "header": True, "delimiter": ";"}, TableFile),
    "a table of features": ({"file": "t.tsv", "source": [1, 2], "target": 3, "tags": [2], "links": 4}, TableFile),
    "instructions": (
        {"instructions": "i.jsonl", "input": "given", "template": 'do "{instruction}":\n\t{input}\\'},
        InstructionFile,
    ),
    "dialogues": ({"dialogues": ["d.jsonl", "e.jsonl"], "turns": "said", "context": 2, "separator": "|"}, DialogueFile),
    "a data set": ({"dataset": "wmt14", "config": "de-en", "source": "x.de", "target": ["x.en"]}, HubDataset),
}
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
    {"kind": "noise", "drop": 0.1, "shuffle_distance": 2},
]


def again(recipe, folder):
    """A recipe written as TOML and read."""
    (folder / "written.toml").write_text(write_toml(recipe), "utf-8")
    return load_recipe(folder / "written.toml")


def refusal(tree, changes=()):
    with pytest.raises(RecipeError) as caught:
        make_recipe(tree, changes)
    assert "\n" not in str(caught.value)
    return str(caught.value)


@pytest.mark.parametrize(("form", "kind"), FORMS.values(), ids=FORMS)
@pytest.mark.parametrize("split", ["train", "valid", "test"])
def test_every_form_is_read_and_survives_being_written(tmp_path, form, kind, split):
    recipe = make_recipe({"data": {split: form}})
    found = getattr(recipe.data, split)
    assert type(found) is kind
    if isinstance(form, dict):
        for name, value in form.items():  # one file, or one column, is a list of one
            assert getattr(found, name) in (value, [value])
    assert again(recipe, tmp_path) == recipe


def test_a_list_of_all_forms_survives_being_written(tmp_path):
    recipe = make_recipe({"data": {"train": [form for form, _ in FORMS.values()]}})
    assert [type(one) for one in recipe.data.train] == [kind for _, kind in FORMS.values()]
    assert again(recipe, tmp_path) == recipe


def test_a_form_can_be_set_on_the_command_line():
    change = 'data.train=[{file = "t.tsv", source = [1, 2], target = 3}, "copy"]'
    found = make_recipe({}, [change]).data.train
    assert found == [TableFile(file="t.tsv", source=[1, 2], target=3), "copy"]


def test_every_step_survives_being_written(tmp_path):
    assert [step["kind"] for step in STEPS] == list(STEP_TABLE)
    recipe = make_recipe({"data": {"pipeline": STEPS}})
    assert [type(one) for one in recipe.data.pipeline] == [resolve(STEP_TABLE, kind) for kind in STEP_TABLE]
    assert again(recipe, tmp_path) == recipe


def test_steps_may_be_written_as_groups():
    text = '[[data.pipeline]]\nkind = "length"\nmax = 5\n\n[[data.pipeline]]\nkind = "identical"\n'
    assert [one.kind for one in make_recipe(tomllib.loads(text)).data.pipeline] == ["length", "identical"]


@given(text=st.text(min_size=1).filter(str.strip), number=st.integers(1, 9), weight=st.floats(1e-9, 1e9))
def test_any_text_survives_being_written(text, number, weight):
    name = text.replace("\0", "0")  # no file is called so
    corpora = [
        {"instructions": name, "template": text, "tag": text},
        {"file": [name], "source": [text, number], "target": number, "weight": weight},
    ]
    recipe = make_recipe({"data": {"train": corpora, "pipeline": [{"kind": "prefix", "text": text}]}})
    try:
        written = write_toml(recipe).encode("utf-8").decode("utf-8")
    except UnicodeEncodeError:
        return
    assert make_recipe(tomllib.loads(written)) == recipe


UNKNOWN = [
    ({"name": "copy", "siz": 3}, "siz", "did you mean 'size'?"),
    ({"source": "a", "taget": "b"}, "taget", "did you mean 'target'?"),
    ({"source": "a", "target": "b", "wieght": 2}, "wieght", "did you mean 'weight'?"),
    ({"file": "a", "sorce": 1, "target": 2}, "sorce", "did you mean 'source'?"),
    ({"file": "a", "source": 1, "target": 2, "delimeter": ","}, "delimeter", "did you mean 'delimiter'?"),
    ({"instructions": "a", "instuction": "b"}, "instuction", "did you mean 'instruction'?"),
    ({"dialogues": "a", "contex": 2}, "contex", "did you mean 'context'?"),
    ({"dataset": "a", "source": "a", "target": "b", "splitt": "x"}, "splitt", "did you mean 'split'?"),
]


@pytest.mark.parametrize(("form", "key", "hint"), UNKNOWN)
def test_an_unknown_key_of_a_form_gets_the_nearest_of_that_form(form, key, hint):
    assert refusal({"data": {"train": form}}) == f"data.train.{key}: unknown setting; {hint}"
    assert refusal({"data": {"valid": ["copy", form]}}) == f"data.valid.1.{key}: unknown setting; {hint}"


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
            "data.streaming: nothing is prepared then; leave out data.prepared",
        ),
        (
            {"streaming": True, "pipeline": [{"kind": "identical"}, {"kind": "duplicates"}]},
            "data.streaming: duplicates are only known when all was read; leave out that step",
        ),
        ({"prompt": True}, "data.prompt: unknown setting; did you mean 'prompts'?"),
    ],
)
def test_a_wrong_value_is_one_line(data, message):
    assert refusal({"data": data}).startswith(message)


@pytest.mark.parametrize(
    ("tokenizer", "message"),
    [
        ({"dropout": 0.1, "kind": "word"}, "tokenizer.dropout: only merges of bpe can be left out"),
        ({"dropout": 1.0}, "tokenizer.dropout: 1.0 was given"),
        ({"sample": 0}, "tokenizer.sample: 0 was given"),
        ({"variants": 0}, "tokenizer.variants: 0 was given"),
        ({"symbols": [""]}, "tokenizer.symbols.0: '' was given"),
        ({"file": "t.json", "joint": False}, "tokenizer.joint: false needs two tokenizers"),
        ({"target_file": "t.json"}, "tokenizer.target_file: needs tokenizer.file beside it"),
    ],
)
def test_a_wrong_tokenizer_is_one_line(tokenizer, message):
    assert refusal({"tokenizer": tokenizer}).startswith(message)
