"""TensorBoard logs, if it is installed: a reader of the training loop's events."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from weft.training.events import Event


def with_tensorboard(events: Iterable[Event], folder: Path) -> Iterator[Event]:
    """The same events, also written to ``folder/tensorboard`` if the package is installed."""
    from weft.training.events import Step, Validation

    try:
        from torch.utils.tensorboard import SummaryWriter
    except ImportError:
        yield from events
        return
    writer = None
    for event in events:
        if writer is None:  # the run folder exists from the first event on
            writer = SummaryWriter(str(folder / "tensorboard"))
        if isinstance(event, Step):
            writer.add_scalar("train/loss", event.loss, event.step)
            writer.add_scalar("train/learning_rate", event.learning_rate, event.step)
        elif isinstance(event, Validation):
            writer.add_scalar("valid/loss", event.loss, event.step)
            for name, value in event.metrics.items():
                writer.add_scalar(f"valid/{name}", value, event.step)
        yield event
    if writer is not None:
        writer.close()
