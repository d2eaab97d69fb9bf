"""TensorBoard logs, if it is installed: a reader of the training loop's events."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from weft.training.events import Event


def with_tensorboard(events: Iterator[Event], folder: Path) -> Iterator[Event]:
    """Pass the events on, and write them to ``folder/tensorboard`` if the package is installed."""
    writer_class = _import_writer()  # handled there: its ImportError must not precede the traceback of a later error
    return events if writer_class is None else _written(events, writer_class, folder)


def _import_writer() -> Any:
    try:
        from torch.utils.tensorboard import SummaryWriter
    except ImportError:
        return None
    return SummaryWriter


def _written(events: Iterator[Event], writer_class: Any, folder: Path) -> Iterator[Event]:
    from weft.pairs.race.events import RaceEvent
    from weft.training.events import Step, Validation

    writer: Any = None
    try:
        for event in events:
            if writer is None and not isinstance(event, RaceEvent):  # the run folder exists from then on
                writer = writer_class(str(folder / "tensorboard"))
            if isinstance(event, Step):
                writer.add_scalar("train/loss", event.loss, event.step)
                writer.add_scalar("train/learning_rate", event.learning_rate, event.step)
            elif isinstance(event, Validation):
                writer.add_scalar("valid/loss", event.loss, event.step)
                for name, value in event.metrics.items():
                    writer.add_scalar(f"valid/{name}", value, event.step)
                for name, value in event.structural.items():
                    writer.add_scalar(f"structure/{name}", value, event.step)
            yield event
    finally:
        if writer is not None:
            writer.close()
