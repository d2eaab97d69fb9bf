"""Command lines and functions, each in a process of its own.

Importing PyTorch and what the exports need takes seconds, so a server process imports them once and forks a child for
every call: the child has loaded no run, no recipe and no tokenizer before. Journeys also start some commands from
scratch (`Processes.command`).
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any, NamedTuple

TESTS = Path(__file__).parents[1]
DEVICE = os.environ.get("JOURNEY_DEVICE", "cpu")
"""Where models are trained and used: ``JOURNEY_DEVICE=cuda make journeys`` on a machine with a GPU."""

SERVER = r"""
import json, os, signal, sys, traceback
import torch
import weft.apps.cli, weft.training.train, weft.translation.load, weft.evaluation.comparison, weft.apps.reporting.report
import weft.translation.engines.torch, weft.models.seq2seq, weft.pairs.recommendation.recommend
import weft.pictures.attention_map

for module in sys.argv[1:]:
    try:
        __import__(module)
    except ImportError:
        pass

def interrupt_at(step):
    from weft.runs.layout import RunFolder
    append = RunFolder.append_log
    def append_log(self, record):
        append(self, record)
        if record.get("event") == "step" and record.get("step") == step:
            os.kill(os.getpid(), signal.SIGTERM)
    RunFolder.append_log = append_log

def run(request):
    os.chdir(request["folder"])
    os.environ.update(request["environment"])
    for number, name in enumerate(("stdin", "stdout", "stderr")):
        flags = os.O_RDONLY if number == 0 else os.O_WRONLY | os.O_CREAT | os.O_TRUNC
        os.dup2(os.open(request[name], flags), number)
    if request["interrupt_at"] is not None:
        interrupt_at(request["interrupt_at"])
    if request["function"] is None:
        sys.argv = ["weft", *request["arguments"]]
        weft.apps.cli.main()
    else:
        module, name = request["function"].split(":")
        function = getattr(__import__(module, fromlist=[name]), name)
        print(json.dumps(function(*request["arguments"])))

print("ready", flush=True)
for line in sys.stdin:
    request = json.loads(line)
    child = os.fork()
    if child == 0:
        code = 0
        try:
            run(request)
        except SystemExit as exit:
            code = exit.code if isinstance(exit.code, int) else int(exit.code is not None)
        except BaseException:
            traceback.print_exc()
            code = 1
        finally:
            sys.stdout.flush()
            sys.stderr.flush()
            os._exit(code)
    _, status = os.waitpid(child, 0)
    print(os.waitstatus_to_exitcode(status), flush=True)
"""
PRELOADED = ("onnxscript", "torch.onnx", "onnxruntime", "onnx", "transformers", "ctranslate2", "matplotlib.pyplot")


class Result(NamedTuple):
    """The exit code of a process, and what it printed."""

    code: int
    stdout: str
    stderr: str

    @property
    def json(self) -> Any:
        return json.loads(self.stdout)

    @property
    def json_lines(self) -> list[Any]:
        return [json.loads(line) for line in self.stdout.splitlines()]

    @property
    def refusal(self) -> str:
        """The line that a command was refused with."""
        lines = [line for line in self.stderr.splitlines() if not line.startswith("weft: warning: ")]
        assert self.code == 2 and len(lines) == 1 and lines[0].startswith("weft: "), self
        return lines[0].removeprefix("weft: ")


class Processes:
    """Runs ``weft`` command lines and functions in processes of their own."""

    def __init__(self, preloaded: tuple[str, ...] = ()) -> None:
        path = os.pathsep.join([str(TESTS), *filter(None, [os.environ.get("PYTHONPATH")])])
        self.environment = {
            **os.environ,
            **{"OMP_NUM_THREADS": "1", "NO_COLOR": "1", "COLUMNS": "100"},
            "CUDA_VISIBLE_DEVICES": "0" if DEVICE == "cuda" else "",
            **{"PYTHONPATH": path, "WEFT_NO_PROGRESS": "1", "TOKENIZERS_PARALLELISM": "false"},
        }
        self._server = subprocess.Popen(
            [sys.executable, "-c", SERVER, *preloaded],
            env=self.environment,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )

    def close(self) -> None:
        assert self._server.stdin is not None
        self._server.stdin.close()
        self._server.wait(60)

    def weft(self, folder: Path, *arguments: str | Path, stdin: str = "", interrupt_at: int | None = None) -> Result:
        """A ``weft`` command line, run in a folder; ``interrupt_at``: the step after which it gets a SIGTERM."""
        return self._fork(folder, None, [*map(str, arguments)], stdin, interrupt_at)

    def call(self, folder: Path, function: str, *arguments: Any) -> Any:
        """The value of ``module:function``, run in a folder."""
        result = self._fork(folder, function, list(arguments), "", None)
        assert result.code == 0, result.stderr
        return json.loads(result.stdout.splitlines()[-1])

    def command(self, folder: Path, *arguments: str | Path) -> Result:
        """A ``weft`` command line, run by a new interpreter."""
        done = subprocess.run(
            [sys.executable, "-m", "weft", *map(str, arguments)],
            cwd=folder,
            env=self.environment,
            capture_output=True,
            text=True,
            check=False,
        )
        return Result(done.returncode, done.stdout, done.stderr)

    def _fork(
        self, folder: Path, function: str | None, arguments: list[Any], stdin: str, interrupt_at: int | None
    ) -> Result:
        assert self._server.stdin is not None and self._server.stdout is not None
        files = {name: folder / f".{name}" for name in ("stdin", "stdout", "stderr")}
        files["stdin"].write_text(stdin, "utf-8")
        request = {
            **{name: str(path) for name, path in files.items()},
            **{"folder": str(folder), "function": function, "arguments": arguments, "interrupt_at": interrupt_at},
            "environment": {"WEFT_CACHE": os.environ["WEFT_CACHE"]},
        }
        while self._server.poll() is None:
            self._server.stdin.write(json.dumps(request) + "\n")
            self._server.stdin.flush()
            answer = self._server.stdout.readline()
            if answer == "ready\n":
                answer = self._server.stdout.readline()
            return Result(int(answer), *(files[name].read_text("utf-8") for name in ("stdout", "stderr")))
        raise AssertionError("the server of the journeys' processes has ended")
