"""Files of any size: order, memory, formats, kills and going on, pipes that pause."""

from __future__ import annotations

import json
import os
import random
import signal
import subprocess
import sys
import time
import tracemalloc
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from weft.apps.cli.commands import translate as cli
from weft.data.reading import lines as reading
from weft.translation import load as loading
from weft.translation import pipeline, text_warnings
from weft.translation.results import empty_translation
from weft.translation.translator import Translator

LINES = ["a b c", "", "d", "b a c d e", "e", "c c", "a", "b d", "", "d e a", "c", "b", "a a a a"]
WINDOW = 4
Command = Callable[..., Any]
Refusal = Callable[..., str]
Runs = Callable[[str], Path]


@pytest.fixture(autouse=True)
def window(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(pipeline, "WINDOW_LINES", WINDOW)


@pytest.fixture
def source(tmp_path: Path) -> Path:
    path = tmp_path / "source.txt"
    path.write_text("".join(line + "\n" for line in LINES), "utf-8")
    return path


@pytest.fixture
def out(tmp_path: Path) -> Path:
    (tmp_path / "folder").mkdir()
    return tmp_path / "folder" / "out.txt"


def stopping(monkeypatch: pytest.MonkeyPatch, calls: int, error: type[BaseException] = KeyboardInterrupt) -> None:
    """Let so many windows pass, then stop."""
    original = Translator.translate
    left = [calls]

    def stop(self: Translator, *arguments: Any, **keywords: Any) -> Any:
        if not left[0]:
            raise error
        left[0] -= 1
        return original(self, *arguments, **keywords)

    monkeypatch.setattr(Translator, "translate", stop)


@pytest.fixture
def no_warnings(monkeypatch: pytest.MonkeyPatch) -> None:
    """None of outputs that end by length, as most do of runs that have hardly been trained."""
    monkeypatch.setattr(text_warnings, "warn_of_cut_off", lambda *_: None)


@pytest.mark.usefixtures("no_warnings")
class TestOutput:
    FORMS = ([], ["--n-best", "3", "--align"], ["--json"], ["--search", "sample", "--n-best", "2"])

    @pytest.mark.parametrize("form", FORMS, ids=" ".join)
    def test_a_file_has_what_standard_output_has(
        self, command: Command, runs: Runs, source: Path, out: Path, form: list[str]
    ) -> None:
        printed = command("translate", runs("lstm"), source, *form)
        said = command("translate", runs("lstm"), source, "--output", out, *form)
        assert said == ("", "") and printed.stderr == ""
        assert out.read_text("utf-8") == printed.stdout and list(out.parent.iterdir()) == [out]
        dashed = command("translate", runs("lstm"), source, "--output", "-", *form)
        assert dashed == printed

    @pytest.mark.parametrize("form", FORMS, ids=" ".join)
    def test_going_on_ends_the_same(
        self, command: Command, runs: Runs, source: Path, out: Path, form: list[str]
    ) -> None:
        whole = command("translate", runs("lstm"), source, *form).stdout
        for windows in (1, 3):
            with pytest.MonkeyPatch.context() as patch:
                stopping(patch, windows)
                said = command("translate", runs("lstm"), source, "--output", out, *form, check=130)
            done = windows * WINDOW
            assert said.stderr.startswith(f"weft: {done} lines done; continue with --resume\n")
            assert not out.exists()
            part = out.with_name("out.txt.part").read_text("utf-8")
            assert whole.startswith(part) and part.endswith("\n")
            said = command("translate", runs("lstm"), source, "--output", out, "--resume", *form)
            assert said == ("", f"weft: {done} lines done; continuing\n")
            assert out.read_text("utf-8") == whole and list(out.parent.iterdir()) == [out]
            out.unlink()

    def test_order_empty_lines_and_line_ends(self, command: Command, runs: Runs, tmp_path: Path, out: Path) -> None:
        (tmp_path / "in").write_bytes(b"a b c\r\n\r\nd\n  \nb")
        command("translate", runs("lstm"), tmp_path / "in", "--output", out, "--json")
        found = [json.loads(line) for line in out.read_text("utf-8").splitlines()]
        assert [one["source"] for one in found] == ["a b c", "", "d", "  ", "b"]
        assert [one["text"] for one in found][1::2] == ["", ""]

    def test_an_empty_file(self, command: Command, runs: Runs, tmp_path: Path, out: Path) -> None:
        (tmp_path / "in").touch()
        command("translate", runs("lstm"), tmp_path / "in", "--output", out)
        assert out.read_bytes() == b""

    def test_a_file_onto_itself(self, command: Command, runs: Runs, source: Path) -> None:
        whole = command("translate", runs("lstm"), source).stdout
        command("translate", runs("lstm"), source, "--output", source)
        assert source.read_text("utf-8") == whole

    def test_a_damaged_source(self, refusal: Refusal, command: Command, runs: Runs, source: Path, out: Path) -> None:
        """What stands before it is kept; mended, it goes on."""
        whole = command("translate", runs("lstm"), source).stdout
        good = source.read_bytes()
        source.write_bytes(good.replace(b"b d\n", b"b \xff\n"))
        assert refusal("translate", runs("lstm"), source, "--output", out).startswith(
            f"{source}:8: not valid UTF-8 (byte 0xff at column 3); "
        )
        assert not out.exists() and out.with_name("out.txt.part").read_text("utf-8").count("\n") == WINDOW
        source.write_bytes(good)
        command("translate", runs("lstm"), source, "--output", out, "--resume")
        assert out.read_text("utf-8") == whole


BAD = {8: b"b \xff", 11: b"c" + b" c" * 50}
"""Lines that are not UTF-8, or of more tokens than the model has positions."""


@pytest.mark.usefixtures("no_warnings")
class TestBadLines:
    @pytest.fixture
    def damaged(self, source: Path) -> Path:
        lines = source.read_bytes().splitlines()
        for number, line in BAD.items():
            lines[number - 1] = line
        source.write_bytes(b"".join(line + b"\n" for line in lines))
        return source

    def messages(self, source: Path) -> list[str]:
        return [
            f"{source}:8: not valid UTF-8 (byte 0xff at column 3); convert the file, e.g. with iconv",
            f"{source}:11: a sequence of 52 tokens: this model has learned 40 positions (max_positions); shorten it, "
            "or train with other positions, for example 'rotary'",
        ]

    @pytest.mark.parametrize("form", [[], ["--n-best", "2"], ["--align", "--search", "greedy"], ["--json"]], ids=str)
    def test_are_skipped_in_their_place(
        self, command: Command, runs: Runs, source: Path, damaged: Path, out: Path, form: list[str]
    ) -> None:
        whole = [LINES[number] for number in range(len(LINES)) if number + 1 not in BAD]
        (source.parent / "good.txt").write_text("".join(line + "\n" for line in whole), "utf-8")
        expected = command("translate", runs("learned"), source.parent / "good.txt", *form).stdout
        asked = ["translate", runs("learned"), damaged, *form, "--bad-lines", "skip"]
        said = command(*asked, check=3)
        first, second = self.messages(damaged)
        assert said.stderr == (
            f"weft: skipped: {first}\nweft: skipped: {second}\n"
            "weft: 2 lines were skipped; each is an empty line in the output\n"
        )
        if form == ["--json"]:
            records = [json.loads(line) for line in said.stdout.splitlines()]
            assert [line["source"] for line in records] == [
                None if number in BAD else line for number, line in enumerate(LINES, 1)
            ]
            assert [line["error"] for line in records if "error" in line] == [first, second]
        else:
            lines = said.stdout.splitlines(keepends=True)
            mark = "\t\n" if form else "\n"
            skipped = [row for row, line in enumerate(lines) if line == mark]
            skipped = skipped if "--n-best" in form else [number - 1 for number in BAD]
            assert len(skipped) == 2 and {lines[row] for row in skipped} == {mark}
            assert "".join(line for row, line in enumerate(lines) if row not in skipped) == expected
        command(*asked, "--output", out, check=3)
        assert out.read_text("utf-8") == said.stdout and list(out.parent.iterdir()) == [out]

    def test_are_an_error_by_default(self, refusal: Refusal, runs: Runs, damaged: Path) -> None:
        """With their line, and the way to go on."""
        asked = ["translate", runs("learned"), damaged]
        first, second = self.messages(damaged)
        hint = "; or skip such lines with --bad-lines skip"
        assert self.error(refusal, asked) == first + hint
        damaged.write_bytes(damaged.read_bytes().replace(b"\xff", b"a"))
        assert self.error(refusal, asked) == second + hint
        assert refusal(*asked, "--bad-lines", "skp") == "--bad-lines skp: use error or skip"

    def error(self, refusal: Refusal, asked: list[str | Path]) -> str:
        """With a file, so that standard output stays empty."""
        out = Path(asked[2]).with_name("out")
        message = refusal(*asked, "--output", out)
        out.with_name("out.part").unlink()
        return message

    def test_resuming_goes_on_behind_them(
        self, command: Command, refusal: Refusal, runs: Runs, damaged: Path, out: Path
    ) -> None:
        """Stopped by the first, then interrupted behind it: the count is that of the whole file."""
        skipping = ["--bad-lines", "skip"]
        asked = ["translate", runs("learned"), damaged, "--output", out]
        whole = command("translate", runs("learned"), damaged, *skipping, check=3).stdout
        assert refusal(*asked).startswith(f"{damaged}:8: ")
        with pytest.MonkeyPatch.context() as patch:
            stopping(patch, 1)
            said = command(*asked, *skipping, "--resume", check=130)
        assert said.stderr.startswith("weft: 4 lines done; continuing\nweft: skipped: ")
        said = command(*asked, *skipping, "--resume", check=3)
        assert said.stderr.startswith("weft: 8 lines done; continuing\n")
        assert said.stderr.endswith("weft: 2 lines were skipped; each is an empty line in the output\n")
        assert out.read_text("utf-8") == whole and list(out.parent.iterdir()) == [out]

    def test_a_few_are_listed_and_all_are_counted(self, command: Command, runs: Runs, tmp_path: Path) -> None:
        (tmp_path / "in").write_bytes(b"\xff\n" * 25)
        said = command("translate", runs("lstm"), tmp_path / "in", "--bad-lines", "skip", check=3)
        assert said.stdout == "\n" * 25 and said.stderr.count("weft: skipped: ") == 10
        assert said.stderr.endswith("weft: 25 lines were skipped; each is an empty line in the output\n")

    def test_too_long_to_be_read(
        self, command: Command, refusal: Refusal, runs: Runs, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr("weft.data.reading.text_files.MAX_LINE_BYTES", 20)
        (tmp_path / "in").write_bytes(b"a\n" + b"b " * 40 + b"\nc\n")
        asked = ["translate", runs("lstm"), tmp_path / "in", "--json", "--bad-lines", "skip"]
        records = [json.loads(line) for line in command(*asked, check=3).stdout.splitlines()]
        assert [line["source"] for line in records] == ["a", None, "c"]
        assert records[1]["error"] == f"{tmp_path}/in:2: a line of more than 20 bytes; is this a text file?"
        monkeypatch.setattr(reading, "MAX_SKIPPED_BYTES", 50)
        assert refusal(*asked) == f"{tmp_path}/in:2: a line of more than 50 bytes has no end"


@pytest.mark.usefixtures("no_warnings")
class TestResume:
    @pytest.fixture
    def stopped(self, command: Command, runs: Runs, source: Path, out: Path) -> Path:
        with pytest.MonkeyPatch.context() as patch:
            stopping(patch, 2)
            command("translate", runs("lstm"), source, "--output", out, check=130)
        return out

    def test_nothing_to_resume(self, command: Command, runs: Runs, source: Path, out: Path) -> None:
        command("translate", runs("lstm"), source, "--output", out, "--resume")
        assert out.read_text("utf-8") == command("translate", runs("lstm"), source).stdout

    def test_complete(
        self, command: Command, runs: Runs, source: Path, out: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        command("translate", runs("lstm"), source, "--output", out)
        before = out.stat()
        said = command("translate", runs("lstm"), source, "--output", out, "--resume")
        assert said == ("", f"weft: {out} is complete; to translate again, omit --resume\n")
        assert out.stat() == before
        source.write_text("a\n", "utf-8")
        os.utime(source, ns=(0, before.st_mtime_ns + 1))
        command("translate", runs("lstm"), source, "--output", out, "--resume")
        assert out.read_text("utf-8").count("\n") == 1, "its source was newer"

    def test_without_resume_nothing_is_thrown_away(
        self, refusal: Refusal, runs: Runs, source: Path, stopped: Path
    ) -> None:
        message = "8 lines of an unfinished output; continue it with --resume, or remove it to start again"
        assert refusal("translate", runs("lstm"), source, "--output", stopped) == f"{stopped}.part: {message}"

    @pytest.mark.parametrize(
        ("changes", "what"),
        [
            (["--set", "search.size=2"], "search.size was 5, is 2"),
            (["--search", "greedy"], 'search.kind was "beam", is "greedy"'),
            (["--n-best", "2"], "--n-best was 1, is 2"),
            (["--json", "--align"], "--align was false, is true; --json was false, is true"),
        ],
    )
    def test_other_settings(
        self, refusal: Refusal, runs: Runs, source: Path, stopped: Path, changes: list[str], what: str
    ) -> None:
        said = refusal("translate", runs("lstm"), source, "--output", stopped, "--resume", *changes)
        assert (
            said
            == f"{stopped}.part: written with other options: {what}; use the same again, or remove it to start again"
        )

    def test_smaller_batches_are_welcome(self, command: Command, runs: Runs, source: Path, stopped: Path) -> None:
        """For who ran out of memory."""
        command("translate", runs("lstm"), source, "--output", stopped, "--resume", "--set", "search.batch_tokens=7")
        assert stopped.read_text("utf-8") == command("translate", runs("lstm"), source).stdout

    def test_another_run(self, refusal: Refusal, runs: Runs, source: Path, stopped: Path) -> None:
        said = refusal("translate", runs("transformer"), source, "--output", stopped, "--resume")
        assert said.startswith(f'{stopped}.part: written with other options: weights was ["')

    def test_another_source(self, refusal: Refusal, runs: Runs, source: Path, stopped: Path) -> None:
        source.write_text("x\n" + source.read_text("utf-8"), "utf-8")
        said = refusal("translate", runs("lstm"), source, "--output", stopped, "--resume")
        assert said.startswith(f"{stopped}.part: its first 8 source lines differ from those of this source")

    def test_what_cannot_be_read_again(self, refusal: Refusal, runs: Runs, tmp_path: Path, out: Path) -> None:
        message = "is not a regular file, so it cannot be read again"
        run = runs("lstm")
        assert refusal("translate", run, "--output", out, "--resume") == f"--resume: <standard input> {message}"
        os.mkfifo(tmp_path / "pipe")
        assert refusal("translate", run, tmp_path / "pipe", "--output", out, "--resume").endswith(message)
        assert refusal("translate", run, tmp_path / "no", "--output", out, "--resume") == f"{tmp_path}/no: no such file"
        assert refusal("translate", run, "--resume") == "--resume: needs --output FILE, the output to resume"

    def test_refused_before_a_model_is_loaded(
        self, refusal: Refusal, runs: Runs, tmp_path: Path, source: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.delattr(loading, "load")
        said = refusal("translate", runs("lstm"), source, "--output", tmp_path / "none" / "out")
        assert said == f"{tmp_path}/none/out: cannot write: No such file or directory"

    @pytest.mark.parametrize(
        "wrong", [["--set", "search.sise=3"], ["--search", "greedy", "--n-best", "2"], ["--with", "nowhere"]], ids=str
    )
    def test_an_error_leaves_nothing(
        self, command: Command, runs: Runs, source: Path, out: Path, wrong: list[str]
    ) -> None:
        if "--with" in wrong and "more" not in loading.load.__code__.co_varnames:
            pytest.skip("one run alone can be loaded")
        command("translate", runs("lstm"), source, "--output", out, *wrong, check=2)
        assert list(out.parent.iterdir()) == []


class TestMemory:
    @pytest.fixture
    def peak(
        self, command: Command, runs: Runs, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> Callable[[int, int], int]:
        """Bytes that so many lines of such a length take at most, with a model that says what it is told."""
        monkeypatch.setattr(pipeline, "WINDOW_LINES", 100)
        monkeypatch.setattr(pipeline, "WINDOW_CHARACTERS", 10_000)
        monkeypatch.setattr(
            Translator,
            "translate",
            lambda self, lines, **_: [replace(empty_translation(line), text=line) for line in lines],
        )
        monkeypatch.setattr(os, "fsync", lambda _: None)
        path = tmp_path / "many"

        def peak(count: int, length: int) -> int:
            with path.open("w", encoding="utf-8") as file:
                file.writelines(f"{number:0{length}}\n" for number in range(count))
            tracemalloc.start()
            command("translate", runs("lstm"), path, "--output", tmp_path / "out")
            found = tracemalloc.get_traced_memory()[1]
            tracemalloc.stop()
            assert (tmp_path / "out").read_bytes() == path.read_bytes()
            return found

        peak(10, 10)
        return peak

    def test_it_does_not_grow_with_lines_nor_their_length(self, peak: Callable[[int, int], int]) -> None:
        base = peak(200, 10)
        assert peak(20_000, 10) < base + 300_000, "the lines themselves are 1.2 MB as strings"
        assert peak(300, 7_000) < base + 300_000, "two million characters"


class Stopped(NamedTuple):
    """How a process ended."""

    code: int
    stderr: str


# Reads orders as lines of JSON and runs each in a forked child: torch is imported once, and a kill is a real kill.
FORKING = """
import json, os, signal, sys, time
import torch, weft.training.train
from weft.translation import load as loading, pipeline, translator
from weft.apps.cli import main
pipeline.WINDOW_LINES = int(sys.argv[1])

def arm(place):
    calls = 0
    def wrap(owner, name):
        original = getattr(owner, name)
        def deadly(*arguments, **keywords):
            nonlocal calls
            calls += 1
            if calls == place:
                if name == "write":
                    original(arguments[0], arguments[1][:3])
                os.kill(os.getpid(), signal.SIGKILL)
            return original(*arguments, **keywords)
        setattr(owner, name, deadly)
    for name in ("write", "fsync", "replace", "ftruncate"):
        wrap(os, name)
    wrap(translator.Translator, "translate")

loading.load(sys.argv[2], device="cpu").translate(["a b"])
print("ready", flush=True)
for line in sys.stdin:
    order = json.loads(line)
    child = os.fork()
    if child == 0:
        os.dup2(os.open(order["stderr"], os.O_WRONLY | os.O_CREAT | os.O_TRUNC), 2)
        arm(order["place"])
        sys.argv = ["weft", *order["arguments"]]
        try:
            main()
        except SystemExit as ended:
            os._exit(ended.code or 0)
        os._exit(1)
    if order["after"]:
        time.sleep(order["after"])
        os.kill(child, signal.SIGKILL)
    print(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]), flush=True)
"""


@pytest.fixture(scope="module")
def elsewhere(runs: Runs, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Callable[..., Stopped]]:
    """``elsewhere("translate", …, place=3)``: in a process that kills itself at the third call that matters."""
    errors = tmp_path_factory.mktemp("elsewhere") / "stderr"
    command = [sys.executable, "-c", FORKING, str(WINDOW), str(runs("lstm"))]
    environment = {**os.environ, "OMP_NUM_THREADS": "1", "CUDA_VISIBLE_DEVICES": ""}
    with subprocess.Popen(
        command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, env=environment, text=True
    ) as process:
        stdin, stdout = process.stdin, process.stdout
        assert stdin is not None and stdout is not None and stdout.readline() == "ready\n"

        def run(*arguments: str | Path, place: int = 0, after: float = 0.0) -> Stopped:
            order = {
                "arguments": [*map(str, arguments)],
                "place": place,
                "after": after,
                "stderr": str(errors),
            }
            stdin.write(json.dumps(order) + "\n")
            stdin.flush()
            return Stopped(int(stdout.readline()), errors.read_text("utf-8"))

        yield run
        stdin.close()


class TestKills:
    def check(
        self, elsewhere: Callable[..., Stopped], arguments: list[str | Path], out: Path, whole: bytes, **kill: float
    ) -> int:
        """Kill it once; then go on to the end."""
        done = elsewhere(*arguments, **kill)
        assert done.code in (0, -signal.SIGKILL), done.stderr
        assert not out.exists() or out.read_bytes() == whole
        if done.code:
            again = elsewhere(*arguments, "--resume")
            assert again.code == 0, again.stderr
        assert out.read_bytes() == whole and list(out.parent.iterdir()) == [out]
        for left in out.parent.iterdir():
            left.unlink()
        return done.code

    @pytest.mark.parametrize("form", [[], ["--n-best", "2", "--align"]], ids=" ".join)
    def test_a_few_places(
        self, elsewhere: Callable[..., Stopped], runs: Runs, source: Path, out: Path, form: list[str]
    ) -> None:
        arguments = ["translate", runs("lstm"), source, "--output", out, "--device", "cpu", *form]
        assert elsewhere(*arguments).code == 0
        whole = out.read_bytes()
        out.unlink()
        for place in (5, 9, 12) if form else (2, 6, 23):
            assert self.check(elsewhere, arguments, out, whole, place=place) == -signal.SIGKILL

    @pytest.mark.slow
    @pytest.mark.parametrize("form", [[], ["--n-best", "2", "--align"], ["--json"]], ids=" ".join)
    def test_every_place(
        self, elsewhere: Callable[..., Stopped], runs: Runs, source: Path, out: Path, form: list[str]
    ) -> None:
        arguments = ["translate", runs("lstm"), source, "--output", out, "--device", "cpu", *form]
        assert elsewhere(*arguments).code == 0
        whole = out.read_bytes()
        out.unlink()
        place = 1
        while self.check(elsewhere, arguments, out, whole, place=place):
            place += 1
        assert place > 20

    @pytest.mark.slow
    def test_at_any_time(self, elsewhere: Callable[..., Stopped], runs: Runs, tmp_path: Path, out: Path) -> None:
        """Killed from outside, several times, until it is done."""
        chance = random.Random(7)
        letters = [" ".join(chance.choices("abcde", k=chance.randint(0, 9))) for _ in range(600)]
        (tmp_path / "in").write_text("".join(line + "\n" for line in letters), "utf-8")
        arguments = ["translate", runs("lstm"), tmp_path / "in", "--output", out, "--device", "cpu"]
        begun = time.monotonic()
        assert elsewhere(*arguments).code == 0
        seconds = time.monotonic() - begun
        whole = out.read_bytes()
        for _ in range(3):
            out.unlink()
            kills = 0
            while (done := elsewhere(*arguments, "--resume", after=chance.uniform(0.05, 0.6 * seconds))).code:
                assert done.code == -signal.SIGKILL and kills < 200, done.stderr
                kills += 1
            assert out.read_bytes() == whole


class TestPipes:
    def test_an_answer_for_every_question(self, runs: Runs) -> None:
        """Another program writes a line, waits for the answer, and writes the next."""
        command = [sys.executable, "-m", "weft", "translate", str(runs("lstm")), "--device", "cpu", "--json"]
        environment = {**os.environ, "OMP_NUM_THREADS": "1"}
        with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, env=environment) as process:
            stdin, stdout = process.stdin, process.stdout
            assert stdin is not None and stdout is not None
            for asked in (["a b"], [""], ["c", "d e"]):
                stdin.write("".join(line + "\n" for line in asked).encode())
                stdin.flush()
                assert [json.loads(stdout.readline())["source"] for _ in asked] == asked
            stdin.close()
            assert stdout.read() == b"" and process.wait() == 0


class TestOptions:
    def test_only_what_is_given_is_passed_on(
        self, command: Command, runs: Runs, source: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        original = loading.load
        asked: list[tuple[tuple[Path, ...], dict[str, str]]] = []

        def load(*paths: Path, **keywords: str) -> Translator:
            asked.append((paths, keywords))
            return original(paths[0], device="cpu")

        monkeypatch.setattr(loading, "load", load)
        run = runs("lstm")
        command("translate", run, source)
        command("translate", run, source, "--with", run, "--precision", "int8", "--engine", "torch")
        assert asked == [
            ((run,), {"device": "auto"}),
            ((run, run), {"device": "auto", "precision": "int8", "engine": "torch"}),
        ]


class TestProgress:
    def test_lines_are_counted_unless_somebody_types_them(self, monkeypatch: pytest.MonkeyPatch) -> None:
        with cli._counting("lines.txt") as counting:
            assert (counting.what, counting.unit) == ("translating lines.txt", "lines")
        monkeypatch.setattr(sys.stdin, "isatty", lambda: True)
        with cli._counting("-") as counting:
            assert not counting.unit


class TestTheLengthLimit:
    """Outputs that reach it are counted on stderr; where none does, nothing is said."""

    @pytest.fixture
    def cut(self, monkeypatch: pytest.MonkeyPatch) -> Callable[[set[str]], None]:
        """Let the outputs of some lines reach the limit."""

        def cut(lines: set[str]) -> None:
            def translate(self: Translator, sources: list[str], **_: Any) -> list[Any]:
                ends = {True: "length", False: "end"}
                return [replace(empty_translation(line), ended=ends[line in lines]) for line in sources]

            monkeypatch.setattr(Translator, "translate", translate)

        return cut

    @pytest.mark.parametrize(
        ("lines", "options", "message"),
        [
            (set(), (), ""),
            ({"a b c"}, (), "1 of 13 outputs reached the length limit; raise search.max_ratio or search.max_extra"),
            (
                {"a b c", "d", "b", "a a a a"},
                ("--set", "search.max_length=3"),
                "4 of 13 outputs reached the length limit; raise search.max_length",
            ),
        ],
    )
    def test_is_told_once(
        self, cut: Any, command: Command, runs: Runs, source: Path, lines: set[str], options: Any, message: str
    ) -> None:
        cut(lines)
        said = command("translate", runs("lstm"), source, *options)
        assert said.stderr == (f"weft: warning: {message}\n" if message else "")

    def test_a_single_output(self, cut: Any, command: Command, runs: Runs, tmp_path: Path) -> None:
        cut({"d"})
        (tmp_path / "line.txt").write_text("d\n", "utf-8")
        said = command("translate", runs("lstm"), tmp_path / "line.txt")
        assert said.stderr.startswith("weft: warning: 1 of 1 output reached the length limit; raise ")

    def test_in_an_evaluation(self, cut: Any, command: Command, runs: Runs, source: Path, tmp_path: Path) -> None:
        (tmp_path / "pairs.tsv").write_text("d\ta\nb\tb\nd\tc\n", "utf-8")
        for lines, count in (({"d"}, 2), (set[str](), 0)):
            cut(lines)
            said = command("evaluate", runs("blind"), tmp_path / "pairs.tsv", "--json")
            assert json.loads(said.stdout)["ended_by_length"] == count
            assert ("2 of 3 outputs reached the length limit; raise search.max_ratio" in said.stderr) == bool(count)
            assert ("length limit" in said.stderr) == bool(count)

    def test_of_samples(self, command: Command, runs: Runs) -> None:
        limit = ("--set", "search.max_length=2", "--set", "search.min_length=2")
        said = command("sample", runs("language"), "--count", "3", *limit)
        assert said.stderr == "weft: warning: 3 of 3 outputs reached the length limit; raise search.max_length\n"
        said = command("sample", runs("language"), "--count", "3", "--length", "2", *limit)
        assert said.stderr == "", "it was requested"


def test_outputs_that_an_exact_search_gave_up_on(command: Command, runs: Runs, source: Path) -> None:
    """They are the best that is known, and it is said that they are not proven."""
    exact = ("--search", "exact", "--set", "search.max_length=2")
    assert command("translate", runs("lstm"), source, *exact).stderr == ""
    said = command("translate", runs("lstm"), source, *exact, "--set", "search.max_nodes=1")
    message = "11 of 13 outputs are not proven to be the best; raise search.max_nodes = 1"
    assert said.stderr == f"weft: warning: {message}\n", "two lines are empty"


class TestText:
    def test_lines_of_several_sentences(self, command: Command, runs: Runs, tmp_path: Path) -> None:
        path = tmp_path / "text.txt"
        path.write_text("a b . c d .\n\n  - e a\n", "utf-8")
        expected = command("translate", runs("lstm"), write_lines(tmp_path, ["a b .", "c d .", "e a"])).stdout
        first, second, third = expected.splitlines()
        assert command("translate", runs("lstm"), path, "--text").stdout == f"{first} {second}\n\n  - {third}\n"
        out = tmp_path / "out.txt"
        command("translate", runs("lstm"), path, "--text", "--output", out)
        assert out.read_text("utf-8") == f"{first} {second}\n\n  - {third}\n"

    def test_a_glossary(self, command: Command, refusal: Refusal, runs: Runs, tmp_path: Path) -> None:
        lines, terms, out = tmp_path / "lines.txt", tmp_path / "terms.tsv", tmp_path / "out.txt"
        lines.write_text("a b c\n\nd\n", "utf-8")
        terms.write_text("a b\te\n", "utf-8")
        asked = ("translate", runs("lstm"), lines, "--glossary", terms)
        shown = command(*asked)
        assert "e" in shown.stdout.splitlines()[0].split() and len(shown.stdout.splitlines()) == 3
        assert "glossary of 1 term: 1 of 3 outputs have terms, 0 of these lack one" in shown.stderr
        command(*asked, "--output", out)
        assert out.read_text("utf-8") == shown.stdout
        assert command(*asked, "--search", "greedy").stdout.split()
        terms.write_text("\n", "utf-8")
        assert "terms.tsv: no terms; expected lines of a source term" in refusal(*asked)
        assert refusal(*asked, "--ray", "local").startswith("--glossary: cannot be used with --ray")

    def test_a_translation_memory(self, command: Command, refusal: Refusal, runs: Runs, tmp_path: Path) -> None:
        lines, pairs, out = tmp_path / "lines.txt", tmp_path / "pairs.tsv", tmp_path / "out.txt"
        lines.write_text("a b c\na b\n\n", "utf-8")
        pairs.write_text("a  b\tfrom before\n", "utf-8")
        asked = ("translate", runs("lstm"), lines, "--memory", pairs)
        shown = command(*asked)
        assert shown.stdout.splitlines()[1] == "from before" and len(shown.stdout.splitlines()) == 3
        assert "memory of 1 source: 1 of 3 outputs are from it, 1 have similar pairs" in shown.stderr
        first, second, third = map(json.loads, command(*asked, "--json").stdout.splitlines())
        assert first["memory"][0]["similarity"] == pytest.approx(2 / 3) and not first["memory"][0]["exact"]
        assert second["text"] == "from before" and second["memory"][0]["exact"] and "memory" not in third
        assert command(*asked, "--flags").stdout.splitlines()[1] == "from before\tfrom-memory"
        command(*asked, "--output", out)
        assert out.read_text("utf-8") == shown.stdout
        pairs.write_text("\n", "utf-8")
        assert "pairs.tsv" in refusal(*asked)
        assert refusal(*asked, "--ray", "local").startswith("--memory: cannot be used with --ray")

    @pytest.mark.parametrize("option", [["--n-best", "2"], ["--align"], ["--ray", "local"]])
    def test_options_that_need_single_sentences(
        self, refusal: Refusal, runs: Runs, source: Path, option: list[str]
    ) -> None:
        message = f"--text: cannot be used with {option[0]}; translate one sentence per line instead"
        assert refusal("translate", runs("lstm"), source, "--text", *option) == message


def write_lines(folder: Path, lines: list[str]) -> Path:
    path = folder / "lines.txt"
    path.write_text("".join(line + "\n" for line in lines), "utf-8")
    return path
