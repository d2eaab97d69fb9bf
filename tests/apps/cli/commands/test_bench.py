"""``weft bench translate``."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from weft.apps.bench import translation_speed as bench

QUICK = ("--seconds", "0.1", "--warmup", "1", "--device", "cpu")
Command = Callable[..., Any]
Refusal = Callable[..., str]
Runs = Callable[[str], Path]


@pytest.fixture
def asked(monkeypatch: pytest.MonkeyPatch) -> list[list[str]]:
    """The sources that were measured."""
    found: list[list[str]] = []
    original = bench.translation_speed

    def watched(run: Any, sources: list[str], **how: Any) -> bench.TranslationSpeed:
        found.append(sources)
        return original(run, sources, **how)

    monkeypatch.setattr(bench, "translation_speed", watched)
    return found


def test_in_words(command: Command, runs: Runs) -> None:
    text = command("bench", "translate", runs("lstm"), *QUICK, "--set", "search.batch_tokens=50").stdout
    first, *rest = text.splitlines()
    assert first.startswith("lstm on cpu, torch, fp32, ") and first.endswith(" parameters")
    assert [line[:17].rstrip() for line in rest] == [
        "search",
        "sentences/s",
        "output tokens/s",
        "latency",
        "peak memory",
        "CPU",
        "versions",
    ]
    assert "size:5" in rest[0] and rest[0].endswith("batches of 50 tokens")


def test_the_test_set_or_a_file(command: Command, runs: Runs, tmp_path: Path, asked: list[list[str]]) -> None:
    found = json.loads(command("bench", "translate", runs("lstm"), *QUICK, "--json", "--search", "greedy").stdout)
    assert found["run"] == "lstm" and found["search"].startswith("search:greedy") and len(asked[0]) == 20
    (tmp_path / "in").write_text("a b\nc\nd\n", "utf-8")
    command("bench", "translate", runs("lstm"), tmp_path / "in", "--sentences", "2", *QUICK, "--json")
    command("bench", "translate", runs("lstm"), "--sentences", "3", *QUICK, "--json")
    assert asked[1] == ["a b", "c"] and asked[2] == asked[0][:3]


def test_refusals(refusal: Refusal, runs: Runs, tmp_path: Path) -> None:
    run = runs("lstm")
    assert refusal("bench", "translate", run, tmp_path / "no") == f"{tmp_path}/no: no such file"
    assert "a language model has no source" in refusal("bench", "translate", runs("language"), *QUICK)
    assert refusal("bench", "translate", run, "--set", "search.siz=3", *QUICK).startswith("search.siz: unknown setting")
    assert "--set training.steps=3" in refusal("bench", "translate", run, "--set", "training.steps=3")


def test_how_long_is_measured(command: Command, runs: Runs, monkeypatch: pytest.MonkeyPatch) -> None:
    measured: list[dict[str, Any]] = []
    original = bench.translation_speed

    def watched(run: Any, sources: list[str], **how: Any) -> bench.TranslationSpeed:
        measured.append(how)
        return original(run, sources, **how)

    monkeypatch.setattr(bench, "translation_speed", watched)
    command("bench", "translate", runs("lstm"), *QUICK, "--json", "--set", "search.size=2")
    assert measured == [{"seconds": 0.1, "warmup": 1, "size": 2}]
