"""tools/soak_*.py: what breaks a promise of tuning runs and services. `make soak` runs them."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

TOOLS = Path(__file__).parents[1] / "tools"
pytestmark = pytest.mark.skipif(not (TOOLS / "soak.py").exists(), reason="tools/ is not part of an installed package")


@pytest.fixture(autouse=True)
def tools(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.syspath_prepend(str(TOOLS))


def test_refusals() -> None:
    from soak_processes import BrokenPromiseError
    from soak_service import check_refusal

    assert check_refusal(422, "application/json", b'{"error": "beam: unknown"}') == 422
    for status, kind, content in (
        (500, "application/json", b'{"error": "an internal error"}'),
        (422, "text/plain", b'{"error": "beam: unknown"}'),
        (422, "application/json", b'{"error": "Traceback\\n  File"}'),
        (422, "application/json", b'{"detail": "beam: unknown"}'),
        (503, "application/json", b'{"error": ""}'),
        (503, "application/json", b"Service Unavailable"),
    ):
        with pytest.raises(BrokenPromiseError, match="not an error of one sentence"):
            check_refusal(status, kind, content)


def test_jobs_that_are_done_twice(tmp_path: Path) -> None:
    from soak_processes import BrokenPromiseError
    from soak_tuning import check_unchanged, finished

    (tmp_path / "results").mkdir()
    result, request = tmp_path / "results/recipe.step-8.json", tmp_path / "tuning.json"
    result.write_text('{"seconds": 1}', "utf-8")
    request.write_text("{}", "utf-8")
    assert list(finished(tmp_path)) == ["results/recipe.step-8.json"], "there is no plan yet"
    request.write_text(json.dumps({"plan": {"steps": 16}}), "utf-8")
    before = finished(tmp_path)
    check_unchanged(tmp_path, before)
    result.write_text('{"seconds": 2}', "utf-8")
    with pytest.raises(BrokenPromiseError, match=r"done twice: results/recipe.step-8.json"):
        check_unchanged(tmp_path, before)
    result.unlink()
    with pytest.raises(BrokenPromiseError, match="done twice"):
        check_unchanged(tmp_path, before)


@pytest.mark.skipif(not Path("/proc/self/environ").exists(), reason="processes are found in /proc")
def test_processes_of_a_round() -> None:
    from soak_processes import MARK, BrokenPromiseError, processes_of, wait_until

    program = "import sys; print('started', flush=True); sys.stdin.read()"
    environment = {**os.environ, MARK: "a round"}
    with subprocess.Popen(
        [sys.executable, "-c", program], stdin=subprocess.PIPE, stdout=subprocess.PIPE, env=environment
    ) as process:
        assert process.stdout is not None and process.stdin is not None
        process.stdout.readline()
        assert processes_of("a round") == [process.pid] and processes_of("another") == []
        with pytest.raises(BrokenPromiseError, match="processes left"):
            wait_until(lambda: not processes_of("a round"), 0.0, "processes left")
        process.stdin.close()
    assert processes_of("a round") == []
