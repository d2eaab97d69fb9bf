"""[training]: optimizer, schedule, validation and checkpoints; [training.lora]: adapters."""

from __future__ import annotations

import re
from typing import Literal

from pydantic import Field, field_validator

from weft.recipe.augmentation import AugmentationSettings
from weft.recipe.base import Count, CountOrNone, Probability, Settings, Share
from weft.recipe.choices import LossName, ScheduleName

NO_ADAPTER = "none"
"""The value of --adapter for a run without any of its adapters."""
MAX_ALPHA = 100_000
"""The largest alpha of an adapter; with more, the product of its matrices would drown the weights."""


class LoraSettings(Settings):
    """[training.lora]: low-rank adapters, trained in place of the weights."""

    rank: CountOrNone = Field(0, description="rank of the adapters; 0: no adapters, the weights themselves are trained")
    alpha: float | None = Field(
        None,
        gt=0,
        le=MAX_ALPHA,
        description="the product of the two matrices is multiplied by alpha / rank; not set: twice the rank",
    )
    dropout: Share = Field(0.0, description="dropout of the inputs of the adapters")
    targets: list[str] = Field(
        [],
        description="patterns of the projections that get an adapter: the end of a name, such as query or "
        "decoder.*.linear1, or * for all; not set: query and value of a Transformer, all of another model",
    )
    name: str = Field("default", description="name of the adapter in the run folder")

    @property
    def scale(self) -> float:
        """alpha / rank."""
        return (2.0 * self.rank if self.alpha is None else self.alpha) / self.rank

    @field_validator("name")
    @classmethod
    def _is_folder_name(cls, name: str) -> str:
        check_adapter_name(name, "training.lora.name")
        return name


def check_adapter_name(name: str, where: str) -> None:
    """Fail unless an adapter, and its folder, can have this name."""
    if not re.fullmatch(r"\w[\w.+-]{0,99}", name) or name == NO_ADAPTER:
        raise ValueError(f"{where}: {name!r} was given; expected letters, digits and . + - _, and not {NO_ADAPTER!r}")


class TrainingSettings(Settings):
    """[training]: optimizer, schedule, validation and checkpoints."""

    steps: Count = Field(10_000, description="number of updates")
    batch_tokens: Count = Field(2_048, description="maximum number of tokens per batch, on each side")
    accumulate: Count = Field(1, description="batches per update (gradient accumulation)")
    optimizer: Literal["adamw", "adam", "sgd"] = Field("adamw", description="optimizer")
    learning_rate: float = Field(0.002, gt=0, description="peak learning rate")
    weight_decay: float = Field(0.0, ge=0, description="weight decay")
    momentum: Share = Field(0.0, description="momentum of sgd")
    beta1: Share = Field(0.9, description="β₁ of adam and adamw")
    beta2: Share = Field(0.98, description="β₂ of adam and adamw")
    schedule: ScheduleName = Field("inverse_sqrt", description="learning rate schedule after the warmup")
    warmup: CountOrNone = Field(400, description="steps of linear warmup")
    decay: float = Field(0.5, gt=0, lt=1, description="plateau: factor of the learning rate at each decay")
    decay_patience: CountOrNone = Field(
        2, description="plateau: validations in a row without improvement that cause a decay (0 means 1)"
    )
    clip: float = Field(1.0, ge=0, description="maximum gradient norm; 0: no clipping")
    loss: LossName = Field(
        "cross_entropy",
        description="training loss; entmax15: with 1.5-entmax as the output layer, whose probabilities can be zero",
    )
    label_smoothing: Share = Field(0.1, description="label smoothing: probability spread evenly over the vocabulary")
    coverage_loss: float = Field(
        0.0, ge=0, description="weight of the loss for attending again to what was attended to before"
    )
    ctc: Share = Field(
        0.0,
        description="weight of the CTC loss of the encoder beside that of the decoder; 0: the encoder has no CTC layer",
    )
    consistency: float = Field(
        0.0,
        ge=0,
        description="R-Drop: α, the weight of the divergence of two passes that differ in dropout; 0: off",
    )
    word_dropout: Share = Field(
        0.0, description="probability that a source token is replaced by the unknown token, drawn anew in every epoch"
    )
    distillation: Probability = Field(
        0.0,
        description="word-level distillation: weight of the cross-entropy against the distributions of a teacher, "
        "which `weft distill` names",
    )
    forcing: Literal["teacher", "scheduled", "free"] = Field(
        "teacher",
        description="decoder inputs: the reference (teacher forcing), scheduled sampling, or its own predictions",
    )
    sampling: Probability = Field(0.25, description="scheduled: final probability of reading its own prediction")
    validate_every: CountOrNone = Field(500, description="steps between validations; 0: never")
    metric: str = Field("loss", description="criterion for the best checkpoint: loss, or a metric such as bleu")
    valid_sentences: Count = Field(200, description="validation sentences translated for the metric: a random sample")
    patience: CountOrNone = Field(0, description="early stopping: validations without improvement; 0: never")
    average: Count = Field(
        1, description="best checkpoints whose mean is validated at the end, and used if it is better"
    )
    ema: Share = Field(
        0.0, description="decay of an exponential moving average of the weights, used in place of them; 0: no average"
    )
    choose: Literal["average", "best", "last"] = Field(
        "average",
        description="weights to deliver: the mean of the training.average best checkpoints if it is better than the "
        "best one, else that; always the best one; or those of the last step",
    )
    save_every: CountOrNone = Field(500, description="steps between resumable checkpoints; 0: not by steps")
    save_minutes: float = Field(
        2.0, ge=0, description="minutes after which a checkpoint is saved in any case; 0: only by steps and at the end"
    )
    log_every: Count = Field(50, description="steps between log lines")
    start: str | None = Field(None, description="run folder whose weights and tokenizer training starts from")
    freeze: list[str] = Field(
        [], description="patterns of the weights that are not trained: encoder.*, *embedding.weight_VE"
    )
    layer_decay: float = Field(
        1.0,
        gt=0,
        le=1,
        description="factor of the learning rate from a layer of a stack to the one below it, down to the embeddings",
    )
    lora: LoraSettings = LoraSettings()
    augmentation: AugmentationSettings = AugmentationSettings()
    device: str = Field("auto", description="auto, cpu, cuda or cuda:N")
    precision: Literal["auto", "fp32", "tf32", "bf16"] = Field(
        "auto", description="precision of matrix products; auto: on a GPU bf16, or tf32 for recurrent models; else fp32"
    )
    compile: Literal["auto", "on", "off"] = Field(
        "auto",
        description="compile Transformer layers on a GPU, except those that weft has kernels for; "
        "auto: if the run is long enough to gain",
    )
    shard: Literal["none", "full"] = Field(
        "none", description="several workers: full shards weights, gradients and optimizer state over them (FSDP)"
    )

    @property
    def averages(self) -> bool:
        """Whether the mean of the best checkpoints is validated at the end."""
        return self.choose == "average" and self.average > 1
