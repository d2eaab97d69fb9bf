"""A run that is resumed after its data have changed stops; contracts/test_foreign_runs.py has the runs of strangers."""

import gzip
import json
import os
import shutil
import warnings

import pytest

from weft.data.fingerprints import DATA_FILES, DataRecord, Fingerprints
from weft.data.pairs import Pair
from weft.errors import DataError, WeftWarning, command_line
from weft.recipe import load_recipe, make_recipe
from weft.training.events import Finished
from weft.training.train import train

ROWS = [(f"{a} {b}", f"{b} {a}") for a in "abcd" for b in "abcd"]
TSV = "".join(f"{source}\t{target}\n" for source, target in ROWS)


def write_parquet(folder):
    arrow = pytest.importorskip("pyarrow")
    table = arrow.table({"s": [source for source, _ in ROWS], "t": [target for _, target in ROWS]})
    __import__("pyarrow.parquet").parquet.write_table(table, folder / "p.parquet")


def write_sides(folder):
    (folder / "p.src").write_text("".join(f"{source}\n" for source, _ in ROWS), "utf-8")
    (folder / "p.tgt").write_text("".join(f"{target}\n" for _, target in ROWS), "utf-8")


def write_shards(folder):
    (folder / "shards").mkdir()
    (folder / "shards" / "0.tsv").write_text(TSV, "utf-8")
    (folder / "shards" / "1.tsv").write_text(TSV, "utf-8")


CORPORA = {
    "tsv": (lambda folder: (folder / "p.tsv").write_text(TSV, "utf-8"), "p.tsv", "p.tsv"),
    "gzip": (lambda folder: (folder / "p.tsv.gz").write_bytes(gzip.compress(TSV.encode())), "p.tsv.gz", "p.tsv.gz"),
    "two files": (write_sides, {"source": "p.src", "target": "p.tgt"}, "p.tgt"),
    "folder": (write_shards, "shards/*.tsv", "shards/1.tsv"),
    "jsonl": (
        lambda folder: (folder / "p.jsonl").write_text(
            "".join(json.dumps({"s": source, "t": target}) + "\n" for source, target in ROWS), "utf-8"
        ),
        {"file": "p.jsonl", "source": ["s"], "target": ["t"]},
        "p.jsonl",
    ),
    "parquet": (write_parquet, {"file": "p.parquet", "source": ["s"], "target": ["t"]}, "p.parquet"),
}
"""What writes a corpus, how a recipe names it, and the file that is changed."""


def interrupted(tiny, folder, corpus, **changes):
    """A run that was stopped after its first step."""
    changes = {"data.folder": str(folder), "data.options": {}, "tokenizer.kind": "word", **changes}
    recipe = tiny({"training.steps": 4, "training.save_every": 1, "training.validate_every": 0, **changes})
    tree = recipe.model_dump(exclude_none=True)
    recipe = make_recipe({**tree, "data": {**tree["data"], "train": corpus}})
    for event in train(recipe, folder / "run"):
        if event.step == 1:
            break
    return folder / "run"


def resumed(run, **options):
    recipe = load_recipe(run / "recipe.toml")
    with warnings.catch_warnings():
        warnings.simplefilter("error", WeftWarning)
        return list(train(recipe, run, resume=True, **options))


@pytest.mark.parametrize("name", CORPORA)
@pytest.mark.parametrize("streaming", [False, True], ids=["prepared", "streamed"])
def test_a_file_that_has_changed(name, streaming, tiny, tmp_path):
    write, corpus, changed = CORPORA[name]
    write(tmp_path)
    run = interrupted(tiny, tmp_path, corpus, **{"data.streaming": streaming})
    path = tmp_path / changed
    before = path.read_bytes()
    path.write_bytes(before.replace(b"a b", b"a c") if name not in ("gzip", "parquet") else before[:-1] + b"!")
    message = (
        f"{path}: has changed since {run} was trained with it (data.train); restore the former data, or continue with "
        "the new: "
    )
    with pytest.raises(DataError) as caught:
        resumed(run)
    assert str(caught.value) == f"{message}accept_new_data=True"
    with command_line(), pytest.raises(DataError) as caught:
        resumed(run)
    assert str(caught.value) == f"{message}--accept-new-data"
    path.unlink()
    path.write_bytes(before)  # another file with the same contents, written later
    os.utime(path, (1, 1))
    assert isinstance(resumed(run)[-1], Finished)


def test_new_data_that_are_accepted(tiny, tmp_path):
    (tmp_path / "p.tsv").write_text(TSV, "utf-8")
    run = interrupted(tiny, tmp_path, "p.tsv")
    (tmp_path / "p.tsv").write_text(TSV * 2, "utf-8")
    started, *_, finished = resumed(run, accept_new_data=True)
    assert started.pairs == 2 * len(ROWS) and finished.step == 4
    assert isinstance(resumed(run)[-1], Finished)  # they are the data of the run now


def test_the_run_was_trained_on_both(tiny, tmp_path):
    """Test pairs of either are detected."""
    (tmp_path / "p.tsv").write_text(TSV, "utf-8")
    run = interrupted(tiny, tmp_path, "p.tsv")
    (tmp_path / "p.tsv").write_text("d c b a\ta\n" * 20, "utf-8")
    resumed(run, accept_new_data=True)
    fingerprints = Fingerprints.load(run)
    assert fingerprints is not None
    assert fingerprints.known_sources([Pair("a b", ""), Pair("d c b a", ""), Pair("a b c", "")]) == [True, True, False]


def test_more_files_than_before(tiny, tmp_path):
    write_shards(tmp_path)
    run = interrupted(tiny, tmp_path, "shards/*.tsv")
    shutil.copy(tmp_path / "shards" / "1.tsv", tmp_path / "shards" / "2.tsv")
    with pytest.raises(DataError) as caught:
        resumed(run)
    assert str(caught.value).startswith(f"data.train: 3 files now, 2 when {run} was trained; restore")


@pytest.mark.parametrize("split", ["valid", "test"])
def test_validation_and_test_sets(split, tiny, tmp_path):
    (tmp_path / "p.tsv").write_text(TSV, "utf-8")
    (tmp_path / "v.tsv").write_text(TSV, "utf-8")
    run = interrupted(tiny, tmp_path, "p.tsv", **{f"data.{split}": "v.tsv"})
    (tmp_path / "v.tsv").write_text("a\tb\n", "utf-8")
    with pytest.raises(DataError, match=rf"v\.tsv: has changed since .* \(data\.{split}\)"):
        resumed(run)


def test_data_that_were_moved(tiny, tmp_path):
    (tmp_path / "p.tsv").write_text(TSV, "utf-8")
    interrupted(tiny, tmp_path, "p.tsv")
    shutil.copytree(tmp_path, tmp_path / "elsewhere")
    (tmp_path / "p.tsv").unlink()
    recipe = (tmp_path / "elsewhere" / "run" / "recipe.toml").read_text("utf-8")
    moved = recipe.replace(f'folder = "{tmp_path}"', f'folder = "{tmp_path / "elsewhere"}"')
    (tmp_path / "elsewhere" / "run" / "recipe.toml").write_text(moved, "utf-8")
    assert isinstance(resumed(tmp_path / "elsewhere" / "run")[-1], Finished)


def test_a_run_of_an_older_version(tiny, tmp_path):
    """It has no record: its user accepts the files, and it has a record from then on."""
    (tmp_path / "p.tsv").write_text(TSV, "utf-8")
    run = interrupted(tiny, tmp_path, "p.tsv")
    (run / DATA_FILES).unlink()
    recipe = load_recipe(run / "recipe.toml")
    message = rf"p\.tsv: {run} has no record of its data files; accept what is in it: accept_new_data=True"
    with pytest.raises(DataError, match=message):
        list(train(recipe, run, resume=True))
    assert isinstance(list(train(recipe, run, resume=True, accept_new_data=True))[-1], Finished)
    record = DataRecord.load(run)
    assert record is not None and record.has(tmp_path / "p.tsv")


def test_built_in_corpora_have_no_files(tiny, tmp_path):
    run = tmp_path / "run"
    list(train(tiny({"training.steps": 1}), run))
    record = DataRecord.load(run)
    assert record is not None and record.files == {}
    (run / DATA_FILES).unlink()
    assert isinstance(resumed(run)[-1], Finished)


def test_data_that_are_gone_stay_recorded(tiny, tmp_path):
    """A prepared corpus does without them."""
    (tmp_path / "p.tsv").write_text(TSV, "utf-8")
    run = interrupted(tiny, tmp_path, "p.tsv", **{"data.prepared": "out"})
    before = DataRecord.load(run)
    (tmp_path / "p.tsv").unlink()
    assert isinstance(resumed(run)[-1], Finished)
    assert DataRecord.load(run) == before != DataRecord({})
