"""Standard output that is full, closed or a closed pipe; standard error that cannot be written."""

from __future__ import annotations

import os
import subprocess
import sys

import pytest

WEFT = f"{sys.executable} -m weft"
LONG = "recipes show grammar"
"""More output than a pipe's reader takes, from typer."""
CASES = [
    ("--version > /dev/full", 2, "weft: standard output: No space left on device\n"),
    ("--version >&-", 2, "weft: standard output: is closed\n"),
    ("--help > /dev/full", 2, "weft: standard output: No space left on device\n"),
    (f"{LONG} > /dev/full", 2, "weft: standard output: No space left on device\n"),
    (f"{LONG} | true", 141, ""),
    ("recipes show none 2> /dev/full", 2, ""),
    ("--version 2>&-", 0, ""),
    ("recipes show none 2>&-", 2, ""),
]


@pytest.mark.parametrize(("command", "code", "message"), CASES)
def test_streams_that_cannot_be_written(command: str, code: int, message: str) -> None:
    """One line or none, and never a traceback."""
    script = f"set -o pipefail; {WEFT} {command}"
    environment = {**os.environ, "PYTHONUNBUFFERED": ""}
    done = subprocess.run(["bash", "-c", script], capture_output=True, text=True, env=environment)
    assert (done.returncode, done.stderr) == (code, message)
    assert "none" not in done.stdout, "an error must not go to standard output"


def test_a_rich_table_into_a_closed_pipe() -> None:
    code = (
        "import sys; from weft.apps.cli import standard_streams; standard_streams.install(); "
        "from rich.console import Console; [Console().print('some words') for _ in range(3_000)]; sys.stdout.flush()"
    )
    script = f'set -o pipefail; {sys.executable} -c "{code}" | true'
    done = subprocess.run(["bash", "-c", script], capture_output=True, text=True)
    assert (done.returncode, done.stderr) == (141, "")


def test_files_do_not_become_standard_streams() -> None:
    """With a closed standard error, the next file that is opened must not get what is meant for people."""
    code = (
        "import os; from weft.apps.cli import standard_streams; standard_streams.install(); "
        "handle = os.open(os.devnull, os.O_WRONLY); os._exit(0 if handle > 2 else 1)"
    )
    assert subprocess.run(["bash", "-c", f'{sys.executable} -c "{code}" <&- >&- 2>&-']).returncode == 0
