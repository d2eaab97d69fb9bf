"""docs/labs.md: the verdicts of all labs, with their seeds, versions and machine, and charts that are there."""

from __future__ import annotations

import re
from pathlib import Path
from types import ModuleType

import pytest

from fixtures.scripts import load_script
from weft.apps.labs import LABS
from weft.apps.labs.lab import LabResult
from weft.apps.labs.registration import document, registrations
from weft.apps.labs.verdicts import OUTCOMES

ROOT = Path(__file__).parents[2]


@pytest.fixture(scope="module")
def tool() -> ModuleType:
    return load_script(ROOT / "tools/labs.py")


def test_the_page_has_the_introduction_and_every_lab(tool: ModuleType) -> None:
    text = (ROOT / "docs/labs.md").read_text("utf-8")
    assert text.startswith(tool.INTRODUCTION), "run make labs"
    rows = re.findall(r"^\| \[(\w+)\]\(#\1\) \| .* \| \*\*([a-z ]+)\*\* \| .* \| [a-z– ]+ \|$", text, re.MULTILINE)
    assert [name for name, _ in rows] == list(LABS)
    assert {outcome for _, outcome in rows} <= set(OUTCOMES)
    assert re.search(r"put on this page by `make labs`: seeds 1, 2, 3; weft .*, torch .*, Python .*; Linux", text)


def test_the_page_of_a_result(tool: ModuleType, monkeypatch: pytest.MonkeyPatch) -> None:
    from weft.apps.labs import scaling

    monkeypatch.setattr("weft.apps.labs.trials.worker_count", lambda: 0)
    result = scaling(2, widths=(4, 16), queries=8)
    assert isinstance(result, LabResult)
    text = "\n".join(tool.page([result], {"scaling": result}))
    assert "| [scaling](#scaling) | Var(q·k) = d" in text and "## scaling\n" in text
    assert "**Tested.** Random vectors" in text and "**What would change our mind.** An exponent" in text
    assert "**Seeds 1, 2: " in text
    assert "![" in text and "(images/labs/scaling-variance.svg)" in text and "seeds 1, 2; weft" in text


def test_labs_without_a_result_keep_what_the_page_says(tool: ModuleType) -> None:
    text = (ROOT / "docs/labs.md").read_text("utf-8")
    assert "\n".join(tool.page([], {}, text)) + "\n" == text
    assert "## scaling" not in "\n".join(tool.page([], {}))


def test_what_was_registered_is_on_the_site() -> None:
    assert (ROOT / "docs/preregistered.md").read_text("utf-8") == document(), "run tools/labs.py --known"


def test_the_page_shows_what_was_registered() -> None:
    """The statistics and thresholds of every verdict on the page are those that were registered, and no others."""
    text = (ROOT / "docs/labs.md").read_text("utf-8")
    for name in LABS:
        section = text.partition(f"\n## {name}\n")[2].partition("\n## ")[0].partition("**Seeds 4")[0]
        rows = re.findall(
            r"^- (.*): [^:]*; predicted (.*?): (?:held|did not hold|inconclusive)$", section, re.MULTILINE
        )
        checks = tuple((what, re.sub(r"^0 of .+", "0 of all", rule)) for what, rule in rows)
        assert checks == registrations()[name].checks, f"{name}: run make labs"


BOTH = """## toy

**Verdict: inconclusive.** Something.

- gain, in points: 9 [3, 15]; predicted above 5: inconclusive
- ratio of seconds: 1.0 [0.9, 1.1]; predicted between 0.8 and 1.25: held

**Seeds 4, 5, 6: held.**

- gain, in points: 10 [6, 14]: held
- ratio of seconds: 1.1 [1.0, 1.2]: held

**The paper.** Somebody.
"""


def test_both_sets_of_seeds_together(tool: ModuleType) -> None:
    text = tool.with_both_sets(BOTH, 3)
    assert "**Both sets together (computed afterwards from these rounded intervals, not registered): held.**" in text
    assert re.search(r"^- gain, in points: 10 \[7, 11\]: held$", text, re.MULTILINE), text
    assert tool.with_both_sets(text, 3) == text, "once is enough"
    agreeing = BOTH.replace("inconclusive", "held")
    assert tool.with_both_sets(agreeing, 3) == agreeing
    unknown = BOTH.replace("10 [6, 14]", "100 [77, 100]")  # rounded to its limit
    assert tool.with_both_sets(unknown, 3) == unknown


def test_the_number_of_models_is_that_of_the_section(tool: ModuleType) -> None:
    assert tool.models_of_section("**Trained.** LSTMs, two for each seed.\n") == 6
    assert tool.models_of_section("**Trained.** LSTMs.\n\nof six models, two for each seed\n") == 3
