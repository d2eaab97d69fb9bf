"""What a user may import, and that importing it is quick."""

import json
import subprocess
import sys
from importlib.metadata import version

import pytest

import weft


@pytest.mark.parametrize("name", weft.__all__)
def test_every_public_name_exists(name):
    assert getattr(weft, name) is getattr(weft, name)
    assert name in dir(weft)


def test_the_names():
    assert weft.__all__ == sorted(weft.__all__)
    assert {"load", "train", "load_recipe", "make_recipe", "Recipe", "Translation", "WeftError"} <= set(weft.__all__)


def test_all_of_them_at_once():
    names = {}
    exec("from weft import *", names)
    assert set(weft.__all__) <= set(names)


def test_the_version():
    assert weft.__version__ == version("weft")
    assert all(part.isdigit() for part in weft.__version__.split(".")[:2])


def test_other_names_are_unknown():
    with pytest.raises(AttributeError, match="module 'weft' has no attribute 'lod'"):
        weft.lod  # noqa: B018
    assert not hasattr(weft, "lod")


def modules_after(statement):
    code = f"import json, sys\n{statement}\nprint(json.dumps(sorted(sys.modules)))"
    done = subprocess.run([sys.executable, "-c", code], check=True, capture_output=True, text=True)
    return {name.split(".")[0] for name in json.loads(done.stdout)}


@pytest.mark.parametrize(
    "statement",
    [
        "import weft",
        "import weft; weft.__version__",
        "import weft; weft.load_recipe",
        "import weft.recipe, weft.errors",
        "import weft.text.tokenizer, weft.text.word_splitting, weft.files",
        "import weft.tasks",
    ],
)
def test_torch_is_not_imported_early(statement):
    assert not modules_after(statement) & {"torch", "matplotlib", "sacrebleu"}


def test_every_error_has_one_root():
    from weft import errors

    found = [one for one in vars(errors).values() if isinstance(one, type) and issubclass(one, Exception)]
    errors_only = [one for one in found if not issubclass(one, Warning)]
    assert len(errors_only) >= 7 and all(issubclass(one, weft.WeftError) for one in errors_only)


@pytest.mark.parametrize(
    ("given", "allowed", "end"),
    [
        ("scor", ["score", "size"], "did you mean 'score'?"),
        ("zzz", ["score", "size"], "choose one of score, size"),
        ("", ["a"], "choose one of a"),
    ],
)
def test_the_end_of_an_unknown_name_message(given, allowed, end):
    from weft.errors import nearest

    assert nearest(given, iter(allowed)) == end
