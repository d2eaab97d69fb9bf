"""The verdict as text."""

from __future__ import annotations

from pathlib import Path

from weft.apps.course import EXERCISES, CheckResult
from weft.apps.course.judging import Verdict
from weft.apps.course.report import report_text

BPE = EXERCISES["bpe"]


def test_right_wrong_and_hints() -> None:
    verdicts = [Verdict("a", True), Verdict("b", False, "returned 1, expected 2"), Verdict("c", False, "no")]
    text = report_text(CheckResult(Path("bpe.py"), BPE, verdicts, ["Count again."]))
    assert text == (
        "bpe.py: byte-pair encoding: learning merges, applying them (chapter 10)\n"
        "  ✓ a\n  ✗ b\n    returned 1, expected 2\n  ✗ c\n    no\nhint: Count again.\n1 of 3 cases passed\n"
    )


def test_a_problem_that_repeats_is_shown_once() -> None:
    verdicts = [Verdict(name, False, "f is not written yet") for name in "abc"]
    assert report_text(CheckResult(Path("bpe.py"), BPE, verdicts, [])).count("not written") == 1


def test_all_right() -> None:
    text = report_text(CheckResult(Path("bpe.py"), BPE, [Verdict("a", True)], []), ascii_only=True)
    assert text.endswith("  ok   a\nall 1 case passed\n") and text.isascii()


def test_a_broken_file_and_narrow_lines() -> None:
    result = CheckResult(Path("bpe.py"), BPE, [], [], broken="line 3: SyntaxError: invalid syntax, which is long")
    text = report_text(result, 40)
    assert "bpe.py: line 3: SyntaxError: invalid" in text and text.endswith("no case was run\n")
    assert all(len(line) <= 40 for line in text.splitlines()[1:])
