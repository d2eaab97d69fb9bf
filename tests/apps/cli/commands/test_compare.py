"""``weft compare``."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import pytest

Command = Callable[..., tuple[str, str]]
Runs = Callable[[str], Path]
QUICK = ["--samples", "100", "--metric", "exact_match", "--metric", "chrf"]


@pytest.fixture
def pairs(tmp_path: Path) -> Path:
    (tmp_path / "pairs.tsv").write_text("a b\tb a\nc\tc\na b c\ta b\n\tx\n", "utf-8")
    return tmp_path / "pairs.tsv"


def test_a_file_of_pairs(command: Command, runs: Runs, pairs: Path) -> None:
    first, second = str(runs("lstm")), str(runs("transformer"))
    printed, noise = command("compare", first, second, pairs, *QUICK, "--examples", "1")
    lines = printed.splitlines()
    assert lines[0].startswith("exact match (higher is better)   nrefs:1|")
    assert lines[1].startswith(f"  {first} ") and "difference" not in lines[1]
    assert lines[2].startswith(f"  {second} ") and "   p = " in lines[2]
    assert any(line.startswith(f"{second} and {first}: ") for line in lines)
    assert sum(line.startswith("source ") for line in lines) <= 1
    assert any("3 items; p: approximate randomization; [95 % intervals]" in line for line in lines)
    assert "100 samples, seed 12345" in printed and noise == "left out: 1 row with a blank side\n"


def test_json_of_three_runs_on_the_recipes_test_set(command: Command, runs: Runs) -> None:
    first, second = str(runs("lstm")), str(runs("transformer"))
    options = ["--limit", "5", "--test", "bootstrap", "--seed", "3", "--json", "--search", "greedy"]
    found = json.loads(command("compare", first, second, first, *QUICK, *options)[0])
    assert found["runs"] == [first, second, f"{first} (3)"] and found["items"] == 5
    assert (found["samples"], found["seed"], found["test"]) == (100, 3, "bootstrap")
    scores = found["metrics"]["chrF"]["runs"]
    assert scores[0]["difference"] is None and scores[0]["interval"][0] <= scores[0]["value"]
    assert scores[2]["difference"] == {"value": 0.0, "interval": [0.0, 0.0], "p_value": 1.0}
    assert [differences["runs"] for differences in found["outputs"]] == [[first, second], [first, f"{first} (3)"]]
    assert found["outputs"][1]["same"] == 5 and all(search == "search:greedy" for search in found["searches"])


def test_refusals(refusal: Callable[..., str], runs: Runs, pairs: Path, tmp_path: Path) -> None:
    run = runs("lstm")
    ending = "expected two or more run folders, then a file of pairs if any"
    assert refusal("compare", run, pairs) == f"compare: {run} {pairs}: {ending}"
    assert refusal("compare", run, run, tmp_path / "none.tsv") == f"{tmp_path / 'none.tsv'}: no such file"
    assert refusal("compare", run, run, pairs, "--test", "t") == "--test t: use randomization or bootstrap"
    assert refusal("compare", run, run, pairs, "--set", "seed=3").startswith("--set seed=3: only search settings")
    assert refusal("compare", run, tmp_path / "none").startswith(f"{tmp_path / 'none'}: ")
    assert refusal("compare", run, runs("language"), pairs) == (
        f"{runs('language')}: a language model without prompts has no outputs to compare"
    )
