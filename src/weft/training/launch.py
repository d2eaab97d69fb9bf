"""Launching several workers on this machine with PyTorch's elastic launcher, the one behind torchrun.

If a worker dies, all are restarted and continue from the last checkpoint of their run. A user error is reported by the
worker that meets it first and ends the launch: it would only happen again.
"""

from __future__ import annotations

import logging
import os
import signal
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path

from weft.errors import TrainingError

EXIT_CODE_FILE = "WEFT_EXIT_CODE_FILE"
"""Environment variable: the file that holds the exit code once an error has ended this launch."""


def end_launch(code: int) -> None:
    """End the launch with this exit code instead of restarting the workers."""
    if EXIT_CODE_FILE in os.environ:
        Path(os.environ[EXIT_CODE_FILE]).write_text(str(code), "utf-8")


def launch_has_ended() -> bool:
    """Whether this worker was restarted although the launch has ended."""
    return EXIT_CODE_FILE in os.environ and Path(os.environ[EXIT_CODE_FILE]).exists()


def launch(arguments: Sequence[str], *, workers: int, restarts: int) -> int:
    """Run ``weft ARGUMENTS`` in so many processes; returns the exit code."""
    from torch.distributed.elastic.multiprocessing import DefaultLogsSpecs, SignalException
    from torch.distributed.elastic.multiprocessing.errors import ChildFailedError
    from torch.distributed.launcher.api import LaunchConfig, elastic_launch

    for name in ("torch.distributed.elastic", "torch.distributed.launcher"):
        logging.getLogger(name).setLevel(logging.CRITICAL)  # the error below says it in one line
    os.environ.setdefault("OMP_NUM_THREADS", str(max((os.cpu_count() or 1) // workers, 1)))
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
    """How a process ended."""
    return f"was killed by {signal.Signals(-code).name}" if code < 0 else f"ended with code {code}"
