"""Training progress on stderr: a reader of the training loop's events."""

from __future__ import annotations

import time
from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TaskID, TextColumn, TimeRemainingColumn

from weft.cli.length_limit import cut_off_outputs

if TYPE_CHECKING:
    from weft.training.events import Averaged, Event, Started, Step, Validation

PLAIN_SECONDS = 10
"""Seconds between lines if stderr is not a terminal."""


class ProgressReporter:
    """Shows events as they pass: a progress bar on a terminal, else a line every few seconds."""

    def __init__(self, console: Console | None = None) -> None:
        self.console = console or Console(stderr=True, highlight=False, markup=False, emoji=False)
        self.bar: Progress | None = None
        self.task = TaskID(0)
        self.loss = 0.0
        self.speed = 0.0
        self.reported = time.monotonic()
        self.steps = 0

    def __call__(self, events: Iterable[Event]) -> Iterator[Event]:
        """The same events, shown."""
        from weft.training.events import Averaged, Finished, Skipped, Started, Step, Validation

        try:
            for event in events:
                if isinstance(event, Started):
                    self._started(event)
                elif isinstance(event, Step):
                    self._step(event)
                elif isinstance(event, Validation):
                    self._validation(event)
                elif isinstance(event, Averaged):
                    self._averaged(event)
                elif isinstance(event, Skipped):
                    self.console.print(f"step {event.step}: loss not finite, update skipped", style="yellow")
                elif isinstance(event, Finished):
                    self._close()
                    reason = "no further improvement" if event.reason == "patience" else "all steps done"
                    self.console.print(f"finished at step {event.step} in {event.seconds:.0f} s ({reason})")
                    for drop_reason, count in event.dropped.items():
                        self.console.print(f"dropped: {count:,} {drop_reason}")
                yield event
        finally:
            self._close()

    def _started(self, event: Started) -> None:
        dropped = "; ".join(f"{count:,} {reason}" for reason, count in event.dropped.items())
        pairs = f"{event.pairs:,} pairs" if event.pairs else "streamed pairs"
        self.console.print(
            f"{pairs}{f' (dropped: {dropped})' if dropped else ''}; {event.parameters:,} parameters; "
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
        elif time.monotonic() - self.reported > PLAIN_SECONDS:
            self.reported = time.monotonic()
            self.console.print(
                f"step {event.step}/{self.steps}: loss {self.loss:.3f}, {self.speed:,.0f} target tokens/s"
            )

    def _validation(self, event: Validation) -> None:
        best = "  (best)" if event.is_best else ""
        self.console.print(f"step {event.step}: {_scores(event)}{best}")
        if cut_off := cut_off_outputs(event.ended_by_length, event.outputs):
            self.console.print(f"step {event.step}: {cut_off}")

    def _averaged(self, event: Averaged) -> None:
        steps = ", ".join(map(str, event.steps))
        choice = "better than the best of them" if event.is_best else "worse than the best of them, which is kept"
        self.console.print(f"mean of steps {steps}: {_scores(event)}  ({choice})")

    def _close(self) -> None:
        if self.bar is not None:
            self.bar.stop()
            self.bar = None


def _scores(event: Validation | Averaged) -> str:
    metrics = "".join(f", {name} {value:.2f}" for name, value in event.metrics.items())
    return f"validation perplexity {event.perplexity:.3f}{metrics}"
