"""The events of a training run. The loop yields them; the progress bar, the log, TensorBoard and the labs read them."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any


@dataclass(frozen=True)
class Event:
    """Something happened at a step."""

    step: int

    def __str__(self) -> str:
        numbers = (
            f"{name} {f'{value:.4g}' if isinstance(value, float) else value}"
            for name, value in self.__dict__.items()
            if name != "step" and value not in (None, "", (), {})
        )
        return f"{type(self).__name__} at step {self.step}: {', '.join(numbers)}"

    def record(self) -> dict[str, Any]:
        """A line for log.jsonl."""
        return {"event": type(self).__name__.lower(), **self.__dict__}


@dataclass(frozen=True)
class Started(Event):
    """Data and model are ready; training starts, or resumes."""

    pairs: int
    """0: unknown, because the corpus is streamed."""
    dropped: dict[str, int]
    """Rows that are not trained on, by drop reason."""
    source_vocabulary: int
    target_vocabulary: int
    parameters: int
    device: str
    steps: int
    path: str
    validations: int = 0
    """The number of validations, unless training ends early."""
    stops_early: bool = False
    """Whether training ends once validations bring no improvement (training.patience)."""
    trained_parameters: int | None = None
    """The number of trained parameters, if some are frozen or only adapters are trained; None: all of them."""


@dataclass(frozen=True)
class Fitted(Event):
    """The speed was measured, and the run fitted to a time limit; what it trains is in its recipe."""

    minutes: float
    """The limit."""
    steps: int
    recipe_steps: int
    """Steps of the recipe, before they were fitted."""
    step_seconds: float
    validations: int
    validation_seconds: float
    """Time per validation."""
    seconds: float
    """Expected time from now to the end of training, unless early stopping ends it before."""
    closing_seconds: float = 0.0
    """Reserved for what follows the last update: validations, and an evaluation on the test set."""
    test_items: int | None = None
    """The number of test items that there is time to evaluate after training; None: all."""
    item_seconds: float = 0.0
    """Expected time per test item."""
    share_seconds: float | None = None
    """The time of this run, if the limit is divided among several; None: all of it."""
    batch_tokens: int | None = None
    """Tokens of a batch, if they are fewer than the recipe's, so that there are more updates; None: the recipe's."""


@dataclass(frozen=True)
class Step(Event):
    """One update."""

    loss: float
    """Mean negative log-likelihood of a target token, without label smoothing; or the mean 1.5-entmax loss."""
    learning_rate: float
    grad_norm: float
    """Norm of the gradient, before clipping."""
    source_tokens: int
    target_tokens: int
    seconds: float
    """Duration of the update."""
    data_wait: float
    """Seconds of it spent waiting for a batch."""
    epoch: int


@dataclass(frozen=True)
class Skipped(Event):
    """An update that was not applied because its loss or gradient was not finite."""

    consecutive: int
    """Skipped updates in a row, this one included."""


@dataclass(frozen=True)
class Validation(Event):
    """Loss and metrics on the validation set."""

    loss: float
    perplexity: float | None
    """Perplexity; None with training.loss = "entmax15": a reference may have a probability of zero."""
    metrics: dict[str, float] = field(default_factory=dict)
    is_best: bool = False
    """Whether this is the best validation so far."""
    outputs: int = 0
    """The number of outputs that were searched for a metric."""
    ended_by_length: int = 0
    """The number of these outputs that reached the length limit."""
    sample: tuple[int, int] | None = None
    """The number of sentences that the metrics were computed on, and that of the validation set."""
    structural: dict[str, float] = field(default_factory=dict)
    """Loss, perplexity and metrics of the pairs held out for their structure (data.holdout.structure), if there are."""


@dataclass(frozen=True)
class Diagnosis(Event):
    """Something about the run that its user should know; each kind at most once (diagnostics.py)."""

    kind: str
    """"does not learn", "diverges", "overfits" or "too short"."""
    message: str
    """The observation, and what to do about it."""


@dataclass(frozen=True)
class Averaged(Event):
    """The mean of the best checkpoints was validated, at the end of training."""

    steps: tuple[int, ...]
    """Steps of the averaged checkpoints."""
    loss: float
    perplexity: float | None
    """Perplexity; None with training.loss = "entmax15": a reference may have a probability of zero."""
    metrics: dict[str, float] = field(default_factory=dict)
    is_best: bool = False
    """Whether the mean is better than the best checkpoint, and becomes the model of the run in its place."""
    structural: dict[str, float] = field(default_factory=dict)
    """Loss, perplexity and metrics of the pairs held out for their structure (data.holdout.structure), if there are."""


@dataclass(frozen=True)
class Saved(Event):
    """A checkpoint from which the run can be resumed."""

    path: str


@dataclass(frozen=True)
class Interrupted(Event):
    """A signal has arrived; the run is saved, and the signal takes effect after this event."""

    signal: str
    """The name of the signal, such as "SIGINT"."""
    path: str
    """The checkpoint."""


@dataclass(frozen=True)
class Finished(Event):
    """The end of training."""

    reason: str
    """"steps", "patience" or, if a time limit ended it before, "time"."""
    seconds: float
    """Training time, summed over all resumptions."""
    best_step: int
    """Step of the best checkpoint; without validations, the last step."""
    weights: str = "last"
    """The weights in model.safetensors: those of the "last" or the "best" checkpoint, or the "mean" of the best."""
    weight_steps: tuple[int, ...] = ()
    """The step of these weights, or the steps of the mean."""
    dropped: dict[str, int] = field(default_factory=dict)
    """Rows of a streamed corpus that were not trained on, by drop reason; rows read twice count twice."""


@dataclass(frozen=True)
class LauncherLost(Event):
    """The launcher of the workers has ended, and so have they; ``step`` is that of the newest checkpoint."""

    launcher: int
    """Process id of the launcher."""
