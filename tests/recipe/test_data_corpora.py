"""The forms of a corpus in a recipe: read, written, read again; and unknown keys refused in one line."""

import tomllib

import pytest
from hypothesis import given
from hypothesis import strategies as st

from weft.errors import RecipeError
from weft.recipe import make_recipe
from weft.recipe.data import DialogueFile, HubDataset, InstructionFile, NamedCorpus, ParallelFiles, TableFile
from weft.recipe.toml import write_toml

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


def again(recipe, folder):
    """A recipe written as TOML and read."""
    (folder / "written.toml").write_text(write_toml(recipe), "utf-8")
    return make_recipe(tomllib.loads((folder / "written.toml").read_text("utf-8")))


def refusal(tree, changes=()):
    with pytest.raises(RecipeError) as caught:
        make_recipe(tree, changes)
    assert "\n" not in str(caught.value)
    return str(caught.value)


@pytest.mark.parametrize(("form", "kind"), FORMS.values(), ids=FORMS)
@pytest.mark.parametrize("split", ["train", "valid", "test"])
def test_every_form_is_read_and_survives_being_written(tmp_path, form, kind, split):
    recipe = make_recipe({"data": {"train": "grammar", split: form}})
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
