"""A run that must stop because memory is not enough has saved a checkpoint."""

from __future__ import annotations

from collections.abc import Generator
from typing import TYPE_CHECKING

from weft.errors import TrainingError, is_out_of_memory
from weft.runs.weights import resume_command
from weft.training.events import Event

if TYPE_CHECKING:
    from weft.training.trainer import Trainer


def saved_if_out_of_memory(trainer: Trainer) -> Generator[Event, None, None]:
    """The events of a run. If memory is not enough even for a single pair, it is saved first, and one line says so."""
    try:
        yield from trainer.events()
    except Exception as error:
        if not is_out_of_memory(error):
            raise
        trainer.save_unfinished()
        yield from trainer.unread
        trainer.unread.clear()
        step, run = trainer.saved_step, trainer.folder.path
        raise TrainingError(
            f"step {trainer.progress.step + 1}: not enough memory on {trainer.context.device}, even for one pair at a "
            f"time; {run} is saved at step {step}; free some memory, which other processes may hold, and continue "
            f"with: {resume_command(run)}"
        ) from error
