"""A parallel map over worker processes, with results in order.

Each worker is a fresh Python that runs this module: it receives a factory and its argument, makes the function, and
then returns one result per item through its pipes. So a script that trains needs no ``if __name__ == "__main__"``,
and nothing that the parent has loaded is copied. A worker ends with its parent, even if that is killed.
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
from typing import IO, Any, TypeVar

from weft.errors import DataError
from weft.runtime.processes import child_environment, end_with_parent, message_pipes, read_message, write_message

Item = TypeVar("Item")
Result = TypeVar("Result")


def parallel_map(
    factory: Callable[[Any], Callable[[Item], Result]],
    argument: Any,
    items: Iterable[Item],
    *,
    workers: int,
    advice: str = "try fewer with data.workers",
) -> Iterator[Result]:
    """``factory(argument)`` of every item, in order; with 0 workers, in this process.

    ``advice``: the text that tells what to do if a worker is killed.
    """
    if workers < 1:
        yield from map(factory(argument), items)
        return
    processes = [_start(factory, argument) for _ in range(workers)]
    idle: SimpleQueue[subprocess.Popen[bytes]] = SimpleQueue()
    for process in processes:
        idle.put(process)

    def call(item: Item) -> Result:
        process = idle.get()
        try:
            return _call_worker(process, item, advice)
        finally:
            idle.put(process)

    pending: deque[Future[Result]] = deque()
    pool = ThreadPoolExecutor(workers)
    try:
        for item in items:
            pending.append(pool.submit(call, item))
            if len(pending) > 2 * workers:
                yield pending.popleft().result()
        while pending:
            yield pending.popleft().result()
    finally:
        for future in pending:
            future.cancel()
        for process in processes:
            process.kill()
            process.wait()
            for pipe in (process.stdin, process.stdout):
                with suppress(OSError):  # data that was not sent
                    if pipe is not None:
                        pipe.close()
        pool.shutdown()


def _start(factory: Callable[[Any], Any], argument: Any) -> subprocess.Popen[bytes]:
    single_threaded = {"RAYON_NUM_THREADS": "1", "TOKENIZERS_PARALLELISM": "false", "OMP_NUM_THREADS": "1"}
    process = subprocess.Popen(
        [sys.executable, "-m", "weft.data.store.worker_processes", str(os.getpid())],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        env=child_environment(**single_threaded),
        start_new_session=True,  # the parent handles Ctrl-C
    )
    assert process.stdin is not None
    with suppress(BrokenPipeError):  # it has ended already; the first call reports that
        _send(process.stdin, (factory, argument))
    return process


def _call_worker(process: subprocess.Popen[bytes], item: Any, advice: str) -> Any:
    assert process.stdin is not None and process.stdout is not None
    try:
        _send(process.stdin, item)
        status, result = _receive(process.stdout)
    except (OSError, EOFError, ValueError, pickle.UnpicklingError):
        with suppress(subprocess.TimeoutExpired):
            process.wait(5)
        code = process.returncode
        raise DataError(f"a worker process ended (exit code {code}); too little memory? {advice}") from None
    if status == "error":
        raise result
    return result


def _send(stream: IO[bytes], value: Any) -> None:
    write_message(stream, {}, [pickle.dumps(value, protocol=pickle.HIGHEST_PROTOCOL)])


def _receive(stream: IO[bytes]) -> Any:
    message = read_message(stream)
    if message is None:
        raise EOFError
    return pickle.loads(message.bodies[0])


def _portable(error: Exception) -> Exception:
    """An error that can be sent: some cannot be unpickled."""
    try:
        pickle.loads(pickle.dumps(error))
    except Exception:
        return DataError(" ".join(f"{type(error).__name__}: {error}".split()))
    return error


def _serve(parent: int) -> None:
    """The loop of a worker, until its parent ends."""
    end_with_parent(parent)
    requests, results = message_pipes()
    function: Callable[[Any], Any] | None = None
    while True:
        try:
            request = _receive(requests)
        except EOFError:
            return
        try:
            if function is None:
                factory, argument = request
                function = factory(argument)
                continue
            response: tuple[str, Any] = ("result", function(request))
        except Exception as error:
            response = ("error", _portable(error))
        try:
            _send(results, response)
        except BrokenPipeError:
            return


if __name__ == "__main__":
    _serve(int(sys.argv[1]))
