"""Child processes: the format of messages, and how a child ends with its parent."""

from __future__ import annotations

import asyncio
import io
import os
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from weft.runtime.processes import (
    Message,
    child_environment,
    core_count,
    encode_message,
    read_message,
    receive_message,
    to_json,
    write_message,
)

MESSAGES = [Message({"id": 1}, [b"{}", '"é"'.encode(), b""]), Message({}, []), Message({"op": "é"}, [bytes(70_000)])]


def test_messages_come_back_until_the_stream_ends() -> None:
    stream = io.BytesIO()
    for message in MESSAGES:
        write_message(stream, *message)
    assert stream.getvalue() == b"".join(encode_message(*message) for message in MESSAGES)
    stream.seek(0)
    assert [read_message(stream) for _ in range(4)] == [*MESSAGES, None]


@pytest.mark.parametrize("missing", [1, 2, 3, 20])
def test_a_message_that_ends_too_soon_is_the_end(missing: int) -> None:
    content = encode_message({"id": 1}, [b"one", b"two"])[:-missing]
    assert read_message(io.BytesIO(content)) is None


def test_without_blocking() -> None:
    async def received(content: bytes) -> list[Message | None]:
        stream = asyncio.StreamReader()
        stream.feed_data(content)
        stream.feed_eof()
        return [await receive_message(stream) for _ in range(2)]

    whole = encode_message(*MESSAGES[0])
    assert asyncio.run(received(whole + whole[:-1])) == [MESSAGES[0], None]
    assert asyncio.run(received(whole[:3])) == [None, None]


def test_the_value_of_a_body() -> None:
    assert Message({}, [to_json({"a": [1, "é"]})]).payload() == {"a": [1, "é"]}
    assert to_json({"a": [1, "é"]}) == '{"a":[1,"é"]}'.encode()
    with pytest.raises(ValueError, match="JSON compliant"):
        to_json(float("nan"))


def test_a_child_imports_what_its_parent_can(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "only_here.py").write_text("NAME = 'x'")
    monkeypatch.setattr(sys, "path", [*sys.path, str(tmp_path)])
    code = "import only_here, os; print(only_here.NAME, os.environ['EXTRA'])"
    found = subprocess.run([sys.executable, "-c", code], env=child_environment(EXTRA="y"), capture_output=True)
    assert found.stdout.decode().split() == ["x", "y"]


def test_printed_text_does_not_get_between_messages() -> None:
    code = """
import os
from weft.runtime.processes import message_pipes, read_message, write_message
requests, results = message_pipes()
print("printed", flush=True)
os.write(1, b"by a library")
write_message(results, *read_message(requests))
"""
    child = subprocess.run(
        [sys.executable, "-c", code], input=encode_message(*MESSAGES[2]), env=child_environment(), capture_output=True
    )
    assert read_message(io.BytesIO(child.stdout)) == MESSAGES[2]
    assert b"printed" in child.stderr and b"by a library" in child.stderr


PARENT = """
import os, subprocess, sys
child = subprocess.Popen([sys.executable, "-c", sys.argv[1], str(os.getpid()), sys.argv[2]])
child.wait()
"""
ENDING = "end_with_parent(int(sys.argv[1]), lambda: open(sys.argv[2] + '/before', 'w').close())"
FAILING = "end_with_parent(int(sys.argv[1]), lambda: open(sys.argv[2] + '/no/folder', 'w'))"
SIGNALED = """
signal.signal(signal.SIGTERM, lambda *_: (open(sys.argv[2] + '/saved', 'w').close(), os._exit(0)))
when_parent_ends(int(sys.argv[1]), lambda: os.kill(os.getpid(), signal.SIGTERM))
"""


@pytest.mark.parametrize(("start", "left"), [(ENDING, ["before"]), (FAILING, []), (SIGNALED, ["saved"])])
def test_a_child_ends_with_its_parent(start: str, left: list[str], tmp_path: Path) -> None:
    child = f"""
import os, signal, sys, time
from weft.runtime.processes import end_with_parent, when_parent_ends
{start}
open(sys.argv[2] + '/started.' + str(os.getpid()), 'w').close()
while True: time.sleep(0.05)
"""
    command = [sys.executable, "-c", PARENT, child, str(tmp_path)]
    parent = subprocess.Popen(command, env=child_environment())
    try:
        wait_until(lambda: bool([*tmp_path.glob("started.*")]))
        number = int(next(tmp_path.glob("started.*")).suffix[1:])
    finally:
        parent.kill()
        parent.wait()
    wait_until(lambda: not is_running(number))
    assert sorted(path.name for path in tmp_path.iterdir() if path.stem != "started") == left


def is_running(number: int) -> bool:
    """Whether a process runs; one that has ended may still be listed if nobody waits for it."""
    state = Path(f"/proc/{number}/stat")
    if state.parent.parent.exists() and Path("/proc/self").exists():
        try:
            return state.read_text().rsplit(")", 1)[1].split()[0] != "Z"
        except (FileNotFoundError, ProcessLookupError):
            return False
    try:
        os.kill(number, 0)
    except ProcessLookupError:
        return False
    return True


def wait_until(holds: Callable[[], bool]) -> None:
    deadline = time.monotonic() + 60
    while not holds():
        assert time.monotonic() < deadline
        time.sleep(0.02)


def test_cores() -> None:
    assert 1 <= core_count() <= (os.cpu_count() or 1)
