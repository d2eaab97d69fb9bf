"""``weft positions``: the sinusoids, and what a run has learned in their place."""

from __future__ import annotations

from collections.abc import Callable
from itertools import pairwise
from pathlib import Path

import pytest

Command = Callable[..., tuple[str, str]]
Runs = Callable[[str], Path]


class TestSinusoids:
    def test_in_the_terminal(self, command: Command) -> None:
        lines = command("positions", "--count", "5", "--width", "4")[0].splitlines()
        assert lines[0] == "sinusoidal" and lines[1] == "positions: 5, dimensions: 4"
        assert lines[3].split() == ["0", "0.0000", "1.0000", "0.0000", "1.0000"]
        assert lines[4].split() == ["1", "0.8415", "0.5403", "0.0100", "1.0000"]
        assert any("similarity (cosine) of positions 0 to 4" in line for line in lines)

    def test_of_many_the_first_are_shown(self, command: Command) -> None:
        lines = command("positions")[0].splitlines()
        assert lines[1].startswith("positions: first 12 of 50, dimensions: first ") and lines[1].endswith(" of 64")

    @pytest.mark.parametrize("suffix", ["svg", "png", "pdf"])
    def test_a_picture(self, command: Command, tmp_path: Path, suffix: str) -> None:
        path = tmp_path / f"positions.{suffix}"
        assert command("positions", "--count", "9", "--width", "6", "--to", path)[0] == f"{path}\n"
        assert path.stat().st_size > 1000

    def test_an_unknown_format(self, refusal: Callable[..., str], tmp_path: Path) -> None:
        assert "svg, png" in refusal("positions", "--to", tmp_path / "positions.gif")
        assert not list(tmp_path.iterdir())

    @pytest.mark.parametrize("options", [["--count", "0"], ["--width", "1"]])
    def test_too_few(self, command: Command, options: list[str]) -> None:
        assert options[0] in command("positions", *options, check=2)[1]


class TestLayoutsAndProducts:
    def test_products_are_the_dot_products_of_the_lecture(self, command: Command) -> None:
        """2, 1.5403, 0.5837, 0.0096, 0.3456: closer is not always higher."""
        lines = command("positions", "--count", "5", "--width", "4", "--products")[0].splitlines()
        start = lines.index("dot products of positions: PE·PEᵀ")
        assert lines[start + 2].split() == ["0", "2.0000", "1.5403", "0.5837", "0.0096", "0.3456"]
        assert lines[start + 6].split() == ["4", "0.3456", "0.0096", "0.5837", "1.5403", "2.0000"]
        assert not any("cosine" in line for line in lines)

    def test_both_layouts_have_the_same_products(self, command: Command) -> None:
        lines = command("positions", "--count", "3", "--width", "4", "--layout", "both", "--products")[0].splitlines()
        first, second = lines.index("interleaved"), lines.index("halves")
        assert lines[first + 4].split() == ["1", "0.8415", "0.5403", "0.0100", "1.0000"]
        assert lines[second + 4].split() == ["1", "0.8415", "0.0100", "0.5403", "1.0000"]
        assert lines[second - 1] == "" and lines[first + 6 : second - 1] == lines[second + 6 :]

    def test_one_layout(self, command: Command) -> None:
        lines = command("positions", "--count", "2", "--width", "4", "--layout", "halves")[0].splitlines()
        assert lines[0] == "sinusoidal" and lines[4].split() == ["1", "0.8415", "0.0100", "0.5403", "1.0000"]

    def test_an_unknown_layout(self, refusal: Callable[..., str]) -> None:
        assert refusal("positions", "--layout", "half") == "--layout: unknown layout 'half'; did you mean 'halves'?"

    def test_a_picture(self, command: Command, tmp_path: Path) -> None:
        path = tmp_path / "both.svg"
        command("positions", "--count", "5", "--width", "4", "--layout", "both", "--products", "--to", path)
        text = path.read_text("utf-8")
        assert "1.5403" in text and "interleaved" in text and "halves" in text

    def test_several_runs_side_by_side(self, command: Command, runs: Runs) -> None:
        text, _ = command("positions", runs("learned"), runs("prefix"), "--count", "4")
        assert TestARun().names(text) == ["sinusoidal", "learned encoder", "learned decoder", "prefix stack"]


class TestARun:
    def names(self, text: str) -> list[str]:
        """The titles: what stands above a line that counts positions."""
        lines = text.splitlines()
        return [before for before, line in pairwise(lines) if line.startswith("positions: ")]

    def test_its_tables_stand_beside_the_sinusoids(self, command: Command, runs: Runs) -> None:
        text, _ = command("positions", runs("learned"), "--count", "7", "--width", "4")
        assert self.names(text) == ["sinusoidal", "encoder", "decoder"]
        counted = [line for line in text.splitlines() if line.startswith("positions: 7, dimensions: ")]
        assert len(counted) == 3 and all(line.endswith("16") for line in counted), "as wide as the model"

    def test_the_numbers_are_the_models(self, command: Command, runs: Runs) -> None:
        from weft.translation.load import load

        table_PD = load(runs("learned"), device="cpu").model.get_parameter("encoder.stack.positions.weight_PD")
        text, _ = command("positions", runs("learned"), "--count", "3")
        lines = text.splitlines()
        row = lines[lines.index("encoder") + 3].split()
        assert [float(number) for number in row[1:]] == pytest.approx(table_PD[0, : len(row) - 1].tolist(), abs=6e-5)

    def test_there_are_no_more_than_were_learned(self, command: Command, runs: Runs) -> None:
        text, _ = command("positions", runs("learned"), "--count", "50")
        assert "positions: first 12 of 50, " in text and text.count("positions: first 12 of 40, ") == 2

    def test_of_one_stack(self, command: Command, runs: Runs) -> None:
        assert self.names(command("positions", runs("prefix"))[0]) == ["sinusoidal", "stack"]

    def test_a_picture(self, command: Command, runs: Runs, tmp_path: Path) -> None:
        path = tmp_path / "positions.svg"
        assert command("positions", runs("learned"), "--to", path)[0] == f"{path}\n"
        assert all(name in path.read_text("utf-8") for name in ("sinusoidal", "encoder", "decoder"))

    @pytest.mark.parametrize("name", ["transformer", "lstm"])
    def test_without_learned_positions(self, refusal: Callable[..., str], runs: Runs, name: str) -> None:
        message = f"{runs(name)}: this model has no learned positions; without RUN the sinusoids are shown"
        assert refusal("positions", runs(name)) == message

    def test_no_such_run(self, refusal: Callable[..., str], tmp_path: Path) -> None:
        assert "no such run folder" in refusal("positions", tmp_path / "none")
