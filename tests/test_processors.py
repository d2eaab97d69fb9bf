"""tools/processors.py: which configurations are run, and what is told of their results."""

from __future__ import annotations

import json
import re
from pathlib import Path
from types import ModuleType

import pytest

from fixtures.scripts import load_script

ROOT = Path(__file__).parents[1]
TESTS = """
import os
def test_that_passes(): pass
def test_of_threads(): assert os.environ["OMP_NUM_THREADS"] == "1"
class TestPerturbed:
    def test_of_weights(self): assert "WEFT_TEST_PERTURBATION" not in os.environ
"""


@pytest.fixture
def processors() -> ModuleType:
    return load_script(ROOT / "tools/processors.py")


def test_configurations(processors: ModuleType) -> None:
    configurations = processors.CONFIGURATIONS
    assert len(configurations) == 7 and configurations["own-2"] == {"OMP_NUM_THREADS": "2"}
    assert configurations["avx2-1"]["ATEN_CPU_CAPABILITY"] == "avx2"
    assert processors.redundant_configurations("AVX512") == set()
    assert processors.redundant_configurations("AVX2") == {"avx2-1", "avx2-2"}
    assert len(processors.redundant_configurations("NO AVX")) == 4
    [nightly] = re.findall(r"configuration: \[(.*)\]", (ROOT / ".github/workflows/nightly.yml").read_text("utf-8"))
    assert nightly.split(", ") == list(configurations)


def test_what_fails_where(
    processors: ModuleType, tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PYTEST_DISABLE_PLUGIN_AUTOLOAD", "1")  # some take seconds to import
    (tmp_path / "test_made_up.py").write_text(TESTS, "utf-8")
    report = tmp_path / "report.json"
    arguments = [f"--report={report}", "--workers=0", "-p", "xdist", "-c", "/dev/null", str(tmp_path)]
    assert processors.main(["--only=own-1", *arguments]) == 0
    assert processors.main(["--only=own-2, perturbed", *arguments]) == 1
    lines = capsys.readouterr().out.splitlines()
    assert [re.sub(r"\s+\d+$", "", line) for line in lines if not line.startswith("configuration")] == [
        "own-1                3       0        0",
        "own-2                2       1        0",
        "    test_made_up::test_of_threads",
        "perturbed            2       1        0",
        "    test_made_up.TestPerturbed::test_of_weights",
    ]
    [of_threads, of_weights] = json.loads(report.read_text("utf-8"))["configurations"]
    assert (of_threads["configuration"], of_threads["failed"]) == ("own-2", ["test_made_up::test_of_threads"])
    assert of_weights["environment"] == {"WEFT_TEST_PERTURBATION": "1e-5", "OMP_NUM_THREADS": "1"}


def test_tests_that_could_not_be_run(processors: ModuleType) -> None:
    result = processors.Result("own-1", {}, passed=0, skipped=0, failed=[], exit_code=4, seconds=1.0)
    assert not result.succeeded and "    pytest ended with exit code 4" in processors.table([result]).splitlines()


def test_a_name_that_is_none(processors: ModuleType, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        processors.main(["--only", "avx3"])
    assert "--only avx3: no such configuration; choose from default-1, default-2, avx2-1" in capsys.readouterr().err
