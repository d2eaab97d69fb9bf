"""Launching several workers on this machine with PyTorch's elastic launcher, the one behind torchrun.

If a worker dies, all are restarted and continue from the last checkpoint of their run. A user error is reported by the
worker that meets it first and ends the launch: it would only happen again. If the launcher dies, the workers end too.
"""

from __future__ import annotations

import logging
import os
import shlex
import shutil
import signal
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from pathlib import Path

from weft.errors import TrainingError
from weft.runs.locks import LAUNCHER_PID, lock_launch
from weft.runtime.processes import end_with_parent
from weft.training.events import LauncherLost

EXIT_CODE_FILE = "WEFT_EXIT_CODE_FILE"
"""Environment variable: the file that holds the exit code once an error has ended this launch."""


REPORT_SECONDS = 2.0
"""Seconds for which the other workers outlive the first one, which would otherwise end because it has lost them."""


def end_launch(code: int) -> None:
    """End the launch with this exit code instead of restarting the workers."""
    if EXIT_CODE_FILE in os.environ:
        Path(os.environ[EXIT_CODE_FILE]).write_text(str(code), "utf-8")


def launch_has_ended() -> bool:
    """Whether this worker was restarted although the launch has ended."""
    return EXIT_CODE_FILE in os.environ and Path(os.environ[EXIT_CODE_FILE]).exists()


def end_with_launcher(folder: Callable[[], Path]) -> None:
    """Make a worker end soon after its launcher, even if that was killed; the first worker logs it in the folder.

    Without its launcher a worker would train on unseen, and hang as soon as it waits for a worker that has died.
    """
    if LAUNCHER_PID in os.environ:
        launcher = int(os.environ[LAUNCHER_PID])
    elif "TORCHELASTIC_RUN_ID" in os.environ:  # torchrun
        launcher = os.getppid()
    else:
        return
    end_with_parent(launcher, lambda: _report_lost_launcher(launcher, folder))


def _report_lost_launcher(launcher: int, folder: Callable[[], Path]) -> None:
    from weft.runs.layout import RunFolder

    if EXIT_CODE_FILE in os.environ:
        shutil.rmtree(Path(os.environ[EXIT_CODE_FILE]).parent, ignore_errors=True)
    if os.environ.get("RANK") != "0":
        time.sleep(REPORT_SECONDS)
        return
    run = RunFolder(folder())
    if not run.path.is_dir():
        return
    run.append_log(LauncherLost(run.newest_step(), launcher).record())
    resume = f"continue with: weft train {shlex.quote(str(run.path))} --resume"
    print(f"weft: the launcher (process {launcher}) has ended, so its workers end too; {resume}", file=sys.stderr)


def launch(arguments: Sequence[str], folder: Path, *, workers: int, restarts: int) -> int:
    """Run ``weft ARGUMENTS``, which trains in a run folder, in ``workers`` processes; returns the exit code."""
    for name in ("torch.distributed.elastic", "torch.distributed.launcher"):
        logging.getLogger(name).setLevel(logging.CRITICAL)  # the error below says it in one line
    os.environ.setdefault("OMP_NUM_THREADS", str(max((os.cpu_count() or 1) // workers, 1)))
    with lock_launch(folder):
        os.environ[LAUNCHER_PID] = str(os.getpid())
        try:
            return _launch(arguments, workers=workers, restarts=restarts)
        finally:
            del os.environ[LAUNCHER_PID]


def _launch(arguments: Sequence[str], *, workers: int, restarts: int) -> int:
    from torch.distributed.elastic.multiprocessing import DefaultLogsSpecs, SignalException
    from torch.distributed.elastic.multiprocessing.errors import ChildFailedError
    from torch.distributed.launcher.api import LaunchConfig, elastic_launch

    with tempfile.TemporaryDirectory(prefix="weft-launch-") as folder:
        exit_code = Path(folder) / "exit_code"
        os.environ[EXIT_CODE_FILE] = str(exit_code)
        config = LaunchConfig(
            min_nodes=1,
            max_nodes=1,
            nproc_per_node=workers,
            run_id=Path(folder).name,
            rdzv_backend="c10d",
            rdzv_endpoint="localhost:0",
            local_addr="localhost",
            max_restarts=restarts,
            logs_specs=DefaultLogsSpecs(log_dir=folder),
        )
        try:
            elastic_launch(config, sys.executable)("-m", "weft", *arguments)
        except ChildFailedError as error:
            if exit_code.exists():
                return int(exit_code.read_text("utf-8"))
            rank, failure = error.get_first_failure()
            raise TrainingError(
                f"worker {rank} {_describe_exit(failure.exitcode)}, after {restarts} restarts; "
                "continue from the last checkpoint with --resume"
            ) from None
        except SignalException as error:
            if error.sigval == signal.SIGINT:
                raise KeyboardInterrupt from None
            return 128 + int(error.sigval)
        finally:
            del os.environ[EXIT_CODE_FILE]
        return int(exit_code.read_text("utf-8")) if exit_code.exists() else 0


def _describe_exit(code: int) -> str:
    """A description of how a process ended."""
    return f"was killed by {signal.Signals(-code).name}" if code < 0 else f"ended with code {code}"
