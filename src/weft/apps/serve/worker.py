"""The worker process of a model: it loads a run, and answers the messages of the service.

Messages come in on stdin and go out on what was stdout; other output goes to stderr. There are two queues: long
operations do not keep the other requests waiting. An operation first declares what it costs, and is refused if that is
too much (costs.py); it ends when nobody waits for it any more. The process ends with stdin, or when it is told to.
"""

from __future__ import annotations

import os
import threading
import warnings
from collections.abc import Callable, Sequence
from contextlib import nullcontext, suppress
from queue import Empty, SimpleQueue
from typing import TYPE_CHECKING, Any, BinaryIO, cast

from weft.apps.serve.costs import CostError, megabytes
from weft.apps.serve.errors import log_error, one_line
from weft.apps.serve.memory import FEWEST_BYTES, give_back, limit_allocations, own_memory
from weft.errors import CheckpointError, WeftError, command_line, is_out_of_memory
from weft.runtime.processes import Message, message_pipes, read_message, to_json, write_message
from weft.runtime.switches import frozen_afterwards, set_thread_count, unfreeze_objects

if TYPE_CHECKING:
    from weft.apps.serve.worker_limits import CostControl
    from weft.translation.translator import Translator

QUEUES = ("batch", "long")
DEVICE_FAILED = 70
"""Exit code after an error of the device, whose results can no longer be trusted."""
INTERNAL = "an internal error; the service has logged it"
IDLE_SECONDS = 1.0
"""Seconds without a message after which memory is given back to the system."""


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
        self.control: CostControl | None = None

    def run(self) -> None:
        """Load the run, then answer until stdin ends."""
        first = read_message(self.stdin)
        if first is None:
            return
        self.config = first.payload()
        threading.Thread(target=self._read, daemon=True).start()
        with command_line():  # --device and --precision are options of `weft serve`
            self._load_and_report()
        for queue in ("long", *["batch"] * (self._parallel() - 1)):
            threading.Thread(target=self._serve, args=(queue,), daemon=True).start()
        if self.translator is not None:
            self.queues["long"].put(Message({"op": "examples", "id": 0}, []))
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
            self.control = self._control(self.translator)
            self._report()
        except Exception as error:
            self.translator = None
            self.send({"event": "failed"}, [to_json({"problem": self._load_problem(error)})])

    def _control(self, translator: Translator) -> CostControl:
        """The control of a model's costs. Its operations may use what the model leaves of the worker's memory."""
        from weft.apps.serve.worker_limits import CostControl
        from weft.runtime.devices import device_memory

        memory = self.config.get("memory")
        if memory is None:
            return CostControl(None, self.config, None, QUEUES)
        give_back()
        if translator.device.type != "cpu":
            return CostControl(translator, self.config, device_memory(translator.device), QUEUES)
        used = own_memory() or 0
        if memory - used < FEWEST_BYTES:
            needed = f"it takes {megabytes(used)}, and {megabytes(memory)} is its share of the service's memory"
            raise CheckpointError(f"{'+'.join(self.config['runs'])}: {needed}; raise the setting memory")
        limit_allocations(memory - used)
        return CostControl(translator, self.config, memory - used, QUEUES)

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
        info = {**model_info(translator), "parallel_searches": parallel}
        if self.control is not None and self.control.shape is not None:
            limits = translator.length_limits
            shape = self.control.shape._asdict()
            info["costs"] = {"shape": shape, "max_ratio": limits.max_ratio, "max_extra": limits.max_extra}
        self.send({"event": "ready"}, [to_json(info)])

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
            if translator.tokenizers.reads_arrays:
                cast(Any, translator.tokenizers.source).files = None  # a client's text must not make weft read a file
            if "max_output" in self.config:
                translator.length_limits = OutputLimits.of(translator.length_limits, self.config["max_output"])
            if translator.source_role != "none":
                with suppress(WeftError):  # a first search imports what is imported lazily
                    translator.translate("a", return_attention=False, max_length=2)
        return translator

    def _serve(self, queue: str) -> None:
        threads = self.threads // self._parallel() if queue == "batch" else self.threads
        set_thread_count(max(threads, 1))  # of searches in this thread
        if queue == "long" and self.translator is not None:
            from weft.apps.serve.worker_limits import lower_priority

            lower_priority()
        while True:
            message = self._next(queue)
            try:
                self._answer(message)
            except BaseException as error:
                self._fail(message, error)
            self.abandoned -= {entry for entry in self.abandoned.copy() if entry[0] == message.header["id"]}

    def _next(self, queue: str) -> Message:
        """The next message of a queue."""
        try:
            return self.queues[queue].get(timeout=IDLE_SECONDS)
        except Empty:
            give_back()
            return self.queues[queue].get()

    def _answer(self, message: Message) -> None:
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
        self.send({"id": number}, self._run(message.header, payload))

    def _controlled(self) -> CostControl:
        from weft.apps.serve.worker_limits import CostControl

        self.control = self.control or CostControl(None, self.config, None, QUEUES)
        return self.control

    def _run(self, header: dict[str, Any], payload: dict[str, Any]) -> list[bytes]:
        """The answer to an operation on its own; nothing, if nobody waits for it any more."""
        from weft.apps.serve import operations
        from weft.apps.serve.observation import Abandoned
        from weft.apps.serve.walk import walk
        from weft.apps.serve.worker_limits import Cancellation

        translator, control, number, op = self.translator, self._controlled(), header["id"], header["op"]
        queue = header.get("queue", "batch")
        assert translator is not None
        payload = control.within({**payload, "attention": True} if op == "stream" else payload, queue)

        def is_abandoned() -> bool:
            return (number, -1) in self.abandoned

        def score() -> list[bytes]:
            parts = control.parts_of_pairs(payload, queue)
            return [body for part in parts for body in operations.score(translator, part)]

        def stream() -> list[bytes]:
            def send(name: str, data: Any) -> None:
                self.send({"id": number, "event": name}, [to_json(data)])

            operations.stream(translator, payload, send, is_abandoned)
            return []

        computations: dict[str, Callable[[], list[bytes]]] = {
            "score": score,
            "stream": stream,
            "heads": lambda: [operations.heads(translator, payload, is_abandoned)],
            "walk": lambda: [walk(translator, payload, is_abandoned)],
            "tokens": lambda: [operations.tokens(translator, payload)],
            "neighbors": lambda: [operations.neighbors(translator, payload)],
            "positions": lambda: [operations.positions(translator, payload)],
        }
        steps = op == "stream" and queue == "batch"  # each of which asks
        with suppress(Abandoned), nullcontext() if steps else Cancellation(is_abandoned):
            return control.run(op, payload, queue, is_abandoned, computations[op])
        return []

    def _translate(self, message: Message) -> None:
        """Rows of several requests that are searched together: a result or an error for each."""
        number, queue = message.header["id"], message.header.get("queue", "batch")
        payload = self._controlled().within(message.payload(), queue)
        texts = payload["texts"]
        errors: dict[int, tuple[int, str]] = {}
        results: list[bytes] = [b"null"] * len(texts)

        def is_abandoned(row: int) -> bool:
            return (number, row) in self.abandoned or (number, -1) in self.abandoned

        def translate(rows: list[int]) -> None:
            rows = [row for row in rows if not is_abandoned(row)]
            if not rows:
                return
            observer = BatchObserver(lambda sentence: is_abandoned(rows[sentence]))
            try:
                part = {**payload, "texts": [texts[row] for row in rows]}
                records = self._search(part, queue, observer)
            except Exception as error:  # of one row: the others, of other clients perhaps, are searched without it
                if is_device_error(error):
                    raise
                if len(rows) > 1:
                    translate(rows[: len(rows) // 2])
                    translate(rows[len(rows) // 2 :])
                else:
                    errors[rows[0]] = self._problem(error)
            else:
                for row, result in zip(rows, records, strict=True):
                    results[row] = result

        translate(list(range(len(texts))))
        self.send({"id": number, "errors": errors}, results)

    def _search(self, payload: dict[str, Any], queue: str, observer: BatchObserver) -> list[bytes]:
        """The records of texts that are searched together; of none, if nobody waits for any of them."""
        from weft.apps.serve import operations
        from weft.apps.serve.limits import EXACT
        from weft.apps.serve.observation import Abandoned
        from weft.apps.serve.worker_limits import Cancellation

        translator, count = self.translator, len(payload["texts"])
        assert translator is not None
        exact = payload.get("search", {}).get("kind") in EXACT
        observed = translator.device.type == "cpu" or exact  # steps that are observed cannot be recorded as CUDA graphs

        def all_abandoned() -> bool:
            return bool(self.abandoned) and all(map(observer.is_abandoned, range(count)))

        def compute() -> list[bytes]:
            return operations.translate(translator, payload, observer if observed else None)

        # the steps of a batch ask the observer, which costs less
        with suppress(Abandoned), Cancellation(all_abandoned) if observed and queue == "long" else nullcontext():
            return self._controlled().run("translate", payload, queue, all_abandoned, compute)
        return [b"null"] * count

    def _reload(self, number: int) -> None:
        """Replace the model by what the run folder holds now; the old one answers until then."""
        try:
            unfreeze_objects()  # so that what the old model refers to can be freed
            limit_allocations(None)  # for a while there are two
            translator = self._load()
        except Exception as error:
            if is_device_error(error):
                raise
            raise CheckpointError(self._load_problem(error)) from None
        self.translator, self.control = translator, self._control(translator)
        self._report()
        self.queues["long"].put(Message({"op": "examples", "id": 0}, []))
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
