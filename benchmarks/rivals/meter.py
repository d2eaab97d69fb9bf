"""Counts the tokens of a toolkit's training loop while it runs."""

import time
from collections import Counter
from collections.abc import Callable


class TimeUpError(Exception):
    """Ends the toolkit's training loop."""


class Meter:
    """Counts what passes between the beginnings of steps, in windows of some seconds, after a few steps to warm up."""

    def __init__(self, warmup: int, seconds: float, window: float):
        self.warmup, self.seconds, self.window = warmup, seconds, window
        self.steps = 0
        self.learning: dict[int, int] = {}  # the parameters that get a gradient, and their sizes
        self.windows: list[tuple[float, Counter]] = []  # how long it took, what it held
        self.opened: float | None = None
        self.busy = 0.0  # CPU time when the window was opened
        self.counts: Counter = Counter()

    def step(self, model, target: int, source: int, slots: int, sentences: int) -> None:
        """A step over this many target and source tokens, in so many places of both (pads included), begins now."""
        now = time.perf_counter()
        if not self.steps:
            self.watch(model)
        if self.steps == self.warmup:
            self.open(now)
        if self.opened is not None and now - self.opened >= self.window:
            self.counts["busy"] = time.process_time() - self.busy
            self.windows.append((now - self.opened, self.counts))
            self.open(now)
        if sum(length for length, _ in self.windows) >= self.seconds:
            raise TimeUpError
        self.steps += 1
        self.counts.update(target=target, source=source, slots=slots, sentences=sentences, steps=1)

    def watch(self, model) -> None:
        """Count the parameters that learn: tables of sines, or copies kept for decoding, may be parameters too."""

        def count(parameter) -> None:
            self.learning[id(parameter)] = parameter.numel()
            watchers.pop(id(parameter)).remove()

        learners = [parameter for parameter in model.parameters() if parameter.requires_grad]
        watchers = {id(one): one.register_post_accumulate_grad_hook(count) for one in learners}

    def open(self, now: float) -> None:
        self.opened, self.busy, self.counts = now, time.process_time(), Counter()

    def report(self) -> dict:
        length = sum(seconds for seconds, _ in self.windows)
        total = sum((counts for _, counts in self.windows), Counter())
        return {
            "parameters": sum(self.learning.values()),
            "target_tokens_per_second": round(total["target"] / length, 1),
            "windows": [round(counts["target"] / seconds, 1) for seconds, counts in self.windows],
            "source_tokens_per_second": round(total["source"] / length, 1),
            "cores": round(total["busy"] / length, 2),
            "window_cores": [round(counts["busy"] / seconds, 2) for seconds, counts in self.windows],
            "target_tokens_per_cpu_second": round(total["target"] / total["busy"], 1),
            "pads": round(1 - (total["target"] + total["source"]) / total["slots"], 4),
            "steps": total["steps"],
            "target_tokens_per_step": round(total["target"] / total["steps"], 1),
            "sentences_per_step": round(total["sentences"] / total["steps"], 1),
        }


def before(owner: type, method: str, note: Callable) -> None:
    """Have `note` see the arguments of every call of a method first."""
    original = getattr(owner, method)

    def wrapped(*args, **kwargs):
        note(*args, **kwargs)
        return original(*args, **kwargs)

    setattr(owner, method, wrapped)
