"""A run of a stranger: whatever files its recipe names, no command reads them unless its user asks for them.

The recipe of the run below names files of the user, the canaries, in every setting that is a path. Python tells which
files are opened; what is read in another process would appear in the output.
"""

from __future__ import annotations

import io
import json
import os
import shutil
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import reduce
from operator import getitem
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import weft
from weft.apps.cli import COMMANDS, main
from weft.data import fingerprints as data_files
from weft.data.arrays.png import png_bytes
from weft.data.fingerprints import DATA_FILES, DataRecord, FileFingerprint
from weft.errors import CheckpointError, DataError
from weft.evaluation.forgetting import measure_forgetting
from weft.recipe import load_recipe
from weft.recipe.files import PATHS
from weft.recipe.toml import write_toml
from weft.training.train import train

SECRET = "hunter"
opened: list[str] = []
watched: list[str] = []


def _audit(event: str, arguments: tuple[Any, ...]) -> None:
    if watched and event in ("open", "os.listdir", "os.scandir") and isinstance(arguments[0], str | bytes | Path):
        path = arguments[0].decode("utf-8", "replace") if isinstance(arguments[0], bytes) else str(arguments[0])
        opened.extend(path for folder in watched if path.startswith(folder))


sys.addaudithook(_audit)  # there is no way to remove it


@contextmanager
def watching(folder: Path) -> Iterator[list[str]]:
    """The files below a folder that are opened, and the folders that are listed."""
    opened.clear()
    watched.append(str(folder))
    try:
        yield opened
    finally:
        watched.clear()


PAIRS = {
    "train": "".join(f"{a} {b}\t{b} {a}\n" for a in "abcde" for b in "abcde"),
    "valid": "a b\tb a\nc d\td c\n",
    "test": "b c\tc b\nd e\te d\n",
}


@pytest.fixture(scope="module")
def own_run(tiny, tmp_path_factory) -> Path:
    """A run of the user, trained on three files."""
    folder = tmp_path_factory.mktemp("own")
    for split, content in PAIRS.items():
        (folder / f"{split}.tsv").write_text(content, "utf-8")
    names = {f"data.{split}": f"{split}.tsv" for split in PAIRS}
    changes = {**names, "data.folder": str(folder), "data.options": {}, "tokenizer.kind": "word"}
    recipe = tiny({**changes, "training.steps": 60, "training.validate_every": 30})
    list(train(recipe, folder / "run"))
    return folder / "run"


@pytest.fixture(scope="module")
def canaries(own_run: Path, tmp_path_factory) -> Path:
    """Private files of the user: pairs, a tokenizer and a run."""
    folder = tmp_path_factory.mktemp("home") / "private"
    folder.mkdir()
    (folder / "pairs.tsv").write_text(f"a {SECRET}\tb {SECRET}\nc\td\n" * 3, "utf-8")
    shutil.copy(own_run / "tokenizer.json", folder / "tokenizer.json")
    shutil.copytree(own_run, folder / "run")
    return folder


@pytest.fixture
def foreign(own_run: Path, canaries: Path, tmp_path: Path) -> Path:
    """A run whose recipe names all of them."""
    run = tmp_path / "foreign"
    shutil.copytree(own_run, run)
    pairs = str(canaries / "pairs.tsv")
    plant(
        run,
        {
            **{f"data.{split}": pairs for split in PAIRS},
            "data.prepared": str(canaries / "prepared"),
            "data.terms": {"file": pairs},
            "tokenizer.file": str(canaries / "tokenizer.json"),
            "training.start": str(canaries / "run"),
            "evaluation.former": pairs,
        },
    )
    return run


def plant(run: Path, settings: dict[str, Any]) -> None:
    """Replace settings in the recipe of a run."""
    recipe = load_recipe(run / "recipe.toml")
    tree = recipe.model_dump(exclude_none=True)
    for name, value in settings.items():
        section, _, key = name.partition(".")
        tree[section][key] = value
    (run / "recipe.toml").write_text(write_toml(weft.make_recipe(tree)), "utf-8")


def test_every_path_of_a_recipe_is_planted(foreign: Path, canaries: Path) -> None:
    recipe = load_recipe(foreign / "recipe.toml").model_dump()
    planted = {names for names in PATHS if str(canaries) in str(reduce(getitem, names, recipe))}
    of_models = {("tokenizer", "target_file"), ("data", "fuzzy", "file")}  # which this one is none of; see below
    assert planted == set(PATHS) - of_models


@pytest.fixture
def typed(monkeypatch, capfd, tmp_path) -> Callable[..., tuple[int, str, str]]:
    """Exit code, stdout and stderr of a command."""
    monkeypatch.setenv("NO_COLOR", "1")
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr("weft.apps.cli.raise_on_signals", lambda: None)  # the signals of this process are for pytest

    def typed(*arguments: str) -> tuple[int, str, str]:
        monkeypatch.setattr(sys, "argv", ["weft", *arguments])
        capfd.readouterr()
        with pytest.raises(SystemExit) as ended:
            main()
        return (ended.value.code or 0, *capfd.readouterr())

    return typed


ONE_STEP = ["--set", "training.steps=1", "--no-evaluate"]
REFUSED = "the recipe of foreign names it, but it is nothing that the run was trained with"
USING: dict[str, list[tuple[list[str], str | None]]] = {
    "warm": [(["warm", "RUN"], None)],
    "translate": [(["translate", "RUN", "in.txt"], None)],
    "sample": [(["sample", "RUN"], "…")],
    "evaluate": [
        (["evaluate", "RUN"], REFUSED),
        (["evaluate", "RUN", "--split", "valid", "--json"], REFUSED),
        (["evaluate", "RUN", "--search-errors"], REFUSED),
        (["evaluate", "RUN", "in.tsv"], None),
    ],
    "calibrate": [(["calibrate", "RUN"], REFUSED), (["calibrate", "RUN", "in.tsv", "--right", "exact"], None)],
    "compare": [(["compare", "RUN", "RUN"], REFUSED), (["compare", "RUN", "RUN", "in.tsv"], None)],
    "score": [(["score", "RUN", "in.tsv"], None)],
    "probe": [
        (["probe", "nonsense", "RUN"], REFUSED),
        (["probe", "nonsense", "RUN", "in.txt"], "…"),
        (["probe", "repeat", "RUN", "a b", "--source", "a b", "--times", "3"], None),
        (["probe", "bias", "RUN"], "…"),
    ],
    "report": [
        (["report", "RUN"], REFUSED),
        (["report", "RUN", "in.tsv", "--to", "page.html"], None),
    ],
    "bench": [
        (["bench", "translate", "RUN", "--seconds", "0.1"], REFUSED),
        (["bench", "translate", "RUN", "in.txt", "--seconds", "0.1", "--warmup", "1"], None),
    ],
    "attend": [(["attend", "RUN", "a b", "--target", "b a"], None)],
    "trace": [(["trace", "RUN", "a b"], None)],
    "parse": [(["parse", "RUN", "a b"], "…")],
    "positions": [(["positions", "RUN"], "…")],
    "align-heads": [(["align-heads", "RUN", "in.tsv"], "…")],
    "runs": [(["runs", "."], None), (["runs", "RUN"], None)],
    "adapter": [(["adapter", "list", "RUN"], None)],
    "import": [(["import", "RUN", "--out", "out"], "…")],
    "export": [
        (["export", "RUN", "--format", "huggingface", "--out", "out"], "…"),
        (["export", "RUN", "--format", "ctranslate2", "--out", "out"], "…"),
        (["export", "RUN", "--format", "onnx", "--out", "out"], "…"),
    ],
    "tune": [(["tune", "RUN", "--minutes", "0.01", "--out", "out"], "…")],  # to tune a recipe is to ask for its data
    "distill": [
        (["distill", "RUN", "--out", "out"], REFUSED),
        (
            ["distill", "RUN", "--data", "in.tsv", "--method", "word", "--out", "out", *ONE_STEP],
            REFUSED,
        ),  # its glossary
    ],
    "back-translate": [(["back-translate", "RUN", "in.txt", "--out", "back.tsv"], "…")],
    "data": [
        (["data", "show", "RUN/recipe.toml"], REFUSED),
        (["data", "check", "RUN/recipe.toml"], REFUSED),
        (["data", "recommend", "in.tsv"], None),
    ],
    "tokenizer": [(["tokenizer", "show", "RUN/tokenizer.json"], None)],
    "recipes": [(["recipes", "show", "RUN/recipe.toml"], None)],
    "train": [
        (["train", "RUN", "--resume"], "has changed since foreign was trained with it"),
        (["train", "r.toml", "--from", "RUN", "--out", "out", "--evaluate", "--set", "training.steps=1"], None),
    ],
}
"""Every command that takes a run: what is typed, and a part of the error; None if it does its work."""
OTHERS = {
    "try": "makes its own run",
    "serve": "below",
    "lab": "takes no run",
    "history": "takes no run",
    "course": "takes no run",
    "push": "below",
    "pull": "below",
}
TYPED = [(arguments, error) for rows in USING.values() for arguments, error in rows]


def test_every_command_is_here() -> None:
    assert {*USING, *OTHERS} == {*COMMANDS}


@pytest.mark.parametrize(("arguments", "error"), TYPED, ids=[" ".join(row[0]) for row in TYPED])
@pytest.mark.parametrize("has_record", [True, False], ids=["recorded", "old"])
def test_no_command_reads_them(arguments, error, has_record, foreign, canaries, typed, tmp_path) -> None:
    if not has_record:
        (foreign / DATA_FILES).unlink()
        error = error and error.replace(
            "it is nothing that the run was trained with", "the run has no record of its data"
        ).replace("has changed since foreign was trained with it", "foreign has no record of its data files")
    (tmp_path / "in.txt").write_text("a b\n", "utf-8")
    (tmp_path / "in.tsv").write_text("a b\tb a\nc\tc\n" * 20, "utf-8")
    (tmp_path / "r.toml").write_text("[data]\ntrain = 'in.tsv'\nvalid = 'in.tsv'\n", "utf-8")
    with watching(canaries) as files:
        code, stdout, stderr = typed(*(argument.replace("RUN", "foreign") for argument in arguments))
    assert files == []
    assert SECRET not in stdout + stderr
    for path in tmp_path.rglob("*"):
        assert not path.is_file() or SECRET.encode() not in path.read_bytes(), path
    if error is None:
        assert code == 0, stderr
    elif error != "…":
        assert code == 2 and error in stderr and stderr.count("\n") == 1, stderr


@pytest.fixture(scope="module")
def with_memory(tiny, own_run, tmp_path_factory) -> Path:
    """A run that was trained with the most similar pair as a source column."""
    folder = tmp_path_factory.mktemp("memory")
    changes = {f"data.{split}": f"{split}.tsv" for split in PAIRS} | {
        **{"data.folder": str(own_run.parent), "data.options": {}, "tokenizer.kind": "word"},
        **{"data.fuzzy.file": "train.tsv", "model.sources.count": 2},
        **{"training.steps": 2, "training.validate_every": 2},
    }
    list(train(tiny(changes), folder / "run"))
    return folder / "run"


@pytest.fixture(params=["terms", "fuzzy"])
def foreign_table(request, own_run, with_memory, canaries, tmp_path) -> Path:
    """A run with all of its data, which its author has recorded, but for a glossary or a memory: a file of the user."""
    run = tmp_path / "foreign"
    shutil.copytree(own_run if request.param == "terms" else with_memory, run)
    for split, content in PAIRS.items():
        (run / f"{split}.tsv").write_text(content, "utf-8")
    data = {f"data.{split}": f"{split}.tsv" for split in PAIRS} | {"data.folder": "."}
    plant(run, {**data, f"data.{request.param}": {"file": str(canaries / "pairs.tsv")}})
    return run


OF_TABLES = [
    *(arguments for arguments, _ in TYPED),
    ["data", "show", "RUN/recipe.toml", "--split", "test", "--set", "data.test=in.tsv"],
    ["data", "show", "RUN/recipe.toml", "--set", "data.train=copy", "--set", "data.folder=."],
    ["data", "check", "RUN/recipe.toml", "--set", "data.train=in.tsv", "--set", "data.folder=."],
    ["distill", "RUN", "--data", "in.tsv", "--method", "sequence", "--out", "out", *ONE_STEP],
    ["train", "RUN", "--resume", "--set", "training.steps=70"],
]


@pytest.mark.parametrize("arguments", OF_TABLES, ids=" ".join)
def test_no_command_reads_a_glossary_or_a_memory(arguments, foreign_table, canaries, typed, tmp_path) -> None:
    (tmp_path / "in.txt").write_text("a b\n", "utf-8")
    (tmp_path / "in.tsv").write_text("a b\tb a\nc\tc\n" * 20, "utf-8")
    (tmp_path / "r.toml").write_text("[data]\ntrain = 'in.tsv'\nvalid = 'in.tsv'\n", "utf-8")
    with watching(canaries) as files:
        code, stdout, stderr = typed(*(argument.replace("RUN", "foreign") for argument in arguments))
    assert files == [], stderr
    assert SECRET not in stdout + stderr
    assert code == 0 or (code == 2 and stderr.count("\n") == 1), stderr
    if arguments in (["evaluate", "RUN"], ["evaluate", "RUN", "in.tsv"]):  # terms are written into training pairs only
        refused = f"data.fuzzy.file: {canaries}/pairs.tsv: {REFUSED}"
        assert code == 0 if load_recipe("foreign/recipe.toml").data.terms.file else refused in stderr


@pytest.mark.parametrize("special", ["pipe", "/dev/zero", ".", "link"])
def test_a_glossary_or_a_memory_that_is_no_file(special, foreign_table, canaries, tmp_path) -> None:
    """Opening a pipe would wait for its writer, and reading a device would not end."""
    os.mkfifo(foreign_table / "pipe")
    (foreign_table / "link").symlink_to(canaries / "pairs.tsv")
    name = "terms" if load_recipe(foreign_table / "recipe.toml").data.terms.file else "fuzzy"
    plant(foreign_table, {f"data.{name}": {"file": special}})
    run = weft.load(foreign_table)
    with watching(canaries) as files:
        if name == "fuzzy":
            with pytest.raises(DataError, match=r"data.fuzzy.file: .* nothing that the run was trained with"):
                weft.evaluate(run)
            with pytest.raises(DataError, match=r"data.fuzzy.file: .* nothing that the run was trained with"):
                weft.evaluate(run, [("a b", "b a")])
        else:
            assert weft.evaluate(run)
        reason = (
            "has changed since|1 file now, 0 when" if special == "link" else f"not a regular file \\(data.{name}\\)"
        )
        with pytest.raises(DataError, match=reason):
            list(train(run.recipe, foreign_table, resume=True))
        if special != "link":
            with pytest.raises(DataError, match=rf"data\.{name}\.file: .*: not a regular file"):
                list(train(run.recipe, tmp_path / "new"))
    assert files == []


CORPORA: dict[str, Any] = {
    "name": lambda folder: f"{folder}/pairs.tsv",
    "pattern": lambda folder: f"{folder}/*.tsv",
    "named": lambda folder: {"name": f"{folder}/pairs.tsv"},
    "two files": lambda folder: {"source": f"{folder}/pairs.tsv", "target": f"{folder}/pairs.tsv"},
    "table": lambda folder: {"file": f"{folder}/pairs.tsv", "source": [1], "target": [2]},
    "instructions": lambda folder: {
        "instructions": f"{folder}/pairs.tsv",
        "instruction": 1,
        "input": 1,
        "output": 2,
    },
    "dialogues": lambda folder: {"dialogues": f"{folder}/pairs.tsv"},
    "dataset": lambda folder: {"dataset": f"{folder}/run", "source": ["a"], "target": ["b"]},
    "mixture": lambda folder: [f"{folder}/pairs.tsv", "addition"],
}


@pytest.mark.parametrize("form", CORPORA)
def test_every_form_of_a_corpus(form, own_run, canaries, tmp_path) -> None:
    run = tmp_path / "foreign"
    shutil.copytree(own_run, run)
    plant(run, {"data.test": CORPORA[form](canaries)})
    with watching(canaries / "pairs.tsv") as files, pytest.raises(DataError) as caught:
        weft.evaluate(run)
    assert files == [] and "nothing that the run was trained with" in str(caught.value)
    assert str(caught.value).endswith("accept it: run.recipe = run.recipe.accepting_new_data()")


@pytest.fixture(scope="module")
def foreign_pictures(tiny, canaries, tmp_path_factory) -> Path:
    """A run of pictures whose author has put a table into its folder, recorded it, and let it name any file."""
    home = tmp_path_factory.mktemp("pictures")
    picture = np.full((8, 12), 200, np.uint8)
    picture[2:6, 3:9] = 30
    for name in (home / "a.png", canaries / "private.png"):
        name.write_bytes(png_bytes(picture))
    for split in PAIRS:
        (home / f"{split}.tsv").write_text("a.png\ta b\n" * 4, "utf-8")
    changes = {
        **{f"data.{split}": f"{split}.tsv" for split in PAIRS},
        **{"data.folder": str(home), "data.options": {}, "training.steps": 2, "training.validate_every": 2},
        **{"tokenizer.kind": "picture", "tokenizer.target_kind": "word", "tokenizer.joint": False},
        "model.stem.kind": "columns",
    }
    list(train(tiny(changes), home / "foreign"))
    run = home / "foreign"
    for split in PAIRS:
        (run / f"{split}.tsv").write_text(f"{canaries}/private.png\ta b\n" * 4, "utf-8")
    plant(run, {"data.folder": str(run), "data.outside": True})
    recipe = load_recipe(run / "recipe.toml")
    data_files.record_data_files(recipe).save(run)
    return run


OUTSIDE = "data.outside: the recipe of foreign lets its tables name files outside their folders; name the pairs"
OF_PICTURES = [
    ["evaluate", "RUN"],
    ["evaluate", "RUN", "--split", "valid"],
    ["calibrate", "RUN"],
    ["compare", "RUN", "RUN"],
    ["report", "RUN"],
    ["bench", "translate", "RUN", "--seconds", "0.1"],
    ["distill", "RUN", "--out", "out"],
    ["data", "show", "RUN/recipe.toml"],
    ["data", "check", "RUN/recipe.toml"],
    ["train", "RUN", "--resume", "--set", "training.steps=3"],
]


@pytest.mark.parametrize("arguments", OF_PICTURES, ids=" ".join)
def test_a_table_of_a_run_names_no_picture_outside(arguments, foreign_pictures, canaries, typed, tmp_path) -> None:
    shutil.copytree(foreign_pictures, tmp_path / "foreign")
    with watching(canaries) as files:
        code, _, stderr = typed(*(argument.replace("RUN", "foreign") for argument in arguments))
    assert files == []
    assert code == 2 and OUTSIDE in stderr and stderr.count("\n") == 1, stderr


def test_pictures_outside_that_the_user_accepts_or_names(foreign_pictures, canaries, typed, tmp_path) -> None:
    shutil.copytree(foreign_pictures, tmp_path / "foreign")
    (tmp_path / "mine.tsv").write_text(f"{canaries}/private.png\ta b\n", "utf-8")
    for arguments in (
        ["evaluate", "foreign", "--accept-new-data"],
        ["evaluate", "foreign", "mine.tsv"],
        ["data", "show", "foreign/recipe.toml", "--set", "data.outside=true"],
        ["train", "foreign", "--resume", "--accept-new-data", "--no-evaluate", "--set", "training.steps=3"],
    ):
        with watching(canaries) as files:
            code, _, stderr = typed(*arguments)
        assert code == 0 and files, stderr


def test_files_beside_the_folder_and_held_out_pairs(own_run, canaries, tmp_path) -> None:
    run = tmp_path / "foreign"
    shutil.copytree(own_run, run)
    tree = load_recipe(run / "recipe.toml").model_dump(exclude_none=True)
    tree["data"] = {"train": "pairs.tsv", "folder": str(canaries), "holdout": {"valid": 0.3, "test": 0.3}}
    (run / "recipe.toml").write_text(write_toml(weft.make_recipe(tree)), "utf-8")
    for split in ("test", "valid"):
        with watching(canaries) as files, pytest.raises(DataError, match="nothing that the run was trained with"):
            weft.evaluate(run, split=split)
        assert files == []


def test_a_pipe_is_not_opened(own_run, tmp_path) -> None:
    """It would wait for a writer forever."""
    os.mkfifo(tmp_path / "pipe.tsv")
    run = tmp_path / "foreign"
    shutil.copytree(own_run, run)
    plant(run, {"data.test": str(tmp_path / "pipe.tsv")})
    with pytest.raises(DataError, match="nothing that the run was trained with"):
        weft.evaluate(run)


@pytest.mark.parametrize("has_record", [True, False], ids=["recorded", "old"])
@pytest.mark.parametrize("split", PAIRS)
def test_a_pipe_is_not_opened_to_resume(split, has_record, own_run, tmp_path) -> None:
    """Of a pipe nothing can be recorded: its author has no proof of what is in it."""
    os.mkfifo(tmp_path / "pipe.tsv")
    run = tmp_path / "foreign"
    shutil.copytree(own_run, run)
    plant(run, {f"data.{split}": str(tmp_path / "pipe.tsv"), "data.folder": str(own_run.parent)})
    if has_record:
        data_files.record_data_files(load_recipe(run / "recipe.toml")).save(run)
    else:
        (run / DATA_FILES).unlink()
    with pytest.raises(DataError, match=r"not a regular file|has no record of its data files"):
        list(train(load_recipe(run / "recipe.toml"), run, resume=True))


def test_a_dataset_of_the_hub(own_run, tmp_path) -> None:
    run = tmp_path / "foreign"
    shutil.copytree(own_run, run)
    plant(run, {"data.test": {"dataset": "someone/private", "source": ["a"], "target": ["b"]}})
    with pytest.raises(DataError, match=r"someone/private: .* but of datasets of the Hub nothing is recorded"):
        weft.evaluate(run)


def test_a_record_that_does_not_fit(foreign, canaries) -> None:
    """A stranger who guesses the size of a file does not know its contents."""
    size = (canaries / "pairs.tsv").stat().st_size
    DataRecord({"test": [FileFingerprint("pairs.tsv", size, "0" * 64)]}).save(foreign)
    with pytest.raises(DataError, match="nothing that the run was trained with"):
        weft.evaluate(foreign)


@pytest.mark.parametrize("function", [weft.evaluate, weft.report, weft.compare, measure_forgetting])
def test_the_functions_of_python(function, foreign, canaries) -> None:
    runs = (foreign, foreign) if function is weft.compare else (foreign,)
    with watching(canaries) as files, pytest.raises(DataError, match="nothing that the run was trained with"):
        function(*runs)
    assert files == []


def test_the_user_may_accept_them(foreign, typed, tmp_path) -> None:
    for arguments in (
        ["evaluate", "foreign", "--accept-new-data"],
        ["compare", "foreign", "foreign", "--accept-new-data"],
        ["report", "foreign", "--accept-new-data"],
        ["data", "show", "foreign/recipe.toml", "--accept-new-data"],
        ["data", "show", "foreign/recipe.toml", "--split", "test", "--set", f"data.test={tmp_path}/mine.tsv"],
        ["data", "check", "foreign/recipe.toml", "--accept-new-data", "--set", "data.prepared=none"],
    ):
        (tmp_path / "mine.tsv").write_text("a\tb\n", "utf-8")
        code, _, stderr = typed(*arguments)
        assert code == 0, stderr


def test_a_run_of_the_user_needs_nothing(own_run, typed, tmp_path) -> None:
    """Its data are those it was trained with, wherever they are now."""
    shutil.copytree(own_run.parent, tmp_path / "moved")
    run = tmp_path / "moved" / "run"
    plant(run, {"data.folder": str(tmp_path / "moved")})
    for arguments in (["evaluate", str(run)], ["compare", str(run), str(run)], ["report", str(run)]):
        code, _, stderr = typed(*arguments)
        assert code == 0, stderr
    (tmp_path / "moved" / "test.tsv").write_text("a new\ttest set\n", "utf-8")
    code, _, stderr = typed("evaluate", str(run))
    assert code == 2 and stderr == (
        f"weft: data.test: {tmp_path}/moved/test.tsv: the recipe of {run} names it, but it is nothing that the run was "
        "trained with; name the pairs yourself, or accept it: --accept-new-data\n"
    )


def test_what_a_service_shows(foreign, canaries) -> None:
    """The examples are in the run folder."""
    from weft.apps.serve.model_info import examples, model_info

    with watching(canaries) as files:
        run = weft.load(foreign)
        assert SECRET not in json.dumps([model_info(run), examples(run)])
    assert files == [] and examples(run) == [{"source": "a b"}, {"source": "c d"}]
    plant(foreign, {"serve.examples": False})
    assert examples(weft.load(foreign)) == []


def test_a_worker_of_a_service(foreign, canaries) -> None:
    """What it reports when it has loaded the run; here it is no process of its own, so that its files are watched."""
    from weft.apps.serve.worker import Worker

    reports = io.BytesIO()
    worker = Worker(io.BytesIO(), reports)
    worker.config = {"runs": [str(foreign)], "device": "cpu", "threads": 1}
    with watching(canaries) as files:
        worker._load_and_report()
    assert files == [] and b'"ready"' in reports.getvalue() and SECRET.encode() not in reports.getvalue()


def test_what_is_pushed(foreign, canaries, typed, monkeypatch) -> None:
    """Files of the run folder alone."""
    import huggingface_hub

    uploads: list[dict[str, Any]] = []

    class Hub:
        def create_repo(self, name: str, **options: Any) -> str:
            return name

        def upload_folder(self, **options: Any) -> None:
            uploads.append(options)

    monkeypatch.setattr(huggingface_hub, "HfApi", Hub)
    with watching(canaries) as files:
        code, _, stderr = typed("push", "foreign", "someone/model")
    assert code == 0 and files == [], stderr
    assert uploads[0]["folder_path"] == Path("foreign")
    assert uploads[0]["allow_patterns"] and not any("/" in name for name in uploads[0]["allow_patterns"])


def test_links_are_not_followed(foreign, canaries, tmp_path) -> None:
    """What a service publishes of a run folder is in that folder."""
    from weft.apps.serve.training import LogReader
    from weft.interop.huggingface.sharing import shared_files
    from weft.runs.layout import read_examples

    (canaries / "list.json").write_text(f'["{SECRET}"]', "utf-8")
    (canaries / "log.jsonl").write_text(f'{{"{SECRET}": 1}}\n', "utf-8")
    for name, target in (("examples.json", "list.json"), ("log.jsonl", "log.jsonl"), ("README.md", "pairs.tsv")):
        (foreign / name).unlink()
        (foreign / name).symlink_to(canaries / target)
    assert read_examples(foreign) == []
    assert LogReader(foreign / "log.jsonl").read() == []
    with pytest.raises(CheckpointError, match=r"README.md: is a symbolic link out of the folder"):
        shared_files(foreign)
    page = weft.report(foreign, [("a b", "b a")] * 9).to_html()
    assert SECRET not in page


CONTENTS = {"text": f"{SECRET}: 1\n", "JSON": f'{{"{SECRET}": "{SECRET}", "kind": "{SECRET}"}}\n'}


@pytest.mark.parametrize("content", CONTENTS)
@pytest.mark.parametrize(
    "name",
    [
        "tokenizer.json",
        "lengths.json",
        "model.safetensors",
        "confidence.json",
        "data_files.json",
        "log.jsonl",
    ],
)
def test_no_message_quotes_a_file_that_a_link_leads_to(name, content, own_run, tmp_path, typed) -> None:
    """A file of the run is a link to one of the user: whether the run loads or not, nothing of that file is shown.

    Of a recipe, messages name unknown settings.
    """
    run = tmp_path / "foreign"
    shutil.copytree(own_run, run)
    (tmp_path / "private").write_text(CONTENTS[content], "utf-8")
    (run / name).unlink(missing_ok=True)
    (run / name).symlink_to(tmp_path / "private")
    (tmp_path / "in.tsv").write_text("a b\tb a\n", "utf-8")
    for arguments in (["translate", "foreign", "in.tsv"], ["evaluate", "foreign", "in.tsv"], ["runs", "foreign"]):
        _, stdout, stderr = typed(*arguments)
        assert SECRET not in stdout + stderr, stderr
