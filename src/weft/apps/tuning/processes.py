"""Jobs in separate processes, several in parallel, on the cores or GPUs of this machine."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections import deque
from collections.abc import Generator, Iterator, Sequence
from contextlib import closing
from dataclasses import replace
from pathlib import Path
from typing import NamedTuple

from weft.apps.tuning.job import Outcome, TuningJob
from weft.errors import TrainingError
from weft.files import read_json
from weft.runtime.processes import child_environment, core_count

WORKER = ["-m", "weft.apps.tuning.worker"]
POLL_SECONDS = 0.05
STOP_SECONDS = 60.0
"""Time to wait for processes that save their checkpoints."""
PER_GPU = 2
"""Candidates that share a GPU by default; a small model does not use all of one."""


class Slots(NamedTuple):
    """The devices and threads that jobs run on."""

    devices: list[str]
    """The device of each concurrent job."""
    threads: int
    """CPU threads of each process; 0: PyTorch decides."""


def find_slots(device: str, parallel: int | None, candidates: int) -> Slots:
    """The slots for candidates: by default one per core, or two per GPU."""
    from weft.runtime.devices import choose_device

    cores = core_count()
    chosen = choose_device(device)
    if chosen.type == "cpu":
        count = min(parallel or cores, candidates)
        return Slots(["cpu"] * count, max(cores // count, 1))
    import torch

    names = [str(chosen)] if chosen.index is not None else [f"cuda:{n}" for n in range(torch.cuda.device_count())]
    count = min(parallel or PER_GPU * len(names), candidates)
    return Slots([names[slot % len(names)] for slot in range(count)], 0)


class _Running(NamedTuple):
    job: TuningJob
    process: subprocess.Popen[bytes]


class ProcessRunner:
    """Runs jobs in processes; closing the iterator, or an interruption, lets them save their checkpoints and ends them.

    ``logs``: a folder for what they write to stderr.
    """

    def __init__(self, slots: Slots, logs: Path) -> None:
        self.slots = slots
        self.logs = logs
        self.running: dict[int, _Running] = {}

    @property
    def parallel(self) -> int:
        return len(self.slots.devices)

    def run(self, jobs: Sequence[TuningJob]) -> Iterator[tuple[TuningJob, Outcome]]:
        """The jobs with their outcomes as they end. Those without memory beside others run again alone, at the end."""
        without_memory: list[TuningJob] = []
        with closing(self._run(jobs, self.parallel)) as outcomes:  # Python 3.12 closes it late otherwise
            for job, outcome in outcomes:
                if outcome.get("out_of_memory") and self.parallel > 1:
                    Path(job.result).unlink(missing_ok=True)
                    without_memory.append(job)
                else:
                    yield job, outcome
        yield from self._run(without_memory, 1)

    def _run(self, jobs: Sequence[TuningJob], parallel: int) -> Generator[tuple[TuningJob, Outcome], None, None]:
        waiting = deque(jobs)
        try:
            while waiting or self.running:
                for slot in range(parallel):
                    if slot not in self.running and waiting:
                        self.running[slot] = self._start(waiting.popleft(), slot)
                for slot, (job, process) in list(self.running.items()):
                    if process.poll() is not None:
                        del self.running[slot]
                        yield job, _outcome(job, process.returncode, self.logs)
                time.sleep(POLL_SECONDS)
        finally:
            self._stop()

    def _start(self, job: TuningJob, slot: int) -> _Running:
        environment = child_environment()
        if self.slots.threads:
            environment.setdefault("OMP_NUM_THREADS", str(self.slots.threads))
        placed = replace(job, arguments={**job.arguments, "device": self.slots.devices[slot]})
        self.logs.mkdir(parents=True, exist_ok=True)
        with (self.logs / f"{job.name}.log").open("ab") as log:
            process = subprocess.Popen(
                [sys.executable, *WORKER, placed.to_json(), str(os.getpid())],
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                env=environment,
                start_new_session=True,  # this process handles Ctrl-C
            )
        return _Running(job, process)

    def _stop(self) -> None:
        """End all processes, after they have saved their checkpoints; a second signal kills them."""
        processes = [running.process for running in self.running.values()]
        self.running = {}
        try:
            for process in processes:
                process.send_signal(signal.SIGTERM)
            deadline = time.monotonic() + STOP_SECONDS
            while any(process.poll() is None for process in processes) and time.monotonic() < deadline:
                time.sleep(POLL_SECONDS)
        finally:
            for process in processes:
                process.kill()
                process.wait()


def _outcome(job: TuningJob, code: int, logs: Path) -> Outcome:
    """The result of a process that has ended."""
    try:
        outcome = read_json(job.result)
    except FileNotFoundError:
        outcome = None
    if isinstance(outcome, dict):
        return outcome
    if code in (-signal.SIGTERM, -signal.SIGINT, -signal.SIGHUP):
        raise TrainingError(
            f"{job.name}: its process was stopped by {signal.Signals(-code).name}; continue with the same command"
        )
    if code == -signal.SIGKILL:
        return {"failed": "its process was killed; too little memory?", "out_of_memory": True, "seconds": 0.0}
    return {"failed": f"its process ended with exit code {code}; see {logs / job.name}.log", "seconds": 0.0}
