"""How fast training is on this machine, measured on a copy of the model that is then discarded.

The updates are the first of the run, on its own batches and by its own kernels, so that nothing is compiled for the
measurement alone. They leave no trace: a run that was measured is the same as one that was not.
"""

from __future__ import annotations

import copy
import gc
import tempfile
import time
from collections.abc import Callable
from statistics import fmean, median
from typing import NamedTuple

import torch

from weft.data.batching.batches import BatchSource
from weft.data.batching.streaming import StreamedCorpus
from weft.models.interface import Model
from weft.pairs.time_limit.budget import Speed
from weft.runs.layout import RunFolder
from weft.runtime.activity import activity
from weft.training.trainer import Trainer
from weft.training.update import TrainingContext
from weft.training.validation import RecipeValidation

MIN_UPDATES = 30
SKIPPED_UPDATES = 2
"""The first updates do not count: they allocate memory."""
OUTLIER = 4.0
"""Updates that take this many times the median do not count either: they capture a CUDA graph."""
MAX_TIMES = 4
"""Updates, the loss and translations are each measured for at most this many times the given seconds, unless the
smallest measurement (a few updates, pairs or sentences) takes longer."""
FEWEST_UPDATES = 2
FIRST_PAIRS = 32
FIRST_SENTENCES = 4
EXACT = ("exact", "exhaustive")
"""Searches that refuse a minimum length."""
LONG_ENOUGH = 1.0
"""Seconds of translation that are enough to tell how long a sentence takes."""


class UpdateSpeed(NamedTuple):
    """Seconds of an update, and what the first updates took in addition."""

    step: float
    startup: float


class MeasuredRun(NamedTuple):
    """The updates and validations to measure."""

    model: Model
    data: BatchSource
    context: TrainingContext
    validation: RecipeValidation | None


def measure(run: MeasuredRun, *, seconds: float, translates: bool) -> Speed:
    """Measure updates for some seconds (up to `MAX_TIMES` as long if there were few in them), and a validation.

    ``translates``: also measure how long translations take, which need the validation set.
    """
    data, validation, device = run.data, run.validation, run.context.device
    dropped = data.drop_reasons.copy() if isinstance(data, StreamedCorpus) else None
    with activity("measuring the speed"), tempfile.TemporaryDirectory() as folder:
        trainer = Trainer(copy.deepcopy(run.model), data, run.context, folder=RunFolder(folder))
        updates = update_speed(_timed_updates(trainer, seconds))
        speed = Speed(updates.step, updates.startup)
        if validation is not None:
            model = trainer.model.eval()
            speed = speed._replace(loss=_loss_seconds(model, validation, seconds))
            if translates:
                speed = speed._replace(sentence=_sentence_seconds(model, validation, seconds))
        del trainer
    if isinstance(data, StreamedCorpus) and dropped is not None:
        data.drop_reasons.clear()
        data.drop_reasons.update(dropped)
    gc.collect()
    if device.type == "cuda":
        torch.cuda.empty_cache()
    return speed


def _timed_updates(trainer: Trainer, seconds: float) -> list[float]:
    """The durations of at least `MIN_UPDATES` updates, for at least ``seconds``, but not `MAX_TIMES` as long.

    On a GPU the time starts after the first updates, in which layers may be compiled.
    """
    on_gpu = trainer.context.device.type == "cuda"
    steps, pending, durations = trainer.steps(), None, []
    start = last = time.monotonic()
    while True:
        pending, reported = trainer.start_update(steps), pending
        if reported is not None:
            trainer.report(reported)
            now = time.monotonic()
            durations.append(now - last)
            last = now
            if on_gpu and len(durations) <= SKIPPED_UPDATES:
                start = now
                continue
            enough = len(durations) >= MIN_UPDATES and now - start >= seconds
            too_long = len(durations) >= FEWEST_UPDATES and now - start >= MAX_TIMES * seconds
            if enough or too_long:
                trainer.report(pending)
                return durations


def update_speed(durations: list[float]) -> UpdateSpeed:
    """The typical duration of an update, and the time beyond it that the first ones took."""
    later = durations[SKIPPED_UPDATES:] or durations[-1:]
    typical = fmean(duration for duration in later if duration <= OUTLIER * median(later))
    return UpdateSpeed(typical, max(sum(durations) - typical * len(durations), 0.0))


def _loss_seconds(model: Model, validation: RecipeValidation, seconds: float) -> float:
    """Seconds for the loss of the validation set; if that is long, estimated from a few of its pairs."""
    pairs = len(validation.encoded)
    count = min(FIRST_PAIRS, pairs)
    elapsed = _second_duration(lambda: validation.loss(model, count))
    estimate = elapsed * pairs / count
    if count == pairs or estimate > MAX_TIMES * seconds:
        return estimate
    start = time.monotonic()
    validation.loss(model)
    return time.monotonic() - start


def _sentence_seconds(model: Model, validation: RecipeValidation, seconds: float) -> float:
    """Seconds per translated sentence, with outputs as long as the references.

    The length is forced, because an untrained model ends its outputs at random.
    """
    search, all_sentences = validation.recipe.search, len(validation.items.sources)
    length = max(round(float(validation.encoded.target.lengths.mean())), 1)
    length = min(length, search.max_length or length)
    lengths = {"max_length": length, "min_length": length - 1} if search.kind not in EXACT else {}
    count = min(FIRST_SENTENCES, all_sentences)
    elapsed = _second_duration(lambda: validation.translate(model, count, **lengths))
    if elapsed > MAX_TIMES * seconds / 2:  # there is no time for more
        return elapsed / count
    while True:
        elapsed = _second_duration(lambda: validation.translate(model, count, **lengths))  # noqa: B023
        if count >= all_sentences or elapsed > min(LONG_ENOUGH, seconds / 2):
            return elapsed / count
        count = min(2 * count, all_sentences)


def _second_duration(call: Callable[[], object]) -> float:
    """Seconds of the second of two calls: what the first one compiles and captures does not count.

    On a GPU that takes seconds, which would be taken for the cost of every sentence.
    """
    call()
    start = time.monotonic()
    call()
    return time.monotonic() - start
