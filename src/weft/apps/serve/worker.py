"""The worker process of a model: it loads a run, and answers the messages of the service.

Messages come in on stdin and go out on what was stdout; other output goes to stderr. There are two queues: a
long exact search does not keep the other requests waiting. The process ends with stdin, or when it is told to.
"""

from __future__ import annotations

import os
import threading
import warnings
from collections.abc import Callable, Sequence
from contextlib import suppress
from queue import SimpleQueue
from typing import TYPE_CHECKING, Any, BinaryIO

from weft.apps.serve.errors import log_error, one_line
from weft.errors import CheckpointError, WeftError, command_line, is_out_of_memory
from weft.runtime.processes import Message, message_pipes, read_message, to_json, write_message
from weft.runtime.switches import frozen_afterwards, set_thread_count, unfreeze_objects

if TYPE_CHECKING:
    from weft.translation.translator import Translator

QUEUES = ("batch", "exact")
DEVICE_FAILED = 70
"""Exit code after an error of the device, whose results can no longer be trusted."""
INTERNAL = "an internal error; the service has logged it"


class BatchObserver:
    """Drops the rows of a batch whose clients have left."""

    def __init__(self, is_abandoned: Callable[[int], bool]) -> None:
        self.is_abandoned = is_abandoned

    def on_step(self, sentences: Sequence[int], record: Any) -> None:
        return None


class Worker:
    """A model and the requests that it answers."""

    def __init__(self, stdin: BinaryIO, stdout: BinaryIO) -> None:
        self.stdin = stdin
        self.stdout = stdout
        self.writing = threading.Lock()
        self.queues: dict[str, SimpleQueue[Message]] = {queue: SimpleQueue() for queue in QUEUES}
        self.abandoned: set[tuple[int, int]] = set()
        """Request and row; row −1: all."""
        self.translator: Translator | None = None
        self.config: dict[str, Any] = {}
        self.threads = 0
        """Threads of all searches together, once a run is loaded."""

    def run(self) -> None:
        """Load the run, then answer until stdin ends."""
        first = read_message(self.stdin)
        if first is None:
            return
        self.config = first.payload()
        threading.Thread(target=self._read, daemon=True).start()
        with command_line():  # --device and --precision are options of `weft serve`
            self._load_and_report()
        for queue in ("exact", *["batch"] * (self._parallel() - 1)):
            threading.Thread(target=self._serve, args=(queue,), daemon=True).start()
        if self.translator is not None:
            self.queues["exact"].put(Message({"op": "examples", "id": 0}, []))
        self._serve("batch")

    def send(self, header: dict[str, Any], bodies: Sequence[bytes] = ()) -> None:
        with self.writing:
            write_message(self.stdout, header, bodies)

    def _read(self) -> None:
        while (message := read_message(self.stdin)) is not None and message.header["op"] != "stop":
            if message.header["op"] == "ping":
                self.send({"event": "pong"})
            elif message.header["op"] == "cancel":
                self.abandoned.update((message.header["id"], row) for row in message.header["rows"])
            else:
                self.queues[message.header["queue"]].put(message)
        os._exit(0)  # the service has ended

    def _load_and_report(self) -> None:
        """Load the run and report it, or why it cannot be loaded."""
        try:
            with frozen_afterwards():
                self.translator = self._load()
            self._report()
        except Exception as error:
            self.translator = None
            self.send({"event": "failed"}, [to_json({"problem": self._load_problem(error)})])

    def _load_problem(self, error: Exception) -> str:
        """Why the run cannot be loaded, in one line; whatever the error, loading it again would fail again."""
        if isinstance(error, WeftError | OSError):
            return one_line(error)
        reason = "not enough memory" if is_out_of_memory(error) else f"{type(error).__name__}: {one_line(error)[:200]}"
        return f"{'+'.join(self.config['runs'])}: cannot be loaded ({reason})"

    def _report(self) -> None:
        """Report the description of the model, and the number of batches that can run concurrently."""
        from weft.apps.serve.model_info import model_info

        translator = self.translator
        assert translator is not None
        alone = translator.device.type != "cpu" or translator.engine.name == "ctranslate2"  # it divides batches itself
        parallel = 1 if alone else self._parallel()
        self.send({"event": "ready"}, [to_json({**model_info(translator), "parallel_searches": parallel})])

    def _parallel(self) -> int:
        """Number of batches searched concurrently on a CPU.

        Most of a step of a small batch is a sequence of short operations, which several threads make little faster:
        two batches with half of the threads each take less time than one after the other with all of them.
        """
        return min(self.config.get("parallel_searches") or 2, self.threads)

    def _load(self) -> Translator:
        import torch

        from weft.apps.serve.limits import OutputLimits
        from weft.translation.load import load

        self.threads = self.config.get("threads") or self.threads or torch.get_num_threads()
        set_thread_count(self.threads)
        names = ("device", "precision", "engine", "adapter")
        options = {name: self.config[name] for name in names if name in self.config}
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            translator = load(*self.config["runs"], **options)
            if "max_output" in self.config:
                translator.length_limits = OutputLimits.of(translator.length_limits, self.config["max_output"])
            if translator.source_role != "none":
                with suppress(WeftError):  # a first search imports what is imported lazily
                    translator.translate("a", return_attention=False, max_length=2)
        return translator

    def _serve(self, queue: str) -> None:
        threads = self.threads // self._parallel() if queue == "batch" else self.threads
        set_thread_count(max(threads, 1))  # of searches in this thread
        while True:
            message = self.queues[queue].get()
            try:
                self._answer(message)
            except BaseException as error:
                self._fail(message, error)
            self.abandoned -= {entry for entry in self.abandoned.copy() if entry[0] == message.header["id"]}

    def _answer(self, message: Message) -> None:
        from weft.apps.serve import operations
        from weft.apps.serve.costs import check_heads

        op, number = message.header["op"], message.header["id"]
        if op == "reload":
            return self._reload(number)
        if self.translator is None:
            raise CheckpointError("the model is not loaded")
        if op == "examples":
            from weft.apps.serve.model_info import examples

            return self.send({"event": "examples"}, [to_json({"examples": examples(self.translator)})])
        if op == "translate":
            return self._translate(message)
        payload = message.payload()
        if op == "stream":
            return self._stream(number, payload)
        if op == "score":
            bodies = operations.score(self.translator, payload)
            return self.send({"id": number}, bodies)
        if op == "heads":
            check_heads(self.translator, payload, self.config)
        operation = {
            "heads": operations.heads,
            "tokens": operations.tokens,
            "neighbors": operations.neighbors,
            "positions": operations.positions,
        }[op]
        self.send({"id": number}, [operation(self.translator, payload)])

    def _translate(self, message: Message) -> None:
        """Rows of several requests that are searched together: a result or an error for each."""
        from weft.apps.serve import operations
        from weft.apps.serve.costs import check_search
        from weft.apps.serve.limits import EXACT

        translator, number = self.translator, message.header["id"]
        assert translator is not None
        payload = message.payload()
        texts = payload["texts"]
        errors: dict[int, tuple[int, str]] = {}
        results: list[bytes] = [b"null"] * len(texts)

        def translate(rows: list[int]) -> None:
            rows = [row for row in rows if (number, row) not in self.abandoned]
            observer = None
            exact = payload.get("search", {}).get("kind") in EXACT
            if translator.device.type == "cpu" or exact:  # steps that are observed cannot be recorded as CUDA graphs
                observer = BatchObserver(lambda sentence: (number, rows[sentence]) in self.abandoned)
            try:
                check_search(translator, {**payload, "texts": [texts[row] for row in rows]}, self.config)
                records = operations.translate(translator, {**payload, "texts": [texts[row] for row in rows]}, observer)
            except Exception as error:  # of one row: the others, of other clients perhaps, are searched without it
                if is_device_error(error):
                    raise
                if len(rows) > 1:
                    translate(rows[: len(rows) // 2])
                    translate(rows[len(rows) // 2 :])
                elif rows:
                    errors[rows[0]] = self._problem(error)
            else:
                for row, result in zip(rows, records, strict=True):
                    results[row] = result

        translate(list(range(len(texts))))
        self.send({"id": number, "errors": errors}, results)

    def _stream(self, number: int, payload: dict[str, Any]) -> None:
        from weft.apps.serve import operations
        from weft.apps.serve.costs import check_search
        from weft.apps.serve.observation import Abandoned

        assert self.translator is not None
        check_search(self.translator, {**payload, "attention": True}, self.config)
        with suppress(Abandoned):
            operations.stream(
                self.translator,
                payload,
                lambda name, data: self.send({"id": number, "event": name}, [to_json(data)]),
                lambda: (number, -1) in self.abandoned,
            )
        self.send({"id": number})

    def _reload(self, number: int) -> None:
        """Replace the model by what the run folder holds now; the old one answers until then."""
        try:
            unfreeze_objects()  # so that what the old model refers to can be freed
            translator = self._load()
        except Exception as error:
            if is_device_error(error):
                raise
            raise CheckpointError(self._load_problem(error)) from None
        self.translator = translator
        self._report()
        self.queues["exact"].put(Message({"op": "examples", "id": 0}, []))
        self.send({"id": number})

    def _fail(self, message: Message, error: BaseException) -> None:
        """Answer with an error."""
        self.send({"id": message.header["id"], "error": self._problem(error)})
        if is_device_error(error):
            os._exit(DEVICE_FAILED)
        if not isinstance(error, Exception):
            raise error

    def _problem(self, error: BaseException) -> tuple[int, str]:
        """The status and the sentence of an error; an unexpected error is logged."""
        status, message = status_of(error)
        if status == 500:
            log_error(error, texts=self.config.get("log") == "texts")
        return status, message


def status_of(error: BaseException) -> tuple[int, str]:
    """The status and the sentence that a client gets."""
    from weft.apps.serve.costs import CostError
    from weft.apps.serve.operations import UnknownTokenError

    if isinstance(error, CostError):
        return 413, one_line(error)
    if isinstance(error, UnknownTokenError):
        return 404, one_line(error)
    if isinstance(error, CheckpointError):
        return 503, one_line(error)
    if isinstance(error, WeftError):
        return 422, one_line(error)
    if isinstance(error, MemoryError) or "out of memory" in str(error) or "DefaultCPUAllocator" in str(error):
        return 413, "not enough memory for this request; send fewer or shorter texts, or search with a smaller beam"
    if is_device_error(error):
        return 503, "the device failed; the model is being loaded again"
    return 500, INTERNAL


def is_device_error(error: BaseException) -> bool:
    """Whether a GPU has failed in a way after which its results cannot be trusted."""
    if type(error).__name__ == "OutOfMemoryError":
        return False
    return type(error).__name__ == "AcceleratorError" or (
        isinstance(error, RuntimeError) and any(name in str(error) for name in ("CUDA error", "CUBLAS", "CUDNN_STATUS"))
    )


def main() -> None:
    """Answer on what was stdout; prints go to stderr."""
    pipes = message_pipes()
    try:
        Worker(*pipes).run()
    except BaseException as error:
        log_error(error, texts=False)
        os._exit(1)  # at an ordinary exit Python aborts, since a thread is reading stdin


if __name__ == "__main__":
    main()
