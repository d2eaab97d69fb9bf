"""Watching a run: a reader of the training loop's events. Everything goes to stderr."""

from __future__ import annotations

import time
from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TaskID, TextColumn, TimeRemainingColumn

if TYPE_CHECKING:
    from weft.training.events import Event, Started, Step, Validation

PLAIN_SECONDS = 10
"""Where there is no terminal, a line about so often."""


class Watcher:
    """Shows events as they pass: a bar on a terminal, a line now and then elsewhere."""

    def __init__(self, console: Console | None = None) -> None:
        self.console = console or Console(stderr=True, highlight=False, markup=False, emoji=False)
        self.bar: Progress | None = None
        self.task = TaskID(0)
        self.loss = 0.0
        self.speed = 0.0
        self.spoken = time.monotonic()
        self.steps = 0

    def __call__(self, events: Iterable[Event]) -> Iterator[Event]:
        """The same events, shown."""
        from weft.training.events import Finished, Skipped, Started, Step, Validation

        try:
            for event in events:
                if isinstance(event, Started):
                    self._prepared(event)
                elif isinstance(event, Step):
                    self._step(event)
                elif isinstance(event, Validation):
                    self._validation(event)
                elif isinstance(event, Skipped):
                    self.console.print(f"step {event.step}: loss not finite, update skipped", style="yellow")
                elif isinstance(event, Finished):
                    self._close()
                    why = "no gain any more" if event.reason == "patience" else "all steps done"
                    self.console.print(f"finished at step {event.step} in {event.seconds:.0f} s ({why})")
                    for reason, count in event.dropped.items():
                        self.console.print(f"left out: {count:,} {reason}")
                yield event
        finally:
            self._close()

    def _prepared(self, event: Started) -> None:
        left_out = "; ".join(f"{count:,} {reason}" for reason, count in event.dropped.items())
        pairs = f"{event.pairs:,} pairs" if event.pairs else "pairs as they are read"
        self.console.print(
            f"{pairs}{f' (left out: {left_out})' if left_out else ''}; {event.parameters:,} parameters; "
            f"vocabulary {event.source_vocabulary:,} / {event.target_vocabulary:,}; {event.device}"
        )
        self.steps = event.steps
        if self.console.is_terminal:
            self.bar = Progress(
                TextColumn("training"),
                BarColumn(),
                MofNCompleteColumn(),
                TextColumn("loss {task.fields[loss]:.3f}  {task.fields[speed]:,.0f} tokens/s  left"),
                TimeRemainingColumn(),
                console=self.console,
                transient=True,
            )
            self.task = self.bar.add_task("", total=event.steps, completed=event.step, loss=0.0, speed=0.0)
            self.bar.start()

    def _step(self, event: Step) -> None:
        speed = event.target_tokens / max(event.seconds, 1e-9)
        self.loss = event.loss if not self.loss else 0.95 * self.loss + 0.05 * event.loss
        self.speed = speed if not self.speed else 0.95 * self.speed + 0.05 * speed
        if self.bar is not None:
            self.bar.update(self.task, completed=event.step, loss=self.loss, speed=self.speed)
        elif time.monotonic() - self.spoken > PLAIN_SECONDS:
            self.spoken = time.monotonic()
            self.console.print(
                f"step {event.step}/{self.steps}: loss {self.loss:.3f}, {self.speed:,.0f} target tokens/s"
            )

    def _validation(self, event: Validation) -> None:
        extra = "".join(f", {name} {value:.2f}" for name, value in event.metrics.items())
        best = "  (best)" if event.is_best else ""
        self.console.print(f"step {event.step}: validation perplexity {event.perplexity:.3f}{extra}{best}")

    def _close(self) -> None:
        if self.bar is not None:
            self.bar.stop()
            self.bar = None
