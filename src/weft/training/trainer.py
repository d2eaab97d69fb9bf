"""The training loop: an iterator of events. It prints nothing and knows nothing of text.

One update: the loss of ``accumulate`` batches, averaged over their target tokens; gradients clipped to a norm; one
step of the optimizer at the scheduled learning rate. An update whose loss or gradient is not finite is skipped and
counted; too many in a row end the run, with the last good state saved. With several workers (distributed.py) every one
of them runs this loop; the main process validates, writes files and takes the decisions.
"""

from __future__ import annotations

import copy
import math
import time
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

import torch
from pydantic import ValidationError

from weft.activity import activity
from weft.data.batching.batches import BatchSource
from weft.data.batching.prefetch import StepBatches, draw_steps, prefetch
from weft.errors import CheckpointError, TrainingError
from weft.models.interface import Model
from weft.runs.layout import Checkpoint, RunFolder
from weft.runs.origin import WeightsOrigin
from weft.runs.weights import Tensors, average, load_weights, model_tensors, read_tensors, write_tensors
from weft.training.cuda_graph_update import CudaGraphUpdate, can_capture
from weft.training.distributed import full_tensor
from weft.training.events import Averaged, Event, Finished, Saved, Skipped, Step, Validation
from weft.training.forcing import sampling_probability
from weft.training.optimizer_state import optimizer_tensors, restore_optimizer, restore_rng, rng_tensors
from weft.training.progress import Progress
from weft.training.schedules import make_schedule
from weft.training.update import PlainUpdate, TrainingContext, Update, UpdateResult, make_optimizer
from weft.training.validation import Validate, ValidationScores

MAX_CONSECUTIVE_SKIPS = 5
"""Skipped updates in a row that end a run."""


class _PendingUpdate(NamedTuple):
    """An update that was started and not yet reported."""

    result: UpdateResult
    batches: StepBatches
    learning_rate: float
    start_time: float
    data_wait: float


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
    ) -> None:
        self.data = data
        self.context = context
        self.settings = context.settings
        self.workers = context.workers
        self.folder = folder
        self.validate = validate
        self.sharded = self.workers.world_size > 1 and self.settings.shard == "full"
        self.validation_model: Model | None = None
        """If weights are sharded: a copy of the whole model, with which the main process validates."""
        self.in_loop = False
        """Whether all workers are in the loop, and wait for each other."""
        self.model = model if self.sharded else model.to(context.device)
        self.optimizer = make_optimizer(self.model, self.settings)
        self.schedule = make_schedule(self.settings)
        self.progress = Progress()
        self.delivered = self.progress.origin
        """What model.safetensors holds, once training has ended."""
        self.saved_step = -1
        self.consecutive_skips = 0
        self.last_report_time = 0.0
        self.update = self._make_update()
        torch.manual_seed(context.seed)

    def _make_update(self) -> Update:
        if self.workers.world_size == 1 and can_capture(self.model, self.settings, self.context.device):
            return CudaGraphUpdate(self.model, self.optimizer, self.context, self.data.corpus_size)
        return PlainUpdate(self.model, self.optimizer, self.context)

    def _shard(self) -> None:
        """Shard the weights and the optimizer state over the workers. Until then they stay off the GPU."""
        from weft.training.sharded_update import ShardedUpdate, shard, spare_batch

        state = optimizer_tensors(self.optimizer)
        self.validation_model = copy.deepcopy(self.model) if self.workers.is_main and self.validate else None
        loss_module = shard(self.model, self.context)
        self.optimizer = make_optimizer(self.model, self.settings)
        restore_optimizer(self.optimizer, state, where=str(self.folder.path))
        spare = spare_batch(self.data, self.context)
        self.update = ShardedUpdate(loss_module, self.optimizer, self.context, spare=spare)

    def restore(self) -> None:
        """Restore the newest checkpoint of the folder."""
        checkpoint = self.folder.read_checkpoint()
        where = str(checkpoint.path)
        load_weights(self.model, checkpoint.weights, where=where)
        rng = {name: tensor for name, tensor in checkpoint.optimizer.items() if name.startswith("random.")}
        state = {name: tensor for name, tensor in checkpoint.optimizer.items() if name not in rng}
        restore_optimizer(self.optimizer, state, where=where)
        restore_rng(rng, where=where)
        try:
            self.progress = Progress.model_validate(checkpoint.state)
        except ValidationError as error:
            field = ".".join(map(str, error.errors()[0]["loc"]))
            raise CheckpointError(f"{where}/state.json: damaged at {field!r}") from None
        self.saved_step = self.progress.step
        if self.workers.is_main:
            self.folder.prune(self.progress.step, self.progress.best_steps)

    def save(self) -> Saved:
        """Write a checkpoint and, as long as there is no validated one, model.safetensors.

        In the loop all workers must call this; before it, the main process writes what the others will read.
        """
        progress = self.progress
        if self.workers.is_main or self.sharded:
            weights = self._full_weights()
            tensors = {**optimizer_tensors(self.optimizer), **rng_tensors()}
        if self.workers.is_main:
            self._check_finite(weights)
            if not progress.best:
                self.folder.write_model(weights, progress.origin)
            self.folder.write_checkpoint(progress.step, Checkpoint(weights, tensors, progress.model_dump()))
            self.folder.prune(progress.step, progress.best_steps)
        if self.in_loop:
            self.workers.barrier()
        self.saved_step = progress.step
        return Saved(progress.step, str(self.folder.checkpoint_path(progress.step)))

    def _check_finite(self, weights: Tensors) -> None:
        """End the run, as it was last saved, if a weight is not finite; the learning rate can do that by itself."""
        if all(tensor.isfinite().all() for tensor in weights.values()):
            return
        saved = f"; {self.folder.path} stays as it was saved at step {self.saved_step}" if self.saved_step >= 0 else ""
        raise TrainingError(
            f"step {self.progress.step}: the weights are not finite any more{saved}; "
            "lower training.learning_rate or training.clip and use --resume"
        )

    def _full_weights(self) -> Tensors:
        """All weights, in the main process; a collective operation if they are sharded."""
        gathered = {}
        for name, parameter in model_tensors(self.model).items():
            full = full_tensor(parameter)
            if self.workers.is_main:
                gathered[name] = full if full is parameter else full.cpu()
        return gathered

    def events(self) -> Iterator[Event]:
        """Train to the end."""
        settings, progress = self.settings, self.progress
        self.in_loop = True
        if self.sharded:
            self._shard()
        steps = self._steps()
        start_time = time.monotonic() - progress.seconds
        pending: _PendingUpdate | None = None
        while not (reason := progress.stop_reason(settings)):
            started = self._start_update(steps)
            progress.seconds = time.monotonic() - start_time
            if pending is not None:
                yield self._report(pending)
                self._check_skips(pending)
            pending = started
            validating = self.validate and settings.validate_every and progress.step % settings.validate_every == 0
            saving = settings.save_every and progress.step % settings.save_every == 0
            if not started.result.deferred or validating or saving:
                yield self._report(started)
                self._check_skips(started)
                pending = None
            if validating:
                yield self._run_validation()
            if saving:
                yield self.save()
        if pending is not None:
            yield self._report(pending)
            self._check_skips(pending)
            progress.seconds = time.monotonic() - start_time
        if self.saved_step != progress.step:
            yield self.save()
        self.delivered = progress.origin
        if self.validate and len(progress.best) > 1:
            yield self._validate_mean()
        best_step = progress.best[0].step if progress.best else progress.step
        delivered = self.delivered
        yield Finished(progress.step, reason, progress.seconds, best_step, delivered.kind, delivered.steps)

    def _steps(self) -> Iterator[StepBatches]:
        """The batches of each step that this worker computes."""
        settings, progress = self.settings, self.progress
        stream = self.data.batches(settings.batch_tokens, seed=self.context.seed, start=progress.position)
        steps = draw_steps(
            stream,
            first_step=progress.step + 1,
            batches_per_step=settings.accumulate,
            rank=self.workers.rank,
            world_size=self.workers.world_size,
        )
        return prefetch(steps) if self.context.device.type == "cuda" else steps

    def _start_update(self, steps: Iterator[StepBatches]) -> _PendingUpdate:
        settings, progress = self.settings, self.progress
        start_time = time.monotonic()
        batches = next(steps)
        data_wait = time.monotonic() - start_time
        if not self.model.training:  # not every time: `train` visits all modules
            self.model.train()
        step = batches.step
        learning_rate = settings.learning_rate * self.schedule(step) * progress.learning_rate_decay(settings)
        result = self.update(
            batches, learning_rate=learning_rate, sampling_probability=sampling_probability(settings, step)
        )
        progress.advance(step, batches.position)
        return _PendingUpdate(result, batches, learning_rate, start_time, data_wait)

    def _check_skips(self, update: _PendingUpdate) -> None:
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

    def _report(self, update: _PendingUpdate) -> Step | Skipped:
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

    def _run_validation(self) -> Validation:
        """Validate the model, and keep its weights if they are among the best."""
        progress = self.progress
        weights = self._full_weights() if self.sharded or self.workers.is_main else {}
        scores = self.workers.from_main(lambda: self._validation_scores(weights))
        is_best = progress.add_validation(scores.score, self.settings, scores.numbers)
        if progress.step in progress.best_steps and self.workers.is_main:
            write_tensors(self._best_file(progress.step), weights)
            if is_best:
                self.folder.write_model(weights, progress.origin)
        progress.validation_sample = scores.sample
        counts = (scores.outputs, scores.ended_by_length, scores.sample)
        return Validation(progress.step, scores.loss, scores.perplexity, scores.metrics, is_best, *counts)

    def _validate_mean(self) -> Averaged:
        """At the end: validate the mean of the best checkpoints; model.safetensors := the better of it and the best.

        Of equal scores, the one of the lower loss. A resumed run does this again, with the same result.
        """
        best, steps = self.progress.best, self.progress.best_steps
        mean: Tensors = {}
        if self.workers.is_main:
            mean = average([read_tensors(self._best_file(step)).tensors for step in steps])
        scores = self.workers.from_main(lambda: self._scores_of(mean))
        best_loss = (best[0].validation or {}).get("loss", math.inf)
        is_best = (scores.score, -scores.loss) > (best[0].score, -best_loss)
        if is_best:
            self.delivered = WeightsOrigin("mean", tuple(sorted(steps)), scores.numbers)
        if self.workers.is_main:
            weights = mean if is_best else read_tensors(self._best_file(best[0].step)).tensors
            self.folder.write_model(weights, self.delivered)
        averaged = tuple(sorted(steps))
        return Averaged(self.progress.step, averaged, scores.loss, scores.perplexity, scores.metrics, is_best)

    def _best_file(self, step: int) -> Path:
        return self.folder.best / f"step-{step}.safetensors"

    def _scores_of(self, weights: Tensors) -> ValidationScores:
        """Validate other weights than the model's."""
        if self.validation_model is not None:
            return self._validation_scores(weights)
        current = {name: tensor.clone() for name, tensor in model_tensors(self.model).items()}
        load_weights(self.model, weights, where="validation")
        try:
            return self._validation_scores(weights)
        finally:
            load_weights(self.model, current, where="validation")

    def _validation_scores(self, weights: Tensors) -> ValidationScores:
        """Validate the model, or the copy of it that gets all weights if they are sharded."""
        with activity("validating"):
            return self._validate(weights)

    def _validate(self, weights: Tensors) -> ValidationScores:
        assert self.validate is not None
        if self.validation_model is None:
            self.model.eval()
            return self.validate(self.model)
        load_weights(self.validation_model, weights, where="validation")
        try:
            return self.validate(self.validation_model.to(self.context.device).eval())
        finally:
            self.validation_model.to("cpu")
