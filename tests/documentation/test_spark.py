"""The example for Spark in docs/several-machines.md runs as it stands; it needs ``pip install pyspark`` and Java."""

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pyarrow
import pyarrow.parquet
import pytest

import weft

DOCUMENT = Path(__file__).parents[2] / "docs/several-machines.md"
SOURCES = ["a b c", "c", "b a", "a a a b", "", "c b a", "b b"]


@pytest.mark.slow
def test_the_example_for_spark(finished, tmp_path):
    pytest.importorskip("pyspark", reason="pip install pyspark")
    if shutil.which("java") is None:
        pytest.skip("Spark needs Java")
    (code,) = re.findall(r"```python\n(.*?)```", DOCUMENT.read_text("utf-8").partition("## Spark")[2], re.S)
    paths = (str(finished), str(tmp_path / "input.parquet"), str(tmp_path / "output.parquet"))
    code, changes = re.subn(r"(?m)^(RUN, INPUT, OUTPUT) = .*$", lambda match: f"{match[1]} = {paths!r}", code)
    assert changes == 1
    rows = {"id": list(range(len(SOURCES))), "source": SOURCES}
    pyarrow.parquet.write_table(pyarrow.table(rows), paths[1])
    environment = os.environ | {"PYSPARK_PYTHON": sys.executable, "PYTHONPATH": os.pathsep.join(sys.path)}
    done = subprocess.run([sys.executable, "-c", code], env=environment, capture_output=True, text=True, timeout=600)
    assert done.returncode == 0, done.stderr[-2000:]
    table = pyarrow.parquet.read_table(paths[2]).to_pydict()
    plain = [one.text for one in weft.load(finished, device="cpu").translate(SOURCES)]
    assert dict(zip(table["id"], table["translation"], strict=True)) == dict(enumerate(plain))
