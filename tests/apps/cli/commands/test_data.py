"""``weft data``: what it says of corpora and recipes, and what it leaves behind."""

from __future__ import annotations

import gzip
import re
from pathlib import Path

import numpy as np
import pytest

from fixtures.broken_corpora import said_as_json, write_corpora
from weft.data.arrays.files import ArrayFiles
from weft.data.reading.pair_files import read_pairs
from weft.tasks import generate
from weft.tasks.drawn_digits import draw


@pytest.fixture(autouse=True)
def folder(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    write_corpora(tmp_path)
    return tmp_path


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
