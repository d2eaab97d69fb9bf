"""``weft data``: what it says of corpora and recipes, and what it leaves behind."""

from __future__ import annotations

import gzip
import io
import json
import re
import sys
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest

from weft.data.arrays.files import ArrayFiles
from weft.data.reading.pair_files import read_pairs
from weft.tasks import generate
from weft.tasks.drawn_digits import draw

BROKEN = "a b\tx\nc\ty z\none column\nc\ty z\n\t\nd\td\n"
RECIPE = """
[data]
train = ["pairs.tsv", {source = "lines.src", target = "lines.tgt"}]
max_length = 2
bad_rows = "skip"
pipeline = [{kind = "identical"}, {kind = "length", max = 3}, {kind = "duplicates"}]
[tokenizer]
kind = "word"
[model]
embedding = 7
encoder = {hidden = 8}
decoder = {hidden = 8}
[training]
steps = 2
batch_tokens = 30
validate_every = 0
save_every = 0
device = "cpu"
"""


@pytest.fixture(autouse=True)
def folder(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "pairs.tsv").write_text(BROKEN + "e e e e\tx\ne e e\tx\n", "utf-8")
    (tmp_path / "lines.src").write_text("a\nb\n", "utf-8")
    (tmp_path / "lines.tgt").write_text("x\ny\n", "utf-8")
    (tmp_path / "rows.jsonl").write_text('{"en": "a", "de": "b c"}\n{"en": "c"}\nnot json\n', "utf-8")
    (tmp_path / "three.jsonl").write_text('{"a": "x", "b": "y", "c": "z"}\n{"a": "u", "b": "v", "c": "w"}\n', "utf-8")
    (tmp_path / "recipe.toml").write_text(RECIPE, "utf-8")
    return tmp_path


def said_as_json(said):
    return [json.loads(line) for line in said.stdout.splitlines()]


class TestShow:
    def test_a_file_with_broken_rows(self, command):
        said = command("data", "show", "pairs.tsv", "--samples", 2)
        lines = said.stdout.splitlines()
        assert lines[0] == "pairs.tsv" and re.fullmatch(r"pairs +7", lines[1])
        assert "blank sides      source 1, target 1" in lines
        assert lines[-1] == (
            "bad rows (columns): 1; the first: pairs.tsv:3: 1 column, expected 2 (source, tab, target)"
        )
        assert said.stdout.count("    source  ") == 2 and said.stderr == ""

    def test_samples_are_located(self, command, folder):
        """By file and line, whether or not rows before them could be read."""
        rows = (folder / "pairs.tsv").read_text("utf-8").splitlines()
        [found] = said_as_json(command("data", "show", "pairs.tsv", "--samples", 7, "--json"))
        assert len(found["samples"]) == 6, "one pair is there twice"
        for sample in found["samples"]:
            name, line = sample["where"].rsplit(":", 1)
            assert name == "pairs.tsv" and rows[int(line) - 1].split("\t") == [sample["source"], sample["target"]]

    def test_the_seed_chooses_the_samples(self, command, folder):
        (folder / "many.tsv").write_text("".join(f"a{row}\tb\n" for row in range(60)), "utf-8")
        shown = [
            command("data", "show", "recipe.toml", "--set", "data.train=many.tsv", "--set", f"seed={seed}").stdout
            for seed in (1, 2, 1)
        ]
        assert shown[0] == shown[2] != shown[1]

    def test_as_json(self, command):
        [found] = said_as_json(command("data", "show", "pairs.tsv", "--json"))
        assert found["corpus"] == "pairs.tsv" and found["pairs"] == 7
        assert found["bad_rows"]["columns"]["rows"] == 1
        assert found["duplicates"]["pairs"] == 1 and found["identical"] == 2
        assert found["source"]["blank"] == 1 and len(found["samples"]) == 5

    def test_two_files(self, command):
        [found] = said_as_json(command("data", "show", "lines.src", "lines.tgt", "--json"))
        assert found["pairs"] == 2 and {(one["source"], one["target"]) for one in found["samples"]} == {
            ("a", "x"),
            ("b", "y"),
        }

    def test_columns_of_a_table(self, command):
        [found] = said_as_json(command("data", "show", "rows.jsonl", "--source", "en", "--target", "de", "--json"))
        assert found["pairs"] == 1 and found["samples"][0]["target"] == "b c"
        assert {kind: one["rows"] for kind, one in found["bad_rows"].items()} == {"columns": 1, "json": 1}
        [found] = said_as_json(command("data", "show", "pairs.tsv", "--source", "2", "--target", "1", "--json"))
        assert found["pairs"] == 7

    def test_a_recipe(self, command):
        found = said_as_json(command("data", "show", "recipe.toml", "--json"))
        assert [(one["corpus"], one["pairs"]) for one in found] == [("pairs.tsv", 7), ("lines.src", 2)]
        said = command("data", "show", "recipe.toml", "--samples", 0)
        assert said.stdout.startswith("pairs.tsv\n") and "\n\nlines.src\n" in said.stdout

    def test_a_split_of_a_shipped_recipe(self, command):
        [found] = said_as_json(
            command("data", "show", "grammar", "--split", "test", "--set", "data.test_size=9", "--json")
        )
        assert (found["corpus"], found["pairs"]) == ("grammar", 9)

    def test_standard_input(self, command, monkeypatch):
        monkeypatch.setattr(sys, "stdin", SimpleNamespace(buffer=io.BytesIO(BROKEN.encode())))
        [found] = said_as_json(command("data", "show", "-", "--json"))
        assert found["pairs"] == 5 and "<standard input>:3: 1 column" in found["bad_rows"]["columns"]["first"]

    def test_columns_are_found_as_for_training(self, command, folder):
        """Those that `weft train FILE` chooses, told on stderr."""
        (folder / "ids.tsv").write_text("".join(f"{7 * n % 13}\ta {n}\t{n * n}\tb {n}\n" for n in range(9)), "utf-8")
        said = command("data", "show", "ids.tsv", "--json")
        assert said_as_json(said)[0]["pairs"] == 9
        assert said.stderr == "columns: source 2; target 4; not used 1, 3 (by number)\n"
        (folder / "pairs.csv").write_text("German,English\nein,a\nzwei,two\n", "utf-8")
        said = command("data", "show", "pairs.csv", "--samples", 0)
        assert re.search(r"pairs +2\n", said.stdout)
        assert said.stderr == "columns: source German; target English (the first row is a header)\n"
        (folder / "links.tsv").write_text("a\tb\t0-0\nc\td\n", "utf-8")
        said = command("data", "show", "links.tsv", "--json")
        assert said_as_json(said)[0]["pairs"] == 2 and said.stderr == ""
        assert said_as_json(command("data", "show", "rows.jsonl", "--json"))[0]["pairs"] == 1

    @pytest.mark.parametrize(
        ("asked", "message"),
        [
            (["none.tsv"], "none.tsv: no such file, recipe or built-in corpus; "),
            (["lines.src", "none.tgt"], "none.tgt: no such file"),
            (["none.toml"], "none.toml: cannot be read (No such file or directory)"),
            (["pairs.tsv", "--split", "vaild"], "--split vaild: did you mean 'valid'?"),
            (["pairs.tsv", "--split", "valid"], "data.valid: the recipe names no valid pairs; "),
            (["rows-*.jsonl"], "rows-*.jsonl: say which columns, e.g. --source en --target de"),
            (["rows.jsonl.gz"], "rows.jsonl.gz: no such file, recipe or built-in corpus; "),
            (["three.jsonl"], "three.jsonl: several columns of text: a, b, c; name two with --source and --target"),
            (["rows.jsonl", "--source", "en"], "--source and --target name columns of one file; give both"),
            (["pairs.tsv", "--source", "\u00b2", "--target", "1"], "pairs.tsv:1: no column '\u00b2'"),
            (["pairs.tsv", "--set", "data.bad_rowz=skip"], "data.bad_rowz: unknown setting; did you mean 'bad_rows'?"),
        ],
        ids=str,
    )
    def test_what_cannot_be_shown_is_one_line(self, refusal, asked, message):
        assert refusal("data", "show", *asked).startswith(message)


class TestDifferences:
    """What ``weft data show`` says of test pairs that differ from the training pairs."""

    @pytest.fixture
    def commands(self, folder):
        (folder / "commands").mkdir()
        sources = [f"{verb} {way} now{more}" for verb in "abc" for way in "xyz" for more in ("", " now")]
        rows = [f"{source}\tx y\n" for source in (*sources, "d now", "d now now")]
        (folder / "commands" / "train.tsv").write_text("".join(rows), "utf-8")
        (folder / "commands" / "valid.tsv").write_text("a x now\ta x\n", "utf-8")
        (folder / "commands" / "test.tsv").write_text("d x\td x\nd y\td y d y\na q\ta\nb\tb\n", "utf-8")
        return "commands"

    def test_of_a_folder(self, command, commands):
        lines = command("data", "show", commands, "--samples", 0).stdout.splitlines()
        assert lines[-4:] == [
            "",
            "25% of the test pairs have a longer target than any training pair (up to 4 tokens, in training 2)",
            "25% of the test pairs have a source token that is not trained on (such as 'q'; 0% by chance)",
            "50% of the test pairs have a new combination of known source tokens (such as 'd x'; 5% by chance)",
        ]

    def test_as_json(self, command, commands):
        *_, record = said_as_json(command("data", "show", commands, "--json"))
        assert set(record["differences"]) == {"valid", "test"}
        assert record["differences"]["test"]["longer_targets"] == {"share": 0.25, "longest": 4, "longest_trained": 2}
        assert record["differences"]["test"]["new_tokens"]["example"] == "q"

    def test_of_a_recipe_whose_test_file_is_missing(self, command, folder, commands):
        recipe = RECIPE.replace('train = ["pairs.tsv", {', 'test = "none.tsv"\ntrain = ["pairs.tsv", {')
        (folder / "recipe.toml").write_text(recipe, "utf-8")
        assert "test pairs" not in command("data", "show", "recipe.toml").stdout

    def test_other_splits_are_not_compared(self, command, commands):
        assert "test pairs" not in command("data", "show", commands, "--split", "test").stdout

    def test_training_warns_of_them(self, command, commands):
        said = command("data", "recommend", commands).stdout
        assert "# warning: 25% of the test pairs have a longer target than any training pair" in said


class TestCheck:
    def test_counts_add_up(self, command):
        first, second = said_as_json(command("data", "check", "recipe.toml", "--json"))
        assert (first["corpus"], first["rows"], first["kept"]) == ("pairs.tsv", 8, 2)
        assert first["rows"] == first["kept"] + sum(first["dropped"].values())
        assert first["dropped"] == dict.fromkeys(
            (
                "cannot be read",
                "a blank side",
                "identical: source and target differ",
                "length: 1 to 3 words on both sides",
                "duplicates: the first of the same pair stays",
                "more than 2 tokens on a side",
            ),
            1,
        )
        assert (second["corpus"], second["rows"], second["kept"], second["dropped"]) == ("lines.src", 2, 2, {})

    def test_three_examples_of_each_kind_are_shown(self, command, folder):
        (folder / "pairs.tsv").write_text("".join(f"{word}\t{word}\n" for word in "abcdefgh") + "x\ty\n", "utf-8")
        said = command("data", "check", "recipe.toml").stdout
        assert said.count(f"  {folder}/pairs.tsv:") == 3
        assert command("data", "check", "recipe.toml", "--examples", 0).stdout.count(f"  {folder}/pairs.tsv:") == 0

    def test_the_table(self, command, folder):
        said = command("data", "check", "recipe.toml", "--examples", 1).stdout
        rows = [re.split(r"  +", line) for line in said.split("\n\n")[0].splitlines()[2:]]
        left = 8
        for _, before, dropped, _ in rows[:-1]:
            assert int(before) == left
            left -= int(dropped)
        assert [int(row[2]) for row in rows[:-1]] == [1, 1, 1, 1, 1, 1]
        assert rows[-1][:2] == ["kept", "2"] and left == 2
        assert [row[0] for row in rows[:-1]] == [
            "1. cannot be read",
            "2. a blank side",
            "3. identical: source and target differ",
            "4. length: 1 to 3 words on both sides",
            "5. duplicates: the first of the same pair stays",
            "6. more than 2 tokens on a side",
        ]
        assert f"  {folder}/pairs.tsv:6\n    source  d\n    target  d\n" in said
        assert f"  {folder}/pairs.tsv:7\n    source  e e e e\n" in said
        assert f"  {folder}/pairs.tsv:8\n    source  e e e\n" in said
        assert f"left out (columns): 1; the first: {folder}/pairs.tsv:3: 1 column" in said

    def test_counts_bad_rows_whatever_the_recipe_says(self, command):
        changes = ["--set", "data.bad_rows=error", "--set", "data.blank_rows=error"]
        first, _ = said_as_json(command("data", "check", "recipe.toml", *changes, "--json"))
        assert first["problems"] == {"columns": 1, "blank": 1}

    def test_says_so_where_nothing_is_left(self, command):
        change = 'data.pipeline=[{kind = "pattern", expression = "never"}]'
        first, _ = said_as_json(command("data", "check", "recipe.toml", "--set", change, "--json"))
        assert first["kept"] == 0 and first["dropped"]["pattern: with 'never' on both sides"] == 6

    def test_pairs_of_other_splits_that_are_in_the_training_data(self, command):
        """What is trained on counts: a pair that was dropped from the training data is not in it."""
        Path("test.tsv").write_text("a\tx\na\tanother\nd\td\nnew\tx\n\t\n", "utf-8")
        Path("train.tsv").write_text("a\tx\nb\ty\nd\td\n", "utf-8")
        changes = ["data.train=train.tsv", "data.test=test.tsv", 'data.pipeline=[{kind = "identical"}]']
        asked = ["data", "check", "copy.toml", *(word for change in changes for word in ("--set", change))]
        Path("copy.toml").write_text("[tokenizer]\nkind = 'word'\n", "utf-8")
        said = command(*asked).stdout
        assert said.endswith("\n\ndata.test: 2 of 4 pairs have a source in the training data, 1 with the same target\n")
        assert said_as_json(command(*asked, "--json"))[-1] == {
            "in_training_data": {"test": {"sources": 2, "pairs": 1, "compared": 4}}
        }

    def test_an_unknown_recipe_is_one_line(self, refusal):
        assert refusal("data", "check", "gramar").startswith("gramar: no such recipe; did you mean 'grammar'")


class TestPrepare:
    def test_then_train(self, command, folder):
        said = command("data", "prepare", "recipe.toml", "--out", "out")
        assert said.stdout == "out: 4 pairs, 9 source and 9 target tokens\n"
        assert said.stderr.splitlines() == [
            "pairs.tsv: 2 of 8 rows kept",
            f"  left out (columns): 1; the first: {folder}/pairs.tsv:3: 1 column, expected 2 (source, tab, target)",
            f"  left out (blank): 1; the first: {folder}/pairs.tsv:5: the source is blank",
            "lines.src: 2 of 2 rows kept",
        ]
        for name in ("pairs.tsv", "lines.src", "lines.tgt"):
            (folder / name).unlink()
        command("train", "recipe.toml", "--out", "run", "--set", "data.prepared=out")
        assert (folder / "run" / "model.safetensors").is_file()

    def test_pairs_are_counted_once_however_often_they_are_cut(self, command):
        asked = ["--set", "tokenizer.kind=bpe", "--set", "tokenizer.dropout=0.1", "--set", "tokenizer.variants=3"]
        said = command("data", "prepare", "recipe.toml", "--out", "out", *asked, "--set", "data.max_length=9")
        assert said.stdout.startswith("out: 5 pairs in 3 variants each, ")

    def test_says_how_to_find_it_where_the_data_are_elsewhere(self, command, folder):
        (folder / "elsewhere").mkdir()
        for name in ("pairs.tsv", "lines.src", "lines.tgt"):
            (folder / name).rename(folder / "elsewhere" / name)
        elsewhere = ["--set", "data.folder=elsewhere"]
        said = command("data", "prepare", "recipe.toml", "--out", "out", *elsewhere)
        hint = said.stderr.splitlines()[-1].removeprefix("to train on it: ").split()
        assert hint == ["--set", f"data.prepared={folder / 'out'}"]
        command("train", "recipe.toml", "--out", "run", *elsewhere, *hint)
        assert not (folder / "elsewhere" / "out").exists()

    def test_training_tells_what_was_left_out_as_it_is_written(self, command, folder):
        """Brackets and colons are those of the recipe, no markup of the terminal's."""
        change = 'data.pipeline=[{kind = "pattern", expression = "[/e]|:cat:|[bold]", keep = false}]'
        said = command("train", "recipe.toml", "--out", "run", "--set", change)
        assert "without '[/e]|:cat:|[bold]' on both sides" in " ".join(said.stderr.split())

    def test_a_folder_that_exists_is_one_line(self, refusal, folder):
        (folder / "out").mkdir()
        message = refusal("data", "prepare", "recipe.toml", "--out", "out")
        assert message == "out: already exists; remove it, or choose another folder with --out"

    def test_bad_rows_and_missing_files_are_one_line_and_leave_nothing(self, refusal, folder):
        before = sorted(folder.iterdir())
        message = refusal("data", "prepare", "recipe.toml", "--out", "out", "--set", "data.bad_rows=error")
        assert message.startswith(f"{folder}/pairs.tsv:3: 1 column, expected 2") and message.endswith(
            "data.bad_rows = 'skip'"
        )
        message = refusal("data", "prepare", "recipe.toml", "--out", "out", "--set", "data.train=none.tsv")
        assert message.startswith(f"{folder}/none.tsv: no such file")
        assert sorted(folder.iterdir()) == before

    def test_with_processes(self, command, folder):
        command("data", "prepare", "recipe.toml", "--out", "one")
        command("data", "prepare", "recipe.toml", "--out", "two", "--set", "data.workers=2")
        assert (folder / "one" / "target.ids").read_bytes() == (folder / "two" / "target.ids").read_bytes()


class TestGenerate:
    def test_to_a_packed_file_and_back(self, command, folder):
        said = command("data", "generate", "grammar", "--count", 20, "--out", "g.tsv.gz", "--seed", 5)
        assert said.stdout == "g.tsv.gz: 20 pairs\n"
        assert list(read_pairs("g.tsv.gz")) == list(generate("grammar", "train", 20, seed=5))
        assert gzip.decompress(Path("g.tsv.gz").read_bytes()).count(b"\n") == 20
        [found] = said_as_json(command("data", "show", "g.tsv.gz", "--json"))
        assert found["pairs"] == 20

    def test_to_standard_output(self, command, folder):
        said = command("data", "generate", "copy", "-n", 4, "--split", "valid", "--set", "length=3")
        Path("said.tsv").write_text(said.stdout, "utf-8")
        assert list(read_pairs("said.tsv")) == list(generate("copy", "valid", 4, seed=1, options={"length": 3}))

    def test_pictures_are_written_into_a_folder(self, command, folder):
        for split, count in (("train", 3), ("test", 2)):
            said = command("data", "generate", "drawn-digits", "-n", count, "--split", split, "--out", "digits")
            assert said.stdout == f"digits/{split}.tsv: {count} pairs\n"
        pairs = list(read_pairs("digits/train.tsv"))
        assert pairs == list(generate("drawn-digits", "train", 3, seed=1))
        assert len(list(Path("digits/pictures").glob("*.png"))) == 5
        with ArrayFiles.of_table("digits/train.tsv") as files:
            assert np.array_equal(files.read(pairs[2].source)[:, :, 0], draw(pairs[2].source))

    @pytest.mark.parametrize(
        ("asked", "message"),
        [
            *(
                (["drawn-digits", *out], "drawn-digits: its sources are pictures; give a folder to write them into")
                for out in ([], ["--out", "digits.tsv"])
            ),
            (["drawn-digits", "--out", "recipe.toml/digits"], "recipe.toml/digits: cannot be created: Not a directory"),
            (["coppy"], "unknown task 'coppy'; did you mean 'copy'?"),
            (["copy", "--split", "vaild"], "task copy: unknown split 'vaild'; did you mean 'valid'?"),
            (["copy", "--set", "lenght=3"], "task copy: unknown option 'lenght'; did you mean 'length'?"),
            (["copy", "--set", "length"], "--set length: expected NAME=VALUE"),
            (["copy", "--out", "none/g.tsv"], "none/g.tsv: cannot write: No such file or directory"),
        ],
        ids=str,
    )
    def test_what_cannot_be_made_is_one_line(self, refusal, asked, message):
        assert refusal("data", "generate", *asked).startswith(message)
