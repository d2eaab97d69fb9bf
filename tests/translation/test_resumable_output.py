"""An output that grows: whole or not at all, killed at every call to the system, and the ways to be refused."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from weft.errors import DataError
from weft.translation.resumable_output import ResumableOutput

SOURCES = ["a", "", "é b", "c", "d", "e", "f"]
MADE_BY = {"search.size": 5, "weights": ["12ab"]}


def answers(sources: list[str]) -> bytes:
    """Two lines a source."""
    return "".join(f"{source}!\n{source}?\n" for source in sources).encode()


WHOLE = answers(SOURCES)


def write(
    path: Path,
    *,
    resume: bool = False,
    sources: list[str] = SOURCES,
    made_by: dict[str, object] = MADE_BY,
    stop: int | None = None,
) -> int:
    """Three source lines a window, up to a window; the number of lines that were done before."""
    with ResumableOutput(path, resume=resume) as growing:
        rest = iter(sources)
        growing.begin(made_by, rest)
        before = growing.lines
        left = list(rest)
        for number, first in enumerate(range(0, len(left), 3)):
            if number == stop:
                return before
            window = left[first : first + 3]
            growing.add(window, answers(window))
        growing.finish()
    return before


def refused(path: Path, **how: object) -> str:
    with pytest.raises(DataError) as caught:
        write(path, **how)  # type: ignore[arg-type]
    assert "\n" not in str(caught.value)
    return str(caught.value)


@pytest.fixture
def out(tmp_path: Path) -> Path:
    return tmp_path / "folder" / "out.txt"


@pytest.fixture(autouse=True)
def folder(out: Path) -> Path:
    out.parent.mkdir()
    return out.parent


class TestOneAfterTheOther:
    def test_all_at_once(self, out: Path, folder: Path) -> None:
        assert write(out) == 0
        assert out.read_bytes() == WHOLE and list(folder.iterdir()) == [out]

    def test_nothing_comes_of_nothing(self, out: Path, folder: Path) -> None:
        write(out, sources=[])
        assert out.read_bytes() == b"" and list(folder.iterdir()) == [out]

    def test_the_old_file_stays_until_the_end(self, out: Path, folder: Path) -> None:
        out.write_text("old\n", "utf-8")
        write(out, stop=1)
        assert out.read_text("utf-8") == "old\n"
        assert (folder / "out.txt.part").read_bytes() == answers(SOURCES[:3])
        assert write(out, resume=True) == 3
        assert out.read_bytes() == WHOLE and list(folder.iterdir()) == [out]

    def test_the_record(self, out: Path, folder: Path) -> None:
        write(out, stop=2)
        record = json.loads((folder / "out.txt.part.json").read_text("utf-8"))
        assert record["lines"] == 6 and record["bytes"] == len(answers(SOURCES[:6])) and record["made_by"] == MADE_BY

    def test_what_the_record_does_not_know_of_is_cut_off(self, out: Path, folder: Path) -> None:
        write(out, stop=1)
        with (folder / "out.txt.part").open("ab") as file:
            file.write(b"half a li")
        write(out, resume=True)
        assert out.read_bytes() == WHOLE

    def test_nothing_is_left_of_nothing(self, out: Path, folder: Path) -> None:
        write(out, stop=0)
        assert list(folder.iterdir()) == []

    def test_resuming_nothing_starts_again(self, out: Path) -> None:
        assert write(out, resume=True) == 0 and out.read_bytes() == WHOLE

    def test_a_removed_part_is_forgotten(self, out: Path, folder: Path) -> None:
        write(out, stop=1)
        (folder / "out.txt.part").unlink()
        assert write(out, sources=["x"]) == 0
        assert out.read_bytes() == answers(["x"]) and list(folder.iterdir()) == [out]

    def test_a_source_may_have_grown(self, out: Path) -> None:
        write(out, stop=2)
        assert write(out, resume=True, sources=[*SOURCES, "g"]) == 6
        assert out.read_bytes() == answers([*SOURCES, "g"])

    def test_a_link_stays_a_link(self, out: Path, folder: Path, tmp_path: Path) -> None:
        (tmp_path / "link").symlink_to(out)
        write(tmp_path / "link")
        assert (tmp_path / "link").is_symlink() and out.read_bytes() == WHOLE and list(folder.iterdir()) == [out]


class TestComplete:
    def test_when(self, out: Path, folder: Path, tmp_path: Path) -> None:
        source = tmp_path / "source"
        assert not ResumableOutput(out).is_complete()
        source.touch()
        write(out)
        assert ResumableOutput(out).is_complete(since=[source, tmp_path / "none"])
        os.utime(source, ns=(0, out.stat().st_mtime_ns + 1))
        assert not ResumableOutput(out).is_complete(since=[source]), "the source is newer"
        write(out, stop=1)
        assert not ResumableOutput(out).is_complete(), "another is under way"

    def test_killed_before_the_record_was_removed(self, out: Path, folder: Path) -> None:
        write(out, stop=1)
        (folder / "out.txt.part").rename(out)
        assert ResumableOutput(out).is_complete(), "the record is that of the file"
        out.write_bytes(b"another")
        assert not ResumableOutput(out).is_complete()


class TestRefusals:
    def test_without_resume(self, out: Path) -> None:
        write(out, stop=1)
        message = "3 lines of an unfinished output; continue it with --resume, or remove it to start again"
        assert refused(out) == f"{out}.part: {message}"
        assert write(out, resume=True) == 3, "it is still there"

    def test_begun_otherwise(self, out: Path) -> None:
        write(out, stop=1)
        said = refused(out, resume=True, made_by={"search.size": 8, "--n-best": 2})
        changed = 'search.size was 5, is 8; weights was ["12ab"], is not given; --n-best was not given, is 2'
        assert (
            said
            == f"{out}.part: written with other options: {changed}; use the same again, or remove it to start again"
        )

    @pytest.mark.parametrize("sources", [["a", "", "é"], ["a"], [], ["a", "é b"], ["a\n", "é b", "c"]], ids=str)
    def test_another_source(self, out: Path, sources: list[str]) -> None:
        write(out, stop=1)
        said = refused(out, resume=True, sources=sources)
        assert said.startswith(f"{out}.part: its first 3 source lines differ from those of this source; use the same")
        assert write(out, resume=True) == 3

    def test_finished_lines_that_have_changed(self, out: Path, folder: Path) -> None:
        """Every bit of them; what the progress does not count may change."""
        write(out, stop=1)
        part = folder / f"{out.name}.part"
        content = part.read_bytes()
        for position in range(len(content)):
            damaged = bytearray(content)
            damaged[position] ^= 1 << position % 8
            part.write_bytes(damaged)
            with pytest.raises(DataError) as refused:
                write(out, resume=True)
            assert str(refused.value) == (
                f"{part}: damaged (it does not match its checksum in {part.name}.json); remove both to start again"
            )
        part.write_bytes(content + b"x")
        write(out, resume=True)
        assert out.read_bytes() == WHOLE

    def test_a_part_that_is_too_short(self, out: Path, folder: Path) -> None:
        write(out, stop=1)
        os.truncate(folder / "out.txt.part", 4)
        assert refused(out, resume=True) == (
            f"{out}.part: 4 bytes, but out.txt.part.json says {len(answers(SOURCES[:3]))}; remove it to start again"
        )

    @pytest.mark.parametrize("resume", [False, True])
    def test_a_stranger_in_the_way(self, out: Path, folder: Path, resume: bool) -> None:
        (folder / "out.txt.part").write_text("mine", "utf-8")
        assert refused(out, resume=resume) == f"{out}.part: exists, but out.txt.part.json does not; remove it"
        assert (folder / "out.txt.part").read_text("utf-8") == "mine"

    @pytest.mark.parametrize("text", ["", "{", "[]", '{"lines":3}', '{"lines":"3","bytes":1,"sources":"","made_by":0}'])
    def test_a_damaged_record(self, out: Path, folder: Path, text: str) -> None:
        write(out, stop=1)
        (folder / "out.txt.part.json").write_text(text, "utf-8")
        assert refused(out, resume=True) == f"{out}.part.json: damaged; remove it and out.txt.part to start again"
        assert (folder / "out.txt.part").exists()

    def test_places_that_cannot_be_written(self, out: Path, folder: Path) -> None:
        assert refused(folder) == f"{folder}: is a folder, so it cannot be replaced by the output; choose another name"
        special = Path("/dev/null")
        assert refused(special).startswith("/dev/null: is not a regular file, so it cannot be replaced by the output")
        assert refused(folder / "no" / "out") == f"{folder}/no/out: cannot write: No such file or directory"

    def test_one_at_a_time(self, out: Path) -> None:
        with ResumableOutput(out) as growing:
            growing.begin(MADE_BY, iter(()))
            message = "another process is writing it; wait for it, or choose another name"
            assert refused(out) == refused(out, resume=True) == f"{out}.part: {message}"
            growing.finish()
        write(out)

    def test_opened_just_before_another_finished(self, out: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        opened = os.open

        def late(*arguments: object) -> int:
            monkeypatch.setattr(os, "open", opened)
            handle = opened(*arguments)  # type: ignore[arg-type]
            write(out.with_name("other"))
            out.with_name("other").replace(out)
            out.with_name("out.txt.part").unlink()
            return handle

        monkeypatch.setattr(os, "open", late)
        assert "another process is writing it" in refused(out)
        assert out.read_bytes() == WHOLE

    def test_a_full_disk(self, out: Path, folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        written = os.write
        turns = iter(range(9))

        def full(handle: int, content: memoryview) -> int:
            if next(turns) == 2:
                raise OSError(28, "No space left on device")
            return written(handle, content[:5])

        with monkeypatch.context() as patch:
            patch.setattr(os, "write", full)
            assert refused(out) == f"{out}: cannot write: No space left on device"
        assert list(folder.iterdir()) == [], "not one window was done"
        write(out, stop=1)
        turns = iter(range(9))
        monkeypatch.setattr(os, "write", full)
        kept = "No space left on device; 3 lines are kept in out.txt.part: continue with --resume"
        assert refused(out, resume=True).endswith(kept)
        monkeypatch.undo()
        assert write(out, resume=True) == 3 and out.read_bytes() == WHOLE

    def test_only_within_its_context(self, out: Path) -> None:
        with pytest.raises(ValueError, match="inside its `with` block"):
            ResumableOutput(out).add(["a"], b"a\n")


KILLED = """
import importlib.util, os, signal, sys
spec = importlib.util.spec_from_file_location("test_growing", sys.argv[1])
module = importlib.util.module_from_spec(spec)
spec.loader.exec_module(module)

def arm(place):
    calls = 0
    def wrap(name):
        original = getattr(os, name)
        def deadly(*arguments, **keywords):
            nonlocal calls
            calls += 1
            if calls == place:
                if name == "write":
                    original(arguments[0], arguments[1][:5])
                os.kill(os.getpid(), signal.SIGKILL)
            return None if name == "fsync" else original(*arguments, **keywords)  # a kill spares what is written
        setattr(os, name, deadly)
    for name in ("write", "fsync", "replace", "unlink", "ftruncate", "open", "close"):
        wrap(name)

for line in sys.stdin:
    path, resume, place = eval(line)
    child = os.fork()
    if child == 0:
        arm(place)
        module.write(module.Path(path), resume=resume)
        os._exit(0)
    print(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]), flush=True)
"""


@pytest.fixture(scope="module")
def elsewhere() -> Iterator[Callable[[Path, bool, int], int]]:
    """Write in a process that kills itself at the so-many-th call to the system; its exit code."""
    command = [sys.executable, "-c", KILLED, __file__]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as process:
        stdin, stdout = process.stdin, process.stdout
        assert stdin is not None and stdout is not None

        def run(path: Path, resume: bool, place: int) -> int:
            stdin.write(repr((str(path), resume, place)) + "\n")
            stdin.flush()
            return int(stdout.readline())

        yield run
        stdin.close()


class TestKills:
    def test_killed_anywhere(
        self,
        out: Path,
        folder: Path,
        elsewhere: Callable[[Path, bool, int], int],
        monkeypatch: pytest.MonkeyPatch,
    ) -> None:
        """At any call to the system, and again at any call while it goes on; nothing is left but the whole output."""
        monkeypatch.setattr(os, "fsync", lambda _: None)
        place, ended = 0, False
        while not ended:
            place += 1
            for again in (0, 1 + place % 11):
                out.write_bytes(b"old\n")
                ended = elsewhere(out, False, place) == 0
                assert ended or out.read_bytes() in (b"old\n", WHOLE)
                if again:
                    elsewhere(out, True, again)
                part, note = folder / "out.txt.part", folder / "out.txt.part.json"
                if part.exists() and part.stat().st_size and note.exists():
                    done = json.loads(note.read_text("utf-8"))
                    assert part.read_bytes()[: done["bytes"]] == answers(SOURCES[: done["lines"]])
                if not ResumableOutput(out).is_complete() or out.read_bytes() == b"old\n":
                    write(out, resume=True)
                    assert list(folder.iterdir()) == [out]
                assert out.read_bytes() == WHOLE
                for left in folder.iterdir():
                    left.unlink()
        assert place > 20
