"""The training loop: an iterator of events. It prints nothing and knows nothing of text.

One update: the loss of ``accumulate`` batches, averaged over their target tokens; gradients clipped to a norm; one
step of the optimizer at the scheduled learning rate. An update whose loss or gradient is not finite is skipped and
counted; too many in a row end the run, with the last good state saved. With several workers (distributed.py) every one
of them runs this loop; the main process validates, writes files and takes the decisions.
"""

from __future__ import annotations

import math
import signal
import sys
import time
from collections.abc import Generator, Iterator

import torch

from weft.data.batching.augmented import with_augmentation
from weft.data.batching.batches import BatchSource, StepBatches, draw_steps
from weft.data.batching.prefetch import prefetch
from weft.data.batching.word_dropout import with_word_dropout
from weft.errors import TrainingError
from weft.models.interface import Model
from weft.runs.layout import Checkpoint, RunFolder
from weft.runs.weights import Tensors, WeightsOrigin, average, load_weights, model_tensors, read_tensors, write_tensors
from weft.training.distributed import full_tensor
from weft.training.events import Averaged, Event, Finished, Interrupted, Saved, Skipped, Step, Validation
from weft.training.forcing import sampling_probability
from weft.training.interruption import SignalHold
from weft.training.moving_average import PREFIX, MovingAverage
from weft.training.optimizer import (
    make_optimizer,
    make_schedule,
    optimizer_tensors,
    restore_optimizer,
    restore_rng,
    rng_tensors,
)
from weft.training.progress import Progress
from weft.training.update import PendingUpdate, TrainingContext, make_update
from weft.training.validation import Validate, Validator

MAX_CONSECUTIVE_SKIPS = 5
"""Skipped updates in a row that end a run."""


class Trainer:
    """A training run: the model, the data, the optimizer and the progress. Iterate over `events`."""

    def __init__(
        self,
        model: Model,
        data: BatchSource,
        context: TrainingContext,
        *,
        folder: RunFolder,
        validate: Validate | None = None,
        deadline: float = math.inf,
    ) -> None:
        """``deadline``: the time (`time.monotonic`) after which no update is started."""
        self.data = data
        self.context = context
        self.settings = context.settings
        self.workers = context.workers
        self.folder = folder
        self.sharded = self.workers.world_size > 1 and self.settings.shard == "full"
        self.in_loop = False
        """Whether all workers are in the loop, and wait for each other."""
        self.model = model if self.sharded else model.to(context.device)
        self.validator = None if validate is None else Validator(validate, self.model, context.device)
        self.optimizer = make_optimizer(self.model, self.settings)
        self.moving_average = MovingAverage(self.model, self.settings.ema) if self.settings.ema else None
        self.schedule = make_schedule(self.settings)
        self.progress = Progress(validated_step=0)
        self.delivered = self.progress.origin(self.settings)
        """The weights in model.safetensors, once training has ended."""
        self.signals = SignalHold()
        self.pending: PendingUpdate | None = None
        """The update in flight."""
        self.unread: list[Event] = []
        """Events after the consumer has closed the generator."""
        self.saved_step = -1
        self.save_time, self.save_seconds = time.monotonic(), 0.0
        """When the last checkpoint was written, and how long that took."""
        self.deadline = deadline
        self.consecutive_skips = 0
        self.last_report_time = 0.0
        self.update = make_update(self.model, self.optimizer, context, data.corpus_size)
        torch.manual_seed(context.seed)

    def restore(self) -> None:
        """Restore the newest checkpoint of the folder."""
        checkpoint = self.folder.read_checkpoint()
        where = str(checkpoint.path)
        load_weights(self.model, checkpoint.weights, where=where)
        tensors = checkpoint.optimizer
        rng = {name: tensor for name, tensor in tensors.items() if name.startswith("random.")}
        averages = {name: tensor for name, tensor in tensors.items() if name.startswith(PREFIX)}
        state = {name: tensor for name, tensor in tensors.items() if name not in rng and name not in averages}
        restore_optimizer(self.optimizer, state, where=where)
        restore_rng(rng, where=where)
        if self.moving_average is not None:
            self.moving_average.restore(averages, where=where)
        self.progress = Progress.restored(checkpoint.state, where=where)
        self.saved_step = self.progress.step
        if self.workers.is_main:
            self.folder.prune(self.progress.step, self.progress.best_steps)

    def save(self, to: RunFolder | None = None) -> Saved:
        """Write a checkpoint and, as long as there is no validated one, model.safetensors.

        In the loop all workers must call this; before it, the main process writes what the others will read.
        ``to``: another run folder than that of the run.
        """
        folder, progress, start_time = to or self.folder, self.progress, time.monotonic()
        if self.workers.is_main or self.sharded:
            weights = self._gathered(model_tensors(self.model))
            averages = {} if self.moving_average is None else self.moving_average.checkpoint_tensors()
            tensors = {**self._gathered(optimizer_tensors(self.optimizer)), **averages, **rng_tensors()}
        if self.workers.is_main:
            self._check_finite(weights)
            if not progress.best or self.settings.choose == "last":
                self._write_model(self._averaged(weights), progress.origin(self.settings), folder)
            folder.write_checkpoint(progress.step, Checkpoint(weights, tensors, progress.model_dump()))
            folder.prune(progress.step, progress.best_steps)
        if self.in_loop and self.workers.world_size > 1:
            self.workers.barrier()
        self.saved_step = progress.step
        self.save_time = time.monotonic()
        self.save_seconds = self.save_time - start_time
        return Saved(progress.step, str(folder.checkpoint_path(progress.step)))

    def _write_model(self, weights: Tensors, origin: WeightsOrigin, folder: RunFolder) -> None:
        """Write the weights to use: those of the model, or of the adapter that is trained."""
        if self.settings.lora.rank:
            from weft.runs.adapters import write_trained

            write_trained(folder, self.model, self.settings.lora, weights, origin)
        else:
            folder.write_model(weights, origin)

    def _check_finite(self, weights: Tensors) -> None:
        """End the run, as it was last saved, if a weight is not finite: a high learning rate alone can cause that."""
        if all(tensor.isfinite().all() for tensor in weights.values()):
            return
        saved = f"; {self.folder.path} stays as it was saved at step {self.saved_step}" if self.saved_step >= 0 else ""
        raise TrainingError(
            f"step {self.progress.step}: the weights are no longer finite{saved}; "
            "lower training.learning_rate or training.clip and use --resume"
        )

    def _gathered(self, tensors: Tensors) -> Tensors:
        """Whole tensors, in the main process; a collective operation if they are sharded."""
        if not self.sharded:
            return tensors
        gathered = {}
        for name, tensor in tensors.items():
            full = full_tensor(tensor)
            if self.workers.is_main:
                gathered[name] = full if full is tensor else full.cpu()
        return gathered

    def _averaged(self, weights: Tensors) -> Tensors:
        """The weights to validate and to deliver: those given, or with training.ema their moving average."""
        return weights if self.moving_average is None else {**weights, **self.moving_average.averages}

    def events(self) -> Generator[Event, None, None]:
        """Train to the end.

        A signal that is to end the process (see interruption.py), or closing this generator, saves a checkpoint first.
        """
        loop = self._loop()
        try:
            while True:
                with self.signals.holding():
                    event = next(loop, None)
                if event is None:
                    break
                yield event
                if isinstance(event, Interrupted):
                    self.signals.deliver(signal.Signals[event.signal])
        except GeneratorExit:
            self.save_unfinished()
            raise
        if self.signals.pending:
            self.signals.deliver(self.signals.pending)

    def _loop(self) -> Iterator[Event]:
        """The events of all steps.

        An update that is computed on a GPU (``deferred``) stays in flight while the next one is started, so that the
        GPU never waits; its event follows then. Whatever needs the weights (validating, saving, stopping) waits for it.
        """
        progress = self.progress
        self.in_loop = True
        if self.sharded:
            from weft.training.sharded_update import shard_training

            shard_training(self)
        steps = self.steps()
        self.save_time = time.monotonic()
        start_time = time.monotonic() - progress.seconds
        while True:
            interruption, save_now = self._agree()
            reason = self._stop_reason()
            is_delivered = bool(reason) and self.settings.choose == "last"
            validating = self._validation_is_due(at_once=reason == "time" or is_delivered)
            saving = save_now or self._save_is_due()
            if self.pending and (not self.pending.result.deferred or validating or saving or interruption or reason):
                yield from self._report_pending()
                progress.seconds = time.monotonic() - start_time
            if interruption:
                yield from self._interrupt(interruption)
                continue
            if validating:
                if (validation := self._run_validation()) is None:
                    continue
                yield validation
                reason = self._stop_reason()
            if saving:
                yield self.save()
            if reason:
                break
            reported, self.pending = self.pending, self.start_update(steps)
            progress.seconds = time.monotonic() - start_time
            if reported is not None:
                yield self.report(reported)
                self._check_skips(reported)
        if self.saved_step != progress.step:
            yield self.save()
        yield from self._deliver(reason)

    def _deliver(self, reason: str) -> Iterator[Event]:
        """Choose the final weights as training.choose says: the better of the best checkpoint and the mean of the best
        ones, the best, or the last."""
        progress = self.progress
        self.delivered = progress.origin(self.settings)
        if self.validator and len(progress.best) > 1 and self.settings.averages:
            while (averaged := self._validate_mean()) is None:
                yield from self._interrupt(self._agree()[0])
            yield averaged
        best_step = progress.best[0].step if progress.best else progress.step
        yield Finished(progress.step, reason, progress.seconds, best_step, self.delivered.kind, self.delivered.steps)

    def _report_pending(self) -> Iterator[Event]:
        """Wait for the update in flight and yield its event."""
        assert self.pending is not None
        pending, self.pending = self.pending, None
        yield self.report(pending)
        self._check_skips(pending)

    def _agree(self) -> tuple[int, bool]:
        """The signal that has arrived, or 0, and whether it is time for a checkpoint; the same for all workers.

        The time between checkpoints is training.save_minutes, or longer if saving would take more than 2 % of it.
        """
        interval = max(60 * self.settings.save_minutes, 50 * self.save_seconds)
        elapsed = time.monotonic() - self.save_time
        due = self.workers.is_main and self.settings.save_minutes > 0 and elapsed >= interval
        interruption, save_now = self.signals.pending, int(due)
        if self.workers.world_size > 1:
            interruption, save_now = self.workers.maximum(interruption, save_now)
        return interruption, bool(save_now) and self.saved_step != self.progress.step

    def _stop_reason(self) -> str:
        """The reason why training ends now; empty if it continues. A time limit allows at least one update."""
        is_late = self.progress.step > 0 and time.monotonic() >= self.deadline
        return self.progress.stop_reason(self.settings) or ("time" if is_late else "")

    def _validation_is_due(self, *, at_once: bool) -> bool:
        every, step = self.settings.validate_every, self.progress.step
        is_due = every and (at_once or step % every == 0)
        return bool(self.validator and is_due and step != self.progress.validated_step)

    def _save_is_due(self) -> bool:
        every, step = self.settings.save_every, self.progress.step
        return bool(every and step and step % every == 0 and self.saved_step != step)

    def _interrupt(self, number: int) -> Iterator[Event]:
        """Save before a signal takes effect, which it does after the last of these events."""
        if self.saved_step != self.progress.step:
            yield self.save()
        path = str(self.folder.checkpoint_path(self.progress.step))
        yield Interrupted(self.progress.step, signal.Signals(number).name, path)

    def save_unfinished(self) -> None:
        """Save a run that ends before its time. Several workers would have to do that together."""
        if self.workers.world_size > 1 or self.saved_step == self.progress.step or sys.is_finalizing():
            return
        self.unread += [*self._report_pending()] if self.pending else []
        self.unread.append(self.save())

    def steps(self) -> Iterator[StepBatches]:
        """The batches of each step that this worker computes."""
        settings, progress, context = self.settings, self.progress, self.context
        steps = draw_steps(
            self.data.batches(settings.batch_tokens, seed=context.seed, start=progress.position),
            first_step=progress.step + 1,
            batches_per_step=settings.accumulate,
            rank=self.workers.rank,
            world_size=self.workers.world_size,
        )
        if settings.word_dropout:
            steps = with_word_dropout(steps, settings.word_dropout, seed=context.seed, protected=context.protected_ids)
        trainings = self.workers.world_size if context.device.type == "cuda" else 0  # batches are made ahead of a GPU
        if settings.augmentation != type(settings.augmentation)():
            steps = with_augmentation(steps, settings.augmentation, seed=context.seed, trainings=trainings)
        return prefetch(steps) if trainings else steps

    def start_update(self, steps: Iterator[StepBatches]) -> PendingUpdate:
        settings, progress, start_time = self.settings, self.progress, time.monotonic()
        batches = next(steps)
        data_wait = time.monotonic() - start_time
        if not self.model.training:  # not every time: `train` visits all modules
            self.model.train()
        step = batches.step
        learning_rate = settings.learning_rate * self.schedule(step) * progress.learning_rate_decay(settings)
        sampled = 0.0 if settings.forcing == "teacher" else sampling_probability(settings, step)
        result = self.update(batches, learning_rate=learning_rate, sampling_probability=sampled)
        if self.moving_average is not None:
            self.moving_average.update(step)
        progress.advance(step, batches.position)
        return PendingUpdate(result, batches, learning_rate, start_time, data_wait)

    def _check_skips(self, update: PendingUpdate) -> None:
        """End the run if too many updates in a row were skipped, this one being the last."""
        if self.consecutive_skips < MAX_CONSECUTIVE_SKIPS:
            return
        if self.saved_step != self.progress.step:
            self.save()
        raise TrainingError(
            f"step {update.batches.step}: the loss was not finite {self.consecutive_skips} times in a row; the last "
            f"good weights are saved in {self.folder.path}; lower training.learning_rate or training.clip and use "
            "--resume"
        )

    def report(self, update: PendingUpdate) -> Step | Skipped:
        """The event of an update. Its duration starts at the previous report if that was after its own start."""
        batches, statistics = update.batches, update.result.statistics()
        seconds = time.monotonic() - max(update.start_time, self.last_report_time)
        self.last_report_time = time.monotonic()
        if statistics.is_finite:
            self.consecutive_skips = 0
            return Step(
                step=batches.step,
                loss=statistics.loss,
                learning_rate=update.learning_rate,
                grad_norm=statistics.grad_norm,
                source_tokens=batches.source_tokens,
                target_tokens=batches.target_tokens,
                seconds=seconds,
                data_wait=update.data_wait,
                epoch=batches.epoch,
            )
        self.progress.skipped += 1
        self.consecutive_skips += 1
        return Skipped(batches.step, self.consecutive_skips)

    def _run_validation(self) -> Validation | None:
        """Validate the model, and keep its weights if they are among the best; None if a signal has arrived."""
        progress, validator = self.progress, self.validator
        assert validator is not None
        weights = self._averaged(self._gathered(model_tensors(self.model)))
        validate = validator.scores if self.moving_average is None else validator.scores_of_other
        scores = self.workers.from_main(lambda: self.signals.interruptible(lambda: validate(weights)))
        if scores is None:
            return None
        is_best = progress.add_validation(scores.score, self.settings, scores.numbers)
        if progress.step in progress.best_steps and self.workers.is_main:
            write_tensors(self.folder.best_file(progress.step), weights)
        if (is_best or self.settings.choose == "last") and self.workers.is_main:
            self._write_model(weights, progress.origin(self.settings), self.folder)
        progress.validation_sample = scores.sample
        counts = (scores.outputs, scores.ended_by_length, scores.sample, scores.structural or {})
        return Validation(progress.step, scores.loss, scores.perplexity, scores.metrics, is_best, *counts)

    def _validate_mean(self) -> Averaged | None:
        """Validate the mean of the best checkpoints; model.safetensors := the better of it and the best.

        If scores are equal, the lower loss wins. A resumed run repeats this with the same result. None if a signal
        has arrived in the meantime.
        """
        best, steps, validator = self.progress.best, self.progress.best_steps, self.validator
        assert validator is not None
        mean: Tensors = {}
        if self.workers.is_main:
            mean = average([read_tensors(self.folder.best_file(step)).tensors for step in steps])
        scores = self.workers.from_main(lambda: self.signals.interruptible(lambda: validator.scores_of_other(mean)))
        if scores is None:
            return None
        best_loss = (best[0].validation or {}).get("loss", math.inf)
        is_best = (scores.score, -scores.loss) > (best[0].score, -best_loss)
        if is_best:
            self.delivered = WeightsOrigin("mean", tuple(sorted(steps)), scores.numbers)
        if self.workers.is_main:
            weights = mean if is_best else read_tensors(self.folder.best_file(best[0].step)).tensors
            self._write_model(weights, self.delivered, self.folder)
        numbers = scores.loss, scores.perplexity, scores.metrics, is_best, scores.structural or {}
        return Averaged(self.progress.step, tuple(sorted(steps)), *numbers)
