"""`generate`: pure, its splits apart, its errors in one line."""

import subprocess
import sys
from itertools import islice

import numpy as np
import pytest

from weft.data.arrays.files import ArrayFiles
from weft.data.pairs import Pair
from weft.errors import DataError, RecipeError
from weft.recipe.choices import DRAWINGS, resolve
from weft.recipe.files import BUILT_IN_CORPORA
from weft.tasks import SPLITS, TASKS, Task, generate, split_of, write_pictures
from weft.text.words import words

every_task = pytest.mark.parametrize("name", TASKS)


def test_the_table():
    assert (
        tuple(TASKS)
        == BUILT_IN_CORPORA
        == ("addition", "copy", "reverse", "sort", "dates", "grammar", "coreference", "trees", "drawn-digits")
    )
    drawings = {name: task.draw for name, task in TASKS.items() if task.draw is not None}
    assert drawings == {name: resolve(DRAWINGS, name) for name in DRAWINGS}
    for name, task in TASKS.items():
        assert task.name == name and "\n" not in task.summary
    assert TASKS["addition"].options == {"digits": 3}


@every_task
def test_a_pure_function_of_its_arguments(name):
    first = list(generate(name, "train", 20, seed=3))
    assert len(first) == 20 and first == list(generate(name, "train", 20, seed=3))
    assert first[:7] == list(generate(name, "train", 7, seed=3))
    assert first != list(generate(name, "train", 20, seed=4))


def test_the_same_in_every_process():
    code = "from weft.tasks import generate; print([p.source for p in generate('dates', 'test', 5, seed=1)])"
    found = {
        subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True, env=env).stdout
        for env in ({"PYTHONHASHSEED": "1"}, {"PYTHONHASHSEED": "2"})
    }
    assert found == {f"{[pair.source for pair in generate('dates', 'test', 5, seed=1)]}\n"}


@every_task
def test_splits_share_no_source(name):
    sources = {split: set() for split in SPLITS}
    for seed in range(3):
        for split in SPLITS:
            sources[split] |= {pair.source for pair in generate(name, split, 100, seed=seed)}
    assert not sources["train"] & sources["valid"] | sources["train"] & sources["test"]
    assert not sources["valid"] & sources["test"]
    assert all(split_of(source) == split for split, found in sources.items() for source in found)


@every_task
def test_valid_and_test_do_not_repeat(name):
    for split in ("valid", "test"):
        sources = [pair.source for pair in generate(name, split, 200)]
        assert len(set(sources)) == 200


@every_task
def test_pairs_are_sound(name):
    for pair in generate(name, "train", 200):
        assert pair.source.strip() == pair.source != "" and pair.target.strip() == pair.target != ""
        assert not set("\t\n") & set(pair.source + pair.target)
        for left, right in pair.links or ():
            assert left < len(words(pair.source)) and right < len(words(pair.target))


def test_splits_are_eighteen_one_one():
    found = [split_of(str(number)) for number in range(20_000)]
    assert 900 < found.count("valid") < 1100 and 900 < found.count("test") < 1100
    assert split_of("535+61") == "train"  # the hash must never change


def test_train_repeats_in_a_small_world():
    pairs = list(generate("addition", "train", 1000, options={"digits": 1}))
    assert len(pairs) == 1000 and len(set(pairs)) <= 100


def test_an_exhausted_split_says_what_it_has():
    world = {f"{left}+{right}" for left in range(10) for right in range(10)}
    expected = sum(split_of(source) == "test" for source in world)
    assert len(list(generate("addition", "test", expected, options={"digits": 1}))) == expected
    found = generate("addition", "test", 10_000, options={"digits": 1})
    assert len(list(islice(found, expected))) == expected
    with pytest.raises(DataError) as caught:
        next(found)
    assert str(caught.value) == (
        f"task addition: 10000 different pairs requested, but its test split has only {expected}; "
        "request fewer, or a larger task by its options"
    )


def test_an_empty_train_split(monkeypatch):
    source = next(str(number) for number in range(100) if split_of(str(number)) == "valid")
    monkeypatch.setitem(TASKS, "one", Task("one", "always the same", lambda random: Pair(source, "x")))
    assert list(generate("one", "valid", 1)) == [Pair(source, "x")]
    with pytest.raises(DataError, match=r"^task one: 5 pairs requested, but its train split has only 0; "):
        list(generate("one", "train", 5))
    with pytest.raises(RecipeError, match=r"^task one: unknown option 'x'; it has none$"):
        generate("one", "train", 5, options={"x": 1})


@pytest.mark.parametrize(
    ("arguments", "options", "kind", "message"),
    [
        (("adition", "train", 1), {}, DataError, "unknown task 'adition'; did you mean 'addition'?"),
        (
            ("addition", "trian", 1),
            {},
            DataError,
            "task addition: unknown split 'trian'; did you mean 'train'?",
        ),
        (("addition", "train", -1), {}, DataError, "task addition: -1 pairs requested, expected 0 or more"),
        (
            ("addition", "train", 1),
            {"digit": 3},
            RecipeError,
            "task addition: unknown option 'digit'; did you mean 'digits'?",
        ),
        (
            ("addition", "train", 1),
            {"random": 3},
            RecipeError,
            "task addition: unknown option 'random'; choose one of digits",
        ),
        (
            ("addition", "train", 1),
            {"digits": "3"},
            RecipeError,
            "task addition: digits: '3', expected a whole number from 1 to 100",
        ),
        (
            ("sort", "train", 1),
            {"symbols": 27},
            RecipeError,
            "task sort: symbols: 27, expected a whole number from 1 to 26",
        ),
        (
            ("copy", "train", 1),
            {"length": True},
            RecipeError,
            "task copy: length: True, expected a whole number from 1 to 1000",
        ),
        (
            ("dates", "train", 1),
            {"last_year": 2100},
            RecipeError,
            "task dates: last_year: 2100, expected a whole number from 1900 to 2099",
        ),
        (
            ("dates", "train", 1),
            {"first_year": 1899},
            RecipeError,
            "task dates: first_year: 1899, expected a whole number from 1900 to 2099",
        ),
        (
            ("dates", "train", 1),
            {"first_year": 2000, "last_year": 1999},
            RecipeError,
            "task dates: last_year: 1999 is before first_year, 2000",
        ),
    ],
)
def test_messages(arguments, options, kind, message):
    with pytest.raises(kind) as caught:
        generate(*arguments, options=options)  # raised at the call, not at the first pair
    assert str(caught.value) == message


def test_an_error_of_any_kind_is_one_line(monkeypatch):
    def sample(random, *, width=1):
        raise ValueError("width must be even")

    monkeypatch.setitem(TASKS, "odd", Task("odd", "", sample))
    with pytest.raises(RecipeError, match=r"^task odd: bad option value: width must be even$"):
        generate("odd", "train", 1)
    with pytest.raises((RecipeError, DataError)):
        generate("grammar", "train", 1, options={"min_words": 50, "max_words": 4})
    with pytest.raises((RecipeError, DataError)):
        generate("grammar", "train", 1, options={"min_words": "many"})


@pytest.mark.parametrize("name", DRAWINGS)
def test_pictures_are_written_under_their_names(name, tmp_path):
    pairs = list(generate(name, "test", 3, seed=2))
    assert list(write_pictures(name, pairs, tmp_path)) == pairs
    with ArrayFiles(tmp_path) as files:
        for pair in pairs:
            assert np.array_equal(files.read(pair.source)[:, :, 0], TASKS[name].draw(pair.source))
    (tmp_path / "file").write_text("")
    with pytest.raises(DataError, match=r"file/digits: cannot be created: Not a directory"):
        write_pictures(name, pairs, tmp_path / "file" / "digits")
    (tmp_path / "blocked").mkdir()
    (tmp_path / "blocked" / "pictures").write_text("")
    with pytest.raises(DataError, match=r"blocked/pictures/[\w-]+\.png: cannot be written: "):
        list(write_pictures(name, pairs, tmp_path / "blocked"))


def test_texts_have_no_pictures(tmp_path):
    with pytest.raises(DataError, match=r"^task copy: its sources are texts, of which there are no pictures$"):
        list(write_pictures("copy", generate("copy", "test", 1), tmp_path))
