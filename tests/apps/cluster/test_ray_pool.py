"""A local cluster of three workers: every line once and in order, though a worker is killed, or the driver."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from weft.apps.cluster import blocks as cluster_blocks
from weft.apps.cluster.blocks import BlockTask, WindowOutput
from weft.apps.cluster.job import ClusterJob
from weft.apps.cluster.ray_pool import Pool, translate_blocks
from weft.errors import DataError

pytest.importorskip("ray", reason="Ray is not installed: pip install 'weft-seq2seq[ray]'")
pytestmark = pytest.mark.slow
LINES = [f"line {number}" for number in range(200)]


@pytest.fixture
def job(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> ClusterJob:
    monkeypatch.setattr(cluster_blocks, "BLOCK_LINES", 10)
    source = tmp_path / "source.txt"
    source.write_text("\n".join(LINES) + "\n")
    job = ClusterJob.make([str(source)], tmp_path / "out")
    job.prepare({"weights": 1})
    return job


def run(job: ClusterJob, make_translate) -> int:
    """Translate what is left; the number of lines that were."""
    blocks = job.find_blocks()
    work = [BlockTask(block, str(job.block_path(block))) for block in job.unfinished(blocks)]
    lines = sum(translate_blocks(work, make_translate, Pool("local", 3), column="source"))
    job.finish(blocks)
    return lines


def test_a_worker_that_is_killed(job: ClusterJob, tmp_path: Path) -> None:
    marker = str(tmp_path / "killed")

    def make_translate():
        def translate(windows):
            import os
            import signal
            from pathlib import Path

            for window in windows:
                if window.first_line == 101 and not Path(marker).exists():
                    Path(marker).touch()
                    os.kill(os.getpid(), signal.SIGKILL)
                yield WindowOutput([], "".join(f"{source.upper()}\n" for source in window.sources))

        return translate

    assert run(job, make_translate) == 200
    assert Path(marker).exists()
    assert job.result(job.files[0]).read_text().splitlines() == [line.upper() for line in LINES]


def test_an_error_is_one_line(job: ClusterJob) -> None:
    def make_translate():
        def translate(windows):
            from weft.errors import DataError

            raise DataError(f"line {next(windows).first_line} is bad")

        return translate

    with pytest.raises(DataError, match=r"^line \d+ is bad$"):
        run(job, make_translate)


def test_no_gpu(job: ClusterJob) -> None:
    blocks = job.find_blocks()
    work = [BlockTask(block, str(job.block_path(block))) for block in job.unfinished(blocks)]
    with pytest.raises(DataError, match=r"^--gpus 99: this machine has \d+ GPUs? that Ray can see$"):
        list(translate_blocks(work, lambda: None, Pool("local", 1, 99), column="source"))


DRIVER = """
from pathlib import Path
from weft.apps.cluster import blocks
from weft.apps.cluster.job import ClusterJob
from weft.apps.cluster.blocks import BlockTask
from weft.apps.cluster.ray_pool import Pool, translate_blocks

blocks.BLOCK_LINES = 10

def make_translate():
    def translate(windows):
        import time
        for window in windows:
            time.sleep(0.5)
            yield blocks.WindowOutput([], "".join(f"{{source.upper()}}\\n" for source in window.sources))
    return translate

job = ClusterJob.make([{source!r}], Path({output!r}))
job.prepare({{"weights": 1}})
found = job.find_blocks()
work = [BlockTask(block, str(job.block_path(block))) for block in job.unfinished(found)]
for _ in translate_blocks(work, make_translate, Pool("local", 3), column="source"):
    pass
"""


def test_a_driver_that_is_killed(job: ClusterJob, tmp_path: Path) -> None:
    script = tmp_path / "driver.py"
    source = job.files[0]
    script.write_text(DRIVER.format(source=source, output=str(job.output)))
    driver = subprocess.Popen([sys.executable, script], start_new_session=True)
    try:
        blocks, deadline = job.find_blocks(), time.monotonic() + 120
        while len(job.unfinished(blocks)) > 15 and time.monotonic() < deadline:
            time.sleep(0.1)
    finally:
        os.killpg(driver.pid, signal.SIGKILL)
        driver.wait()
    left = sum(block.lines for block in job.unfinished(blocks))
    assert 0 < left < 200

    def make_translate():
        def translate(windows):
            for window in windows:
                yield WindowOutput([], "".join(f"{source.upper()}\n" for source in window.sources))

        return translate

    assert run(job, make_translate) <= left
    assert job.result(source).read_text().splitlines() == [line.upper() for line in LINES]
