"""Starting several workers on this machine, by PyTorch's elastic launcher: the one behind torchrun.

Where a worker dies, all are started anew, and go on from the last checkpoint of their run. An error of the user's is
told by the worker that met it and ends all: it would only come again.
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

ENDED = "WEFT_ENDED"
"""Environment: the file that holds the exit code once an error has ended this launch."""


def note_end(code: int) -> None:
    """Let the launch end with this code, and not start the workers anew."""
    if ENDED in os.environ:
        Path(os.environ[ENDED]).write_text(str(code), "utf-8")


def has_ended() -> bool:
    """Whether this worker was started anew although the launch is at its end."""
    return ENDED in os.environ and Path(os.environ[ENDED]).exists()


def launch(arguments: Sequence[str], *, workers: int, restarts: int) -> int:
    """Run ``weft ARGUMENTS`` in so many processes; the exit code."""
    from torch.distributed.elastic.multiprocessing import DefaultLogsSpecs, SignalException
    from torch.distributed.elastic.multiprocessing.errors import ChildFailedError
    from torch.distributed.launcher.api import LaunchConfig, elastic_launch

    for name in ("torch.distributed.elastic", "torch.distributed.launcher"):
        logging.getLogger(name).setLevel(logging.CRITICAL)  # what they would say is said below in one line
    os.environ.setdefault("OMP_NUM_THREADS", str(max((os.cpu_count() or 1) // workers, 1)))
    with tempfile.TemporaryDirectory(prefix="weft-launch-") as folder:
        ended = Path(folder) / "ended"
        os.environ[ENDED] = str(ended)
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
            if ended.exists():
                return int(ended.read_text("utf-8"))
            rank, failure = error.get_first_failure()
            raise TrainingError(
                f"worker {rank} {_how(failure.exitcode)}, after {restarts} restarts; "
                "go on from the last checkpoint with --resume"
            ) from None
        except SignalException as error:
            if error.sigval == signal.SIGINT:
                raise KeyboardInterrupt from None
            return 128 + int(error.sigval)
        finally:
            del os.environ[ENDED]
        return int(ended.read_text("utf-8")) if ended.exists() else 0


def _how(code: int) -> str:
    """How a process ended."""
    return f"was killed by {signal.Signals(-code).name}" if code < 0 else f"ended with code {code}"
