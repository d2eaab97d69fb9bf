"""What a user may import, and that importing it is quick."""

import json
import os
import subprocess
import sys
import tomllib
from importlib.metadata import version
from pathlib import Path

import pytest

import weft


@pytest.mark.parametrize("name", weft.__all__)
def test_every_public_name_exists(name):
    assert getattr(weft, name) is getattr(weft, name)
    assert name in dir(weft)


def test_the_names():
    assert weft.__all__ == sorted(weft.__all__)
    assert {
        "load",
        "train",
        "evaluate",
        "compare",
        "load_recipe",
        "make_recipe",
        "Recipe",
        "Translation",
        "WeftError",
    } <= set(weft.__all__)


def test_all_of_them_at_once():
    names = {}
    exec("from weft import *", names)
    assert set(weft.__all__) <= set(names)


def test_the_version():
    """``weft`` belongs to another project on the public index; module and command keep the short name."""
    project = tomllib.loads((Path(__file__).parents[1] / "pyproject.toml").read_text("utf-8"))["project"]
    assert project["name"] == "weft-seq2seq" and list(project["scripts"]) == ["weft"]
    assert weft.__version__ == version(project["name"])
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
        "import weft; weft.recommend",
        "import weft.recipe, weft.errors",
        "import weft.text.tokenizer, weft.text.words, weft.files",
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


GOOD_PROGRAM = """
import weft

recipe: weft.Recipe = weft.load_recipe("grammar", ["training.steps=5"])
steps: int = recipe.training.steps
for event in weft.train(recipe, "runs/x"):
    step: int = event.step
for event in weft.train([("a", "b")], minutes=10, changes="seed=3"):
    step = event.step
lines: list[str] = weft.recommend("pairs.tsv", minutes=10).lines()
run: weft.Translator = weft.load("runs/x", "runs/y", device="cpu")
translation: weft.Translation = run.translate("a b", n_best=2, size=4)
text: str = translation.text
texts: list[str] = [translation.text for translation in run.translate(line for line in ("a", "b"))]
links: list[tuple[int, int]] = run.attend("a b")[0].links
total: float = sum(score.log_probability for score in run.score([weft.Pair("a", "b"), ("c", "d")]))
try:
    weft.make_recipe({"seed": 3})
except weft.WeftError as error:
    message: str = str(error)
"""
BAD_PROGRAM = """
import weft

run = weft.load("runs/x")
weft.lod("runs/x")
weft.load(3)
weft.train(3)
weft.load_recipe(None)
weft.Pair("a", 3)
run.translate(3)
run.translate("a").txt
text: str = run.translate(["a", "b"])
weft.load_recipe("grammar").training.step
"""
MYPY = """
[mypy]
strict = true
follow_imports = silent
[mypy-torch.*,numpy.*,pydantic_core.*,rich.*,tokenizers.*]
follow_imports = skip
"""


def test_programs_of_users_are_type_checked(tmp_path):
    """py.typed is a promise: mypy accepts a right program and reports every wrong line of another.

    As mypy reads an installed package: errors inside weft are not shown. Libraries that are slow to read are skipped.
    """
    (tmp_path / "mypy.ini").write_text(MYPY, "utf-8")
    (tmp_path / "good.py").write_text(GOOD_PROGRAM, "utf-8")
    (tmp_path / "bad.py").write_text(BAD_PROGRAM, "utf-8")
    cache = Path(__file__).parents[1] / ".mypy_cache" / "programs"  # most of the time goes into reading weft
    options = ["--config-file", "mypy.ini", "--cache-dir", str(cache), "--no-error-summary"]
    command = [sys.executable, "-m", "mypy", *options, "good.py", "bad.py"]
    environment = {**os.environ, "MYPYPATH": str(Path(weft.__file__).parents[1])}
    output = subprocess.run(command, cwd=tmp_path, env=environment, capture_output=True, text=True).stdout
    errors = [line for line in output.splitlines() if ": error:" in line]
    wrong_lines = range(5, BAD_PROGRAM.count("\n") + 1)
    assert [int(line.split(":")[1]) for line in errors] == list(wrong_lines), output
    assert all(line.startswith("bad.py") for line in errors)


def test_help_is_readable():
    """The first screen of help(weft) names every public name; the module shows nothing else."""
    assert all(f"    {name}" in weft.__doc__ for name in weft.__all__)
    assert dir(weft) == sorted([*weft.__all__, "__version__"])
    assert all(getattr(weft, name).__doc__ for name in weft.__all__)


def test_short_representations():
    recipe = weft.load_recipe("grammar")
    assert repr(recipe) == str(recipe) == "<Recipe 'grammar': seq2seq, 2,000 steps, seed 1>"
    translation = weft.Translation("a", "b c", -0.5, -1, ["b", "c"], [5, 6], [], [], None, None, [], "end")
    assert str(translation) == "b c" and repr(translation) == "<Translation 'b c': score -0.5000, 2 tokens>"
    from weft.training.events import Validation

    event = Validation(400, 0.123456, 1.131399, {"bleu": 31.25})
    assert str(event).startswith("Validation at step 400: loss 0.1235, perplexity 1.131, metrics {'bleu': 31.25}")
    assert str([translation]) == "[<Translation 'b c': score -0.5000, 2 tokens>]"


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: weft.load(None), "load: a NoneType was given; expected the path of a run folder"),
        (lambda: weft.load(["a"]), "load: a list was given; expected the path of a run folder"),
        (lambda: weft.load_recipe(None), "load_recipe: a NoneType was given; expected the name of a recipe, or a path"),
        (lambda: weft.load_recipe("grammar", [3]), "changes: a int was given; expected text: 'training.steps=500'"),
        (lambda: weft.make_recipe("grammar"), "make_recipe: a str was given; expected a dictionary of settings"),
        (lambda: next(weft.train(3)), "pairs: 3 (int) was given, expected a list of pairs"),
        (
            lambda: next(weft.train(weft.load_recipe("grammar"), like="g2p")),
            "like: of no use with a recipe that is made already; give it to weft.load_recipe",
        ),
        (
            lambda: weft.recommend([("a", "b")]),
            "recommend: a list was given; expected a file or a folder of pairs "
            "(weft.train accepts a list, and saves it)",
        ),
    ],
)
def test_wrong_arguments_are_one_line(call, message):
    with pytest.raises(weft.WeftError) as refusal:
        call()
    assert str(refusal.value) == message


def test_a_single_change():
    assert weft.load_recipe("grammar", "training.steps=7").training.steps == 7


def test_options_are_named_as_the_caller_gives_them():
    """In Python as arguments, on the command line as flags."""
    from weft.errors import command_line, option

    given = [("resume", True), ("engine", "x"), ("out", None), ("n_best", 3)]
    assert [option(*one) for one in given] == ["resume=True", "engine='x'", "out", "n_best=3"]
    with command_line():
        assert [option(*one) for one in given] == ["--resume", "--engine x", "--out", "--n-best 3"]
        assert option("changes", "a=b", flag="set") == "--set a=b"
    assert option("changes", "a=b", flag="set") == "changes='a=b'"


def test_messages_in_the_words_of_the_caller(finished, tmp_path):
    from weft.runs.layout import RunFolder

    with pytest.raises(weft.WeftError, match=r"already exists; continue it with resume=True, or choose another out$"):
        RunFolder.check_new(finished)
    with pytest.raises(weft.WeftError, match=r"^engine='x': unknown; use "):
        weft.load(finished, engine="x")


@pytest.mark.parametrize(("count", "text"), [(0, "0 pairs"), (1, "1 pair"), (2, "2 pairs"), (1234, "1,234 pairs")])
def test_counts_agree_with_their_nouns(count, text):
    from weft.errors import plural

    assert plural(count, "pair") == text
