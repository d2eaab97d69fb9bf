"""The training loop: an iterator of events. It prints nothing and knows nothing of text.

One update: the loss of ``accumulate`` batches, averaged over their target tokens; gradients clipped to a norm; one
step of the optimizer at the schedule's rate. An update whose loss or gradient is not finite is skipped and counted;
too many in a row end the run, with the last good state saved. Several workers share out the batches of an update
(distributed.py); all of them run this loop, and the first one validates, writes and decides.
"""

from __future__ import annotations

import copy
import math
import time
from collections.abc import Callable, Iterator
from typing import NamedTuple

import torch
from pydantic import BaseModel, ValidationError

from weft.data.batching.batches import BatchSource, Position
from weft.data.batching.prefetch import StepBatches, draw_steps, prefetch
from weft.errors import CheckpointError, TrainingError
from weft.models import AnyModel
from weft.recipe import TrainingSettings
from weft.runs.layout import Checkpoint, RunFolder
from weft.runs.weights import Tensors, average, load_weights, model_tensors, read_tensors, write_tensors
from weft.training.cuda_graph_update import CudaGraphUpdate, can_pack, pays_to_compile
from weft.training.distributed import SINGLE_PROCESS, Workers, full_tensor
from weft.training.events import Event, Finished, Saved, Skipped, Step, Validation
from weft.training.forcing import own_share
from weft.training.optimizer_state import optimizer_tensors, restore_optimizer, restore_rng, rng_tensors
from weft.training.schedules import make_schedule
from weft.training.update import Measured, PlainUpdate, Update, make_optimizer, precision_of

SKIPS_ALLOWED = 5
"""Updates in a row that may be skipped before the run stops."""


class Scores(NamedTuple):
    """What a validation measured."""

    loss: float
    perplexity: float
    metrics: dict[str, float]
    worth: float
    """The number that decides which is best: higher is better."""


Validate = Callable[[AnyModel], Scores]


class Best(BaseModel):
    """One of the best checkpoints."""

    step: int
    worth: float


class Progress(BaseModel):
    """Where a run stands; saved with every checkpoint."""

    step: int = 0
    stage: int = 0
    epoch: int = 0
    pool: int = 0
    batch: int = 0
    best: list[Best] = []
    """The best checkpoints, best first."""
    since_best: int = 0
    """Validations without gain, for early stopping."""
    since_decay: int = 0
    """Validations without gain since the rate was last lowered."""
    decays: int = 0
    skipped: int = 0
    seconds: float = 0.0
    last_validation: dict[str, float] | None = None

    @property
    def position(self) -> Position:
        return Position(self.stage, self.epoch, self.pool, self.batch)

    def best_steps(self) -> list[int]:
        return [best.step for best in self.best]


class _Started(NamedTuple):
    """An update that was set going."""

    measured: Measured
    step: int
    rate: float
    source_tokens: int
    target_tokens: int
    begun: float
    waited: float
    epoch: int


class Trainer:
    """One run: the model, the data, the optimizer and where they stand. Iterate `events`."""

    def __init__(
        self,
        model: AnyModel,
        data: BatchSource,
        settings: TrainingSettings,
        *,
        folder: RunFolder,
        seed: int,
        begin: int,
        validate: Validate | None = None,
        device: torch.device | str = "cpu",
        workers: Workers = SINGLE_PROCESS,
    ) -> None:
        self.data = data
        self.settings = settings
        self.folder = folder
        self.seed = seed
        self.begin = begin
        self.validate = validate
        self.device = torch.device(device)
        self.workers = workers
        self.sharded = workers.world_size > 1 and settings.shard == "full"
        self.twin: AnyModel | None = None
        """An undivided model for the first worker to validate, where weights are divided."""
        self.together = False
        """Whether the workers are in the loop, and wait for each other."""
        self.model = model if self.sharded else model.to(device)
        self.optimizer = make_optimizer(self.model, settings)
        self.schedule = make_schedule(settings.schedule, warmup=settings.warmup, steps=settings.steps)
        self.progress = Progress()
        self.saved_step = -1
        self.in_a_row = 0
        self.reported = 0.0
        self.update = self._make_update()
        torch.manual_seed(seed)

    def _make_update(self) -> Update:
        settings, model = self.settings, self.model
        precision = precision_of(model, settings, self.device)
        if self.workers.world_size == 1 and can_pack(model, settings, self.device):
            compiled = settings.compile == "on" or (settings.compile == "auto" and pays_to_compile(model, settings))
            return CudaGraphUpdate(
                model,
                self.optimizer,
                settings,
                self.data.corpus_size,
                begin=self.begin,
                device=self.device,
                precision=precision,
                compiled=compiled,
            )
        return PlainUpdate(
            model,
            self.optimizer,
            settings,
            begin=self.begin,
            device=self.device,
            precision=precision,
            workers=self.workers,
            seed=self.seed,
        )

    def _divide(self) -> None:
        """Divide the weights, and what the optimizer knows, over the workers. Until then they stay off the GPU."""
        from weft.training.sharded_update import ShardedUpdate, shard, spare_batch

        settings, moments = self.settings, optimizer_tensors(self.optimizer)
        self.twin = copy.deepcopy(self.model) if self.workers.is_main and self.validate else None
        losses = shard(self.model, settings, begin=self.begin, device=self.device, workers=self.workers)
        self.optimizer = make_optimizer(self.model, settings)
        restore_optimizer(self.optimizer, moments, where=str(self.folder.path))
        self.update = ShardedUpdate(
            self.model,
            self.optimizer,
            settings,
            losses=losses,
            spare=spare_batch(self.data, settings, seed=self.seed),
            begin=self.begin,
            device=self.device,
            precision=precision_of(self.model, settings, self.device),
            workers=self.workers,
            seed=self.seed,
        )

    def restore(self) -> None:
        """Go back to the newest checkpoint of the folder."""
        checkpoint = self.folder.read_checkpoint()
        where = str(checkpoint.path)
        load_weights(self.model, checkpoint.weights, where=where)
        generators = {name: value for name, value in checkpoint.optimizer.items() if name.startswith("random.")}
        moments = {name: value for name, value in checkpoint.optimizer.items() if name not in generators}
        restore_optimizer(self.optimizer, moments, where=where)
        restore_rng(generators, where=where)
        try:
            self.progress = Progress.model_validate(checkpoint.state)
        except ValidationError as error:
            place = ".".join(map(str, error.errors()[0]["loc"]))
            raise CheckpointError(f"{where}/state.json: damaged at {place!r}") from None
        self.saved_step = self.progress.step
        if self.workers.is_main:
            self.folder.prune(self.progress.step, self.progress.best_steps())

    def save(self) -> Saved:
        """A checkpoint of all that is here; without validations, also the weights to use.

        Once the loop has begun all workers take part; before that the first may write what the others will read.
        """
        progress = self.progress
        if self.workers.is_main or self.sharded:
            weights = self._weights()
            tensors = {**optimizer_tensors(self.optimizer), **rng_tensors()}
        if self.workers.is_main:
            if not progress.best:
                self.folder.write_model(weights, step=progress.step)
            self.folder.write_checkpoint(progress.step, Checkpoint(weights, tensors, progress.model_dump()))
            self.folder.prune(progress.step, progress.best_steps())
        if self.together:
            self.workers.barrier()
        self.saved_step = progress.step
        return Saved(progress.step, str(self.folder.checkpoint_path(progress.step)))

    def _weights(self) -> Tensors:
        """The weights as a whole, for the first worker; where they are divided, all must ask."""
        gathered = {}
        for name, parameter in model_tensors(self.model).items():
            full = full_tensor(parameter)
            if self.workers.is_main:
                gathered[name] = full if full is parameter else full.cpu()
        return gathered

    def events(self) -> Iterator[Event]:
        """Train to the end."""
        settings, progress = self.settings, self.progress
        self.together = True
        if self.sharded:
            self._divide()
        stream = self.data.batches(settings.batch_tokens, seed=self.seed, start=progress.position)
        steps = draw_steps(
            stream,
            first_step=progress.step + 1,
            batches_per_step=settings.accumulate,
            rank=self.workers.rank,
            world_size=self.workers.world_size,
        )
        if self.device.type == "cuda":  # on a CPU nobody waits while it computes
            steps = prefetch(steps)
        begun = time.monotonic() - progress.seconds
        waiting: _Started | None = None
        while not (reason := self._reason_to_stop()):
            started = self._start(steps)
            progress.seconds = time.monotonic() - begun
            if waiting is not None:
                yield self._report(waiting)
                self._check_skips(waiting.step)
            waiting = started
            validating = self.validate and settings.validate_every and progress.step % settings.validate_every == 0
            saving = settings.save_every and progress.step % settings.save_every == 0
            if not started.measured.later or validating or saving:
                yield self._report(started)
                self._check_skips(started.step)
                waiting = None
            if validating:
                yield self._validated()
            if saving:
                yield self.save()
        if waiting is not None:
            yield self._report(waiting)
            self._check_skips(waiting.step)
            progress.seconds = time.monotonic() - begun
        if self.saved_step != progress.step:
            yield self.save()
        yield Finished(
            progress.step, reason, progress.seconds, progress.best[0].step if progress.best else progress.step
        )

    def _reason_to_stop(self) -> str:
        """Why the run is at its end; empty while it is not."""
        settings, progress = self.settings, self.progress
        if settings.patience and progress.since_best >= settings.patience:
            return "patience"
        return "steps" if progress.step >= settings.steps else ""

    def _start(self, steps: Iterator[StepBatches]) -> _Started:
        """Set the next update going."""
        settings, progress = self.settings, self.progress
        begun = time.monotonic()
        drawn = next(steps)
        waited = time.monotonic() - begun
        if not self.model.training:  # not each time: it goes through all modules
            self.model.train()
        step = drawn.step
        rate = settings.learning_rate * self.schedule(step) * settings.decay**progress.decays
        own = own_share(settings.forcing, sampling=settings.sampling, step=step, steps=settings.steps)
        measured = self.update(drawn, rate=rate, own=own)
        progress.step = step
        progress.stage, progress.epoch, progress.pool, progress.batch = drawn.position
        return _Started(
            measured,
            step=step,
            rate=rate,
            source_tokens=drawn.source_tokens,
            target_tokens=drawn.target_tokens,
            begun=begun,
            waited=waited,
            epoch=drawn.epoch,
        )

    def _check_skips(self, step: int) -> None:
        """End the run where too many updates in a row were skipped, the last of them at this step."""
        if self.in_a_row < SKIPS_ALLOWED:
            return
        if self.saved_step != self.progress.step:
            self.save()
        raise TrainingError(
            f"step {step}: the loss was not finite {self.in_a_row} times in a row; the last good weights "
            f"are saved in {self.folder.path}; lower training.learning_rate or training.clip and use --resume"
        )

    def _report(self, update: _Started) -> Step | Skipped:
        """What became of an update. Its time is counted from the report before, where that came after its start."""
        loss, norm = update.measured.fetch()
        seconds = time.monotonic() - max(update.begun, self.reported)
        self.reported = time.monotonic()
        if math.isfinite(loss) and math.isfinite(norm):
            self.in_a_row = 0
            return Step(
                step=update.step,
                loss=loss,
                learning_rate=update.rate,
                grad_norm=norm,
                source_tokens=update.source_tokens,
                target_tokens=update.target_tokens,
                seconds=seconds,
                data_wait=update.waited,
                epoch=update.epoch,
            )
        self.progress.skipped += 1
        self.in_a_row += 1
        return Skipped(update.step, self.in_a_row)

    def _validated(self) -> Validation:
        """Measure the model, and keep it if it is among the best."""
        settings, progress = self.settings, self.progress
        weights = self._weights() if self.sharded or self.workers.is_main else {}
        scores = self.workers.from_main(lambda: self._scores(weights))
        worth = float("-inf") if math.isnan(scores.worth) else scores.worth
        is_best = not progress.best or worth > progress.best[0].worth
        progress.since_best = 0 if is_best else progress.since_best + 1
        progress.since_decay = 0 if is_best else progress.since_decay + 1
        if settings.schedule == "plateau" and progress.since_decay > settings.decay_patience:
            progress.decays += 1
            progress.since_decay = 0
        candidates = [*progress.best, Best(step=progress.step, worth=worth)]
        kept = sorted(candidates, key=lambda best: (-best.worth, best.step))[: settings.average]
        if any(best.step == progress.step for best in kept):
            progress.best = kept
            if self.workers.is_main:
                write_tensors(self.folder.best / f"step-{progress.step}.safetensors", weights)
                self._use_best()
        progress.last_validation = {"loss": scores.loss, "perplexity": scores.perplexity, **scores.metrics}
        return Validation(progress.step, scores.loss, scores.perplexity, scores.metrics, is_best)

    def _scores(self, weights: Tensors) -> Scores:
        """What a validation measures of these weights."""
        assert self.validate is not None
        if self.twin is None:
            self.model.eval()
            return self.validate(self.model)
        load_weights(self.twin, weights, where="validation")
        try:
            return self.validate(self.twin.to(self.device).eval())
        finally:
            self.twin.to("cpu")

    def _use_best(self) -> None:
        """model.safetensors := the mean of the best checkpoints."""
        files = [self.folder.best / f"step-{best.step}.safetensors" for best in self.progress.best]
        self.folder.write_model(
            average([read_tensors(file).tensors for file in files]), step=self.progress.best[0].step
        )
