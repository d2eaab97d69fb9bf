"""``weft data show``: what it says of corpora."""

from __future__ import annotations

import io
import re
import sys
from types import SimpleNamespace

import pytest

from fixtures.broken_corpora import BROKEN, RECIPE, said_as_json, write_corpora


@pytest.fixture(autouse=True)
def folder(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    write_corpora(tmp_path)
    return tmp_path


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
