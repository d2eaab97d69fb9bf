"""``weft data recommend``."""

from __future__ import annotations

import json
from pathlib import Path

from typer.testing import CliRunner

from fixtures import kinds_of_pairs as kinds
from weft.apps.cli import app
from weft.recipe import load_recipe


def test_the_output_is_a_recipe(tmp_path: Path) -> None:
    (tmp_path / "train.tsv").write_text("".join(f"word{n}\tw o r d\n" for n in range(50)))
    (tmp_path / "test.tsv").write_text("a\tb\n")
    result = CliRunner().invoke(app, ["data", "recommend", str(tmp_path)])
    assert result.exit_code == 0, result.output
    (tmp_path / "mine.toml").write_text(result.stdout)
    recipe = load_recipe(tmp_path / "mine.toml")
    assert recipe.tokenizer.kind == "character"
    assert recipe.data.test == str(tmp_path / "test.tsv")


def test_columns_and_json(tmp_path: Path) -> None:
    lines = "".join(json.dumps({"p": f"a{n}", "q": f"b{n}", "r": f"c{n}"}) + "\n" for n in range(30))
    (tmp_path / "a.jsonl").write_text(lines)
    command = ["data", "recommend", str(tmp_path / "a.jsonl"), "--json"]
    record = json.loads(CliRunner().invoke(app, [*command, "--source", "r", "--target", "p"]).stdout)
    assert record["recipe"]["data"]["train"]["source"] == ["r"]
    assert record["profile"]["count"]["rows"] == 30
    assert CliRunner().invoke(app, [*command, "--source", "r"]).exit_code != 0


def test_minutes_name_the_candidates_of_a_race(tmp_path: Path) -> None:
    (tmp_path / "pairs.tsv").write_text("".join(f"word{n}\tw o r d {n % 7}\n" for n in range(200)))
    command = ["data", "recommend", str(tmp_path / "pairs.tsv")]
    result = CliRunner().invoke(app, [*command, "--minutes", "5"])
    assert result.exit_code == 0 and result.stdout.startswith("# race: ")
    (tmp_path / "mine.toml").write_text(result.stdout)
    assert load_recipe(tmp_path / "mine.toml").tokenizer.kind == "character"
    race = json.loads(CliRunner().invoke(app, [*command, "--minutes", "5", "--json"]).stdout)["race"]
    assert len(race) == 3 and "transformer" in race
    assert "race" not in json.loads(CliRunner().invoke(app, [*command, "--json"]).stdout)
    commands = "".join(f"{source}\t{target}\n" for source, target in kinds.commands(500))
    (tmp_path / "commands.tsv").write_text(commands)
    alone = CliRunner().invoke(app, ["data", "recommend", str(tmp_path / "commands.tsv"), "--minutes", "5"])
    assert alone.stdout.startswith("# no race: no validation pairs tell networks for commands apart")
    bad = CliRunner().invoke(app, [*command, "--minutes", "0"])
    assert bad.exit_code != 0 and "expected a number of minutes above 0" in str(bad.exception)
