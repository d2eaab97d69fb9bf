"""A disk that fills up while a run is trained: one line, and the run goes on from its last checkpoint."""

import errno
import os
import shutil
import subprocess
import sys

import pytest

from fixtures.training_runs import PLAIN, contents
from weft import files
from weft.errors import DataError, TrainingError
from weft.training.train import train


@pytest.fixture
def full_disk(monkeypatch):
    """``full_disk(n)``: the n-th file that is flushed to disk from now on, and all after it, find no space."""
    original = os.fsync

    def fill(number, code=errno.ENOSPC):
        calls = []

        def fsync(handle):
            calls.append(handle)
            if len(calls) >= number:
                raise OSError(code, os.strerror(code))
            original(handle)

        monkeypatch.setattr(files.os, "fsync", fsync)

    yield fill
    monkeypatch.undo()


def failure(events):
    with pytest.raises(TrainingError) as caught:
        list(events)
    assert "\n" not in str(caught.value)
    return str(caught.value)


@pytest.fixture(scope="module")
def calm(tiny, tmp_path_factory):
    """What a run leaves that never met a full disk."""
    out = tmp_path_factory.mktemp("calm") / "run"
    assert list(train(tiny(PLAIN), out))
    return contents(out)


@pytest.mark.parametrize("number", [1, 2, 4, 6, 7])
def test_a_run_resumes_from_its_last_checkpoint(tiny, tmp_path, calm, full_disk, monkeypatch, number):
    """Whichever file or folder the disk fills up at, and bit for bit."""
    out, recipe = tmp_path / "run", tiny(PLAIN)
    events = train(recipe, out)
    next(events)
    full_disk(number)
    message = failure(events)
    assert message.startswith(f"{out}{os.sep}") and ": cannot write: No space left on device; " in message
    assert message.endswith(f"; once it can be written again, continue with: weft train {out} --resume")
    monkeypatch.undo()
    assert not list(out.rglob("*.part")) and not list(out.rglob(".*.part")), "it takes no space that is not there"
    assert list(train(recipe, out, resume=True))
    assert contents(out) == calm


@pytest.mark.parametrize("code", [errno.ENOSPC, errno.EROFS, errno.EDQUOT])
def test_a_new_run_leaves_nothing(tiny, tmp_path, full_disk, code):
    full_disk(2, code)
    message = failure(train(tiny(), tmp_path / "runs" / "new"))
    assert message.endswith(f": cannot write: {os.strerror(code)}; nothing was kept")
    assert not list((tmp_path / "runs").iterdir())


def test_a_read_only_folder(finished, tiny, tmp_path, monkeypatch):
    shutil.copytree(finished, tmp_path / "run")

    def read_only(path, flags, mode=0o777):
        if flags & os.O_CREAT:
            raise OSError(errno.EROFS, os.strerror(errno.EROFS), str(path))
        return original(path, flags, mode)

    original = os.open
    monkeypatch.setattr(files.os, "open", read_only)
    message = failure(train(tiny({"training.steps": 2, "training.validate_every": 1}), tmp_path / "run", resume=True))
    lock = tmp_path / "run" / ".lock"
    assert message.startswith(f"{lock}: cannot write: Read-only file system; the run is kept up to step 2; ")


def test_other_errors_stay_what_they_are(tiny, tmp_path):
    with pytest.raises(DataError, match="no such file"):
        list(train(tiny({"data.train": "none.tsv", "data.valid": None}), tmp_path / "run"))


LIMITED = """
import resource, sys
resource.setrlimit(resource.RLIMIT_FSIZE, (int(sys.argv[1]), int(sys.argv[1])))
sys.argv = ["weft", *sys.argv[2:]]
from weft.apps.cli import main
main()
"""


@pytest.mark.slow
def test_a_limit_on_the_size_of_files(tmp_path):
    """The same with a real error of the system: no file may grow beyond 4 kB."""
    changes = [f"--set={change}" for change in ("data.train=copy", "data.train_size=60", "training.device=cpu")]
    done = subprocess.run(
        [sys.executable, "-c", LIMITED, "4096", "train", "grammar", *changes, "--out", str(tmp_path / "run")],
        capture_output=True,
        text=True,
    )
    last = done.stderr.splitlines()[-1]
    assert done.returncode == 2 and "Traceback" not in done.stderr, done.stderr
    assert last.startswith("weft: ") and last.endswith(": cannot write: File too large; nothing was kept")
    assert not list(tmp_path.iterdir())
