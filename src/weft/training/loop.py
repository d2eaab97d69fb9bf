"""The training loop: an iterator of events. It prints nothing and knows nothing of text.

One update: the loss of ``accumulate`` batches, averaged over their target tokens; gradients clipped to a norm; one
step of the optimiser at the schedule's rate. An update whose loss or gradient is not finite is skipped and counted;
too many in a row end the run, with the last good state saved.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Iterator
from typing import NamedTuple

import torch
from pydantic import BaseModel, ValidationError

from weft.data.batches import Position, endless
from weft.data.store import Batch, PairStore
from weft.errors import CheckpointError, TrainingError
from weft.models import AnyModel
from weft.settings import TrainingSettings
from weft.training.checkpoint import (
    Checkpoint,
    RunFolder,
    Tensors,
    optimiser_tensors,
    random_states,
    read_tensors,
    restore_optimiser,
    restore_random,
    write_tensors,
)
from weft.training.events import Event, Finished, Saved, Skipped, Step, Validation
from weft.training.forcing import own_share
from weft.training.packed import PackedUpdate, can_pack, pays_to_compile
from weft.training.schedules import make_schedule
from weft.training.update import Measured, PlainUpdate, Update, precision_of

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
    epoch: int = 0
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

    def best_steps(self) -> list[int]:
        return [best.step for best in self.best]


def make_optimiser(model: torch.nn.Module, settings: TrainingSettings) -> torch.optim.Optimizer:
    """The optimiser of a recipe, in one kernel, and on a GPU fit to be recorded."""
    rate, decay = settings.learning_rate, settings.weight_decay
    if settings.optimiser == "sgd":
        return torch.optim.SGD(model.parameters(), lr=rate, momentum=settings.momentum, weight_decay=decay, fused=True)
    kind = torch.optim.AdamW if settings.optimiser == "adamw" else torch.optim.Adam
    betas = (settings.beta1, settings.beta2)
    on_gpu = next(model.parameters()).is_cuda
    return kind(model.parameters(), lr=rate, betas=betas, weight_decay=decay, fused=True, capturable=on_gpu)


class _Started(NamedTuple):
    """An update that was set going."""

    measured: Measured
    step: int
    rate: float
    source_tokens: int
    target_tokens: int
    begun: float
    epoch: int


class Trainer:
    """One run: the model, the data, the optimiser and where they stand. Iterate `events`."""

    def __init__(
        self,
        model: AnyModel,
        pairs: PairStore,
        settings: TrainingSettings,
        *,
        folder: RunFolder,
        seed: int,
        begin: int,
        validate: Validate | None = None,
        device: torch.device | str = "cpu",
    ) -> None:
        self.model = model.to(device)
        self.pairs = pairs
        self.settings = settings
        self.folder = folder
        self.seed = seed
        self.begin = begin
        self.validate = validate
        self.device = torch.device(device)
        self.optimiser = make_optimiser(self.model, settings)
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
        if can_pack(model, settings, self.device):
            compiled = settings.compile == "on" or (settings.compile == "auto" and pays_to_compile(model, settings))
            return PackedUpdate(
                model,
                self.optimiser,
                settings,
                self.pairs,
                begin=self.begin,
                device=self.device,
                precision=precision,
                compiled=compiled,
            )
        return PlainUpdate(model, self.optimiser, settings, begin=self.begin, device=self.device, precision=precision)

    def restore(self) -> None:
        """Go back to the newest checkpoint of the folder."""
        checkpoint = self.folder.read_checkpoint()
        where = str(checkpoint.path)
        load_weights(self.model, checkpoint.weights, where=where)
        generators = {name: value for name, value in checkpoint.optimiser.items() if name.startswith("random.")}
        moments = {name: value for name, value in checkpoint.optimiser.items() if name not in generators}
        restore_optimiser(self.optimiser, moments, where=where)
        restore_random(generators, where=where)
        try:
            self.progress = Progress.model_validate(checkpoint.state)
        except ValidationError as error:
            place = ".".join(map(str, error.errors()[0]["loc"]))
            raise CheckpointError(f"{where}/state.json: damaged at {place!r}") from None
        self.saved_step = self.progress.step
        self.folder.prune(self.progress.step, self.progress.best_steps())

    def save(self) -> Saved:
        """A checkpoint of all that is here; without validations, also the weights to use."""
        progress = self.progress
        if not progress.best:
            self.folder.write_model(model_tensors(self.model), step=progress.step)
        tensors = {**optimiser_tensors(self.optimiser), **random_states()}
        checkpoint = Checkpoint(model_tensors(self.model), tensors, progress.model_dump())
        path = self.folder.write_checkpoint(progress.step, checkpoint)
        self.folder.prune(progress.step, progress.best_steps())
        self.saved_step = progress.step
        return Saved(progress.step, str(path))

    def events(self) -> Iterator[Event]:
        """Train to the end."""
        settings, progress = self.settings, self.progress
        stream = endless(
            self.pairs, settings.batch_tokens, seed=self.seed, start=Position(progress.epoch, progress.batch)
        )
        begun = time.monotonic() - progress.seconds
        waiting: _Started | None = None
        while not (reason := self._reason_to_stop()):
            started = self._start(stream)
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

    def _start(self, stream: Iterator[tuple[Position, Batch]]) -> _Started:
        """Set the next update going."""
        settings, progress = self.settings, self.progress
        begun = time.monotonic()
        self.model.train()
        position, batches = Position(), []
        for _ in range(settings.accumulate):
            position, batch = next(stream)
            batches.append(batch)
        epoch, step = progress.epoch, progress.step + 1
        rate = settings.learning_rate * self.schedule(step) * settings.decay**progress.decays
        own = own_share(settings.forcing, sampling=settings.sampling, step=step, steps=settings.steps)
        measured = self.update(batches, rate=rate, own=own)
        progress.step = step
        progress.epoch, progress.batch = position
        return _Started(
            measured,
            step=step,
            rate=rate,
            source_tokens=sum(batch.source.layout.total for batch in batches),
            target_tokens=sum(batch.target.layout.total for batch in batches),
            begun=begun,
            epoch=epoch,
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
                rate=update.rate,
                norm=norm,
                source_tokens=update.source_tokens,
                target_tokens=update.target_tokens,
                seconds=seconds,
                epoch=update.epoch,
            )
        self.progress.skipped += 1
        self.in_a_row += 1
        return Skipped(update.step, self.in_a_row)

    def _validated(self) -> Validation:
        """Measure the model, and keep it if it is among the best."""
        assert self.validate is not None
        settings, progress = self.settings, self.progress
        self.model.eval()
        scores = self.validate(self.model)
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
            write_tensors(self.folder.best / f"step-{progress.step}.safetensors", model_tensors(self.model))
            progress.best = kept
            self._use_best()
        progress.last_validation = {"loss": scores.loss, "perplexity": scores.perplexity, **scores.metrics}
        return Validation(progress.step, scores.loss, scores.perplexity, scores.metrics, is_best)

    def _use_best(self) -> None:
        """model.safetensors := the mean of the best checkpoints."""
        files = [self.folder.best / f"step-{best.step}.safetensors" for best in self.progress.best]
        self.folder.write_model(
            mean_of([read_tensors(file).tensors for file in files]), step=self.progress.best[0].step
        )


def model_tensors(model: torch.nn.Module) -> Tensors:
    """A model's weights by name; a shared tensor stands once, under its first name."""
    return {name: parameter.detach() for name, parameter in model.named_parameters()}


def load_weights(model: torch.nn.Module, tensors: Tensors, *, where: str) -> None:
    """Put weights into a model; they must be just the ones it has."""
    parameters = dict(model.named_parameters())
    for name in [*parameters, *tensors]:
        if name not in tensors or name not in parameters:
            kind = "lacks" if name not in tensors else "has an unknown"
            raise CheckpointError(f"{where}: does not fit its recipe: it {kind} tensor {name!r}")
        if parameters[name].shape != tensors[name].shape:
            raise CheckpointError(
                f"{where}: does not fit its recipe: tensor {name!r} is {tuple(tensors[name].shape)}, "
                f"expected {tuple(parameters[name].shape)}"
            )
    with torch.no_grad():
        for name, parameter in parameters.items():
            parameter.copy_(tensors[name])


def start_weights(model: torch.nn.Module, tensors: Tensors, *, where: str) -> None:
    """Begin with the weights of another run. Tables of a vocabulary may be longer here: what is new stays fresh."""
    parameters = dict(model.named_parameters())
    for name in [*parameters, *tensors]:
        if name not in tensors or name not in parameters:
            kind = "lacks" if name not in tensors else "has"
            raise CheckpointError(
                f"--from {where}: another model: it {kind} tensor {name!r}; use the [model] of its recipe.toml"
            )
        here, there = parameters[name].shape, tensors[name].shape
        longer = _is_table(name) and here[0] >= there[0] and here[1:] == there[1:]
        if here != there and not longer:
            raise CheckpointError(
                f"--from {where}: another model: tensor {name!r} is {tuple(there)} there and {tuple(here)} here; "
                "use the [model] and the tokenizer of its run"
            )
    with torch.no_grad():
        for name, parameter in parameters.items():
            parameter[: len(tensors[name])].copy_(tensors[name])


def _is_table(name: str) -> bool:
    """Whether a tensor has a row for every id of a vocabulary."""
    return name.rpartition(".")[2] in ("weight_VE", "weight_VD", "bias_V")


def mean_of(many: list[Tensors]) -> Tensors:
    """The mean of several checkpoints, tensor by tensor."""
    return {name: torch.stack([tensors[name] for tensors in many]).mean(0) for name in many[0]}
