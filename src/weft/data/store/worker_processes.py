"""A function over many things in several processes, results in order.

Each process is a fresh Python that runs this module: it is told the function's module and the value that makes it,
then answers one item after the other through its pipes. So a script that trains needs no ``if __name__ ==
"__main__"``, and nothing that the parent has loaded is copied.
"""

from __future__ import annotations

import os
import pickle
import subprocess
import sys
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import suppress
from queue import SimpleQueue
from typing import Any, BinaryIO, TypeVar

from weft.errors import DataError

Item = TypeVar("Item")
Result = TypeVar("Result")


def parallel_map(
    make: Callable[[Any], Callable[[Item], Result]], asked: Any, items: Iterable[Item], *, workers: int
) -> Iterator[Result]:
    """``make(asked)`` of every item, in order; without workers, in this process."""
    if workers < 1:
        yield from map(make(asked), items)
        return
    started = [_start(make, asked) for _ in range(workers)]
    free: SimpleQueue[subprocess.Popen[bytes]] = SimpleQueue()
    for process in started:
        free.put(process)

    def ask(item: Item) -> Result:
        process = free.get()
        try:
            return _exchange(process, item)
        finally:
            free.put(process)

    waiting: deque[Future[Result]] = deque()
    pool = ThreadPoolExecutor(workers)
    try:
        for item in items:
            waiting.append(pool.submit(ask, item))
            if len(waiting) > 2 * workers:
                yield waiting.popleft().result()
        while waiting:
            yield waiting.popleft().result()
    finally:
        for future in waiting:
            future.cancel()
        for process in started:
            process.kill()
            process.wait()
            for pipe in (process.stdin, process.stdout):
                with suppress(OSError):  # what was not sent any more
                    if pipe is not None:
                        pipe.close()
        pool.shutdown()


def _start(make: Callable[[Any], Any], asked: Any) -> subprocess.Popen[bytes]:
    one_thread = {"RAYON_NUM_THREADS": "1", "TOKENIZERS_PARALLELISM": "false", "OMP_NUM_THREADS": "1"}
    environment = {**os.environ, **one_thread, "PYTHONPATH": os.pathsep.join(filter(None, sys.path))}
    process = subprocess.Popen(
        [sys.executable, "-m", "weft.data.store.worker_processes"],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        env=environment,
        start_new_session=True,  # Ctrl-C is the parent's to handle
    )
    assert process.stdin is not None
    with suppress(BrokenPipeError):  # it has ended at once; whoever asks it first says so
        _send(process.stdin, (make, asked))
    return process


def _exchange(process: subprocess.Popen[bytes], item: Any) -> Any:
    assert process.stdin is not None and process.stdout is not None
    try:
        _send(process.stdin, item)
        kind, answer = pickle.load(process.stdout)
    except (OSError, EOFError, ValueError, pickle.UnpicklingError):
        with suppress(subprocess.TimeoutExpired):
            process.wait(5)
        code = process.returncode
        raise DataError(
            f"a preparing process ended (exit code {code}); too little memory? try fewer with data.workers"
        ) from None
    if kind == "error":
        raise answer
    return answer


def _send(pipe: BinaryIO | Any, value: Any) -> None:
    pickle.dump(value, pipe, protocol=pickle.HIGHEST_PROTOCOL)
    pipe.flush()


def _portable(error: Exception) -> Exception:
    """An error as it can be sent: some cannot be made again of what they were pickled as."""
    try:
        pickle.loads(pickle.dumps(error))
    except Exception:
        return DataError(" ".join(f"{type(error).__name__}: {error}".split()))
    return error


def _serve() -> None:
    """What a process does until its parent goes."""
    questions, answers = sys.stdin.buffer, os.fdopen(os.dup(1), "wb")
    os.dup2(2, 1)  # whatever prints must not get between the answers
    function: Callable[[Any], Any] | None = None
    while True:
        try:
            given = pickle.load(questions)
        except EOFError:
            return
        try:
            if function is None:
                make, asked = given
                function = make(asked)
                continue
            answer: tuple[str, Any] = ("answer", function(given))
        except Exception as error:
            answer = ("error", _portable(error))
        try:
            _send(answers, answer)
        except BrokenPipeError:
            return


if __name__ == "__main__":
    _serve()
