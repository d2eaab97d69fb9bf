"""What training on pairs ends with."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from weft.errors import DataError
from weft.evaluation.summary import ExampleOutput, Summary
from weft.pairs import outcome
from weft.pairs.outcome import MAX_EXAMPLE, RunOutcome

SUMMARY = Summary("test", 2, 2, [], 0, [], [])


def _with(*sources: str) -> RunOutcome:
    wrong = [ExampleOutput(1, source, "x", "y") for source in sources]
    return RunOutcome(Path("run"), replace(SUMMARY, wrong=wrong))


def test_a_source_to_try() -> None:
    """Short, in one line and without quotes, so that it can be pasted."""
    assert _with().example() is None
    assert _with("a" * (MAX_EXAMPLE + 1), "it's", "a\tb", "good", "later").example() == "good"


@pytest.mark.parametrize("known", [True, False])
def test_the_former_task(monkeypatch: pytest.MonkeyPatch, known: bool) -> None:
    def forgetting(*_: object, **__: object) -> str:
        if not known:
            raise DataError("its pairs are gone")
        return "Former task: worse"

    recipe = SimpleNamespace(accepting_new_data=lambda: recipe)
    model: Callable[..., Any] = lambda *_, **__: SimpleNamespace(recipe=recipe, source_role="encoder")  # noqa: E731
    monkeypatch.setattr(outcome, "load", model)
    monkeypatch.setattr(outcome, "summarize", lambda *_, **__: SimpleNamespace(lines=lambda _: ["Test set"]))
    monkeypatch.setattr(outcome, "measure_forgetting", forgetting)
    found = outcome.evaluate_run(Path("run"))
    assert str(found) == ("Test set\n\nFormer task: worse" if known else "Test set")
    assert found.forgetting_error == (None if known else "its pairs are gone") and not found.is_language_model
