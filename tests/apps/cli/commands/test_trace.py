"""``weft trace``: the tree of a beam, the path of other searches, as text, picture or data."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import pytest
from rich.cells import cell_len

from weft.apps.cli.commands import trace as cli
from weft.files import json_text
from weft.search.trace import BeamTrace, Branch

Command = Callable[..., tuple[str, str]]
Runs = Callable[[str], Path]
SPELLED = {"</s>": "", "<unk>": " ⁇"}
BEAM = ("a b c", "--search", "beam", "--set", "search.size=3")


def sentence(pieces: list[str]) -> str:
    return "".join(SPELLED.get(piece, f" {piece}") for piece in pieces).strip()


class TestTerminal:
    @pytest.mark.parametrize("name", ["lstm", "transformer", "prefix", "blind"])
    def test_a_beam(self, command: Command, runs: Runs, name: str) -> None:
        first, blank, *lines = command("trace", runs(name), *BEAM)[0].splitlines()
        assert first.startswith("a b c → ") and blank == ""
        assert lines[0].split() == ["step", "log", "p"] and lines[1].strip() == "<s>"
        assert sum("◀ best" in line for line in lines) == 1 and "● best hypothesis" in "".join(lines)

    @pytest.mark.parametrize(
        ("options", "left"),
        [
            (["--search", "greedy"], "step 1   1 token kept"),
            (["--search", "sample", "--set", "search.top_k=4"], "step 1   4 tokens kept"),
        ],
    )
    def test_a_path(self, command: Command, runs: Runs, options: list[str], left: str) -> None:
        text, _ = command("trace", runs("lstm"), "a b c", *options)
        steps = [line for line in text.splitlines() if line.startswith("step ")]
        assert steps[0].startswith(left) and text.count("\n▶ ") == len(steps) + 1  # the legend has one too
        assert "cutoff" in text

    def test_the_path_says_the_translation(self, command: Command, runs: Runs) -> None:
        said = command("trace", runs("transformer"), "a b c", "--search", "greedy")[0].splitlines()
        taken = [line.split()[1] for line in said if line.startswith("▶ ") and "chosen" not in line]
        assert sentence(taken) == said[0].removeprefix("a b c → ")

    @pytest.mark.parametrize(
        "settings",
        [
            ["search.size=4", "search.groups=2", "search.diversity=2.0"],
            ["search.max_length=2"],
            ["search.size=1"],
            ["search.no_repeat_ngram=1"],
            ["search.stop=steps"],
            ["search.size=12"],
            ["search.prefix=b"],
        ],
    )
    def test_other_beams(self, command: Command, runs: Runs, settings: list[str]) -> None:
        options = [part for setting in settings for part in ("--set", setting)]
        text, _ = command("trace", runs("lstm"), "a b c", "--search", "beam", *options)
        assert text.count("◀ best") == 1

    @pytest.mark.parametrize("options", [BEAM, ("a b c", "--search", "greedy")])
    def test_the_width(self, command: Command, runs: Runs, options: tuple[str, ...]) -> None:
        text, _ = command("trace", runs("lstm"), *options, "--width", "50")
        assert max(map(cell_len, text.splitlines())) <= 50
        assert "--width" in command("trace", runs("lstm"), *options, "--width", "12", check=2)[1]


class TestPicture:
    @pytest.mark.parametrize("kind", ["beam", "greedy", "sample"])
    def test_of_each_search(self, command: Command, runs: Runs, tmp_path: Path, kind: str) -> None:
        path = tmp_path / "trace.svg"
        assert command("trace", runs("lstm"), "a b", "--search", kind, "--out", path)[0] == f"{path}\n"
        assert "a b → " in path.read_text("utf-8")

    def test_to_means_the_same(self, command: Command, runs: Runs, tmp_path: Path) -> None:
        path = tmp_path / "trace.png"
        assert command("trace", runs("lstm"), "a b", "--to", path)[0] == f"{path}\n" and path.stat().st_size > 1000

    def test_with_data(self, command: Command, runs: Runs, tmp_path: Path) -> None:
        path = tmp_path / "trace.svg"
        text, _ = command("trace", runs("lstm"), "a b", "--to", path, "--json")
        assert json.loads(text)["source"] == "a b" and path.exists()

    def test_an_unknown_format(self, refusal: Callable[..., str], tmp_path: Path) -> None:
        message = refusal("trace", tmp_path / "no run is looked for", "a b", "--to", tmp_path / "trace.gif")
        assert message.endswith("cannot draw a picture of type 'gif'; choose one of svg, png, pdf")


class TestData:
    def test_of_a_beam(self, command: Command, runs: Runs) -> None:
        found = json.loads(command("trace", runs("lstm"), *BEAM, "--json")[0])
        assert found["search"] == "beam" and found["source"] == "a b c"
        path = [step[place] for step, place in zip(found["steps"], found["winner"], strict=False)]
        assert all(one["winner"] for one in path)
        assert sum(one["winner"] for step in found["steps"] for one in step) == len(path)
        assert sentence([one["text"] for one in path]) == found["text"]
        assert path[-1]["total"] == pytest.approx(found["log_probability"], abs=1e-4)
        assert path[-1]["score"] == pytest.approx(found["score"], abs=1e-4)
        assert sum(one["log_probability"] for one in path) == pytest.approx(found["log_probability"], abs=1e-4)

    def test_of_a_path(self, command: Command, runs: Runs) -> None:
        found = json.loads(command("trace", runs("lstm"), "a b c", "--search", "greedy", "--json")[0])
        said = [step["texts"][step["chosen"]] for step in found["steps"]]
        assert sentence(said) == found["text"] and found["search"] == "greedy"
        assert all(len(step["texts"]) == len(step["tokens"]) == len(step["kept"]) for step in found["steps"])
        assert "winner" not in found

    def test_infinity_is_null(self, runs: Runs) -> None:
        from weft.translation.load import load

        found = load(runs("lstm"), device="cpu").translate("a b")
        never = Branch(3, 0, float("-inf"), float("-inf"), float("-inf"), "pruned", -1)
        [[step]] = json.loads(json_text(cli.record(found, "beam", BeamTrace([[never]], []), str)))["steps"]
        assert step == {
            **{"text": "3", "token": 3, "parent": 0, "log_probability": None, "total": None, "score": None},
            **{"outcome": "pruned", "slot": -1, "winner": False},
        }


class TestRefused:
    @pytest.mark.parametrize("kind", ["exact", "exhaustive", "mbr"])
    def test_searches_that_leave_none(self, refusal: Callable[..., str], runs: Runs, kind: str) -> None:
        message = refusal("trace", runs("lstm"), "a", "--search", kind, "--set", "search.max_extra=0")
        assert kind in message and "trace" in message and "beam" in message and "greedy" in message

    @pytest.mark.parametrize("text", ["", "  "])
    def test_no_text(self, refusal: Callable[..., str], runs: Runs, text: str) -> None:
        assert refusal("trace", runs("lstm"), text) == "TEXT is empty: there is nothing to search for"

    def test_a_language_model(self, refusal: Callable[..., str], runs: Runs) -> None:
        assert "language model" in refusal("trace", runs("language"), "a b")

    def test_no_such_run(self, refusal: Callable[..., str], tmp_path: Path) -> None:
        assert "no such run folder" in refusal("trace", tmp_path / "none", "a b")

    def test_other_settings(self, refusal: Callable[..., str], runs: Runs) -> None:
        assert "search.size=8" in refusal("trace", runs("lstm"), "a b", "--set", "training.steps=4")


def test_which_tokens_were_copied(command: Command, runs: Runs) -> None:
    options = (runs("copying"), "a b never", "--search", "greedy", "--set", "search.max_length=3")
    lines = command("trace", *options)[0].splitlines()
    table = [line.split() for line in lines[lines.index(next(line for line in lines if "copied" in line)) :]]
    record = json.loads(command("trace", *options, "--json")[0])["copied"]
    assert table[0] == ["token", "copied", "g"] and [row[0] for row in table[1:]] == record["tokens"]
    assert [float(row[1]) for row in table[1:]] == pytest.approx(record["copied"], abs=0.01)
    assert [float(row[2]) for row in table[1:]] == pytest.approx(record["gates"], abs=0.01)
    assert "copied" not in json.loads(command("trace", runs("lstm"), "a b", "--json")[0])


class TestTable:
    def test_the_tree_of_the_lecture(self, command: Command) -> None:
        first, *lines = command("trace", "--table", "pie")[0].splitlines()
        assert first == "il m'a entarté → he hit me with a pie"
        assert any("got −1.80" in line for line in lines) and sum("◀ best" in line for line in lines) == 1

    def test_picture_data_and_settings(self, command: Command, tmp_path: Path) -> None:
        path = tmp_path / "tree.svg"
        assert command("trace", "--table", "pie", "--to", path)[0] == f"{path}\n" and "entarté" in path.read_text(
            "utf-8"
        )
        found = json.loads(command("trace", "--table", "pie", "--set", "search.size=1", "--json")[0])
        assert found["search"] == "beam" and sum(branch["outcome"] == "kept" for branch in found["steps"][0]) == 1

    def test_errors(self, refusal: Callable[..., str]) -> None:
        assert refusal("trace", "run", "a", "--table", "pie").startswith("--table: the probabilities are those")
        assert refusal("trace") == "RUN and TEXT: missing; give a run and a text to translate, or --table FILE"
        assert refusal("trace", "run").startswith("TEXT: missing")
        assert refusal("trace", "--table", "no.toml") == "no.toml: cannot be read (No such file or directory)"
