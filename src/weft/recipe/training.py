"""[training]: the training loop."""

from __future__ import annotations

from typing import Literal

from pydantic import Field

from weft.recipe.base import Count, CountOrNone, Probability, Settings, Share


class TrainingSettings(Settings):
    """[training]: the loop."""

    steps: Count = Field(10_000, description="updates in all")
    batch_tokens: Count = Field(2_048, description="at most so many tokens a batch on each side")
    accumulate: Count = Field(1, description="batches an update")
    optimizer: Literal["adamw", "adam", "sgd"] = Field("adamw", description="what makes steps of gradients")
    learning_rate: float = Field(0.002, gt=0, description="the peak")
    weight_decay: float = Field(0.0, ge=0, description="pull of the weights towards zero")
    momentum: Share = Field(0.0, description="sgd only")
    beta1: Share = Field(0.9, description="adam, adamw")
    beta2: Share = Field(0.98, description="adam, adamw")
    schedule: Literal["constant", "inverse_sqrt", "cosine", "plateau"] = Field(
        "inverse_sqrt", description="what follows the warm-up"
    )
    warmup: CountOrNone = Field(400, description="steps of linear warm-up")
    decay: float = Field(0.5, gt=0, lt=1, description="plateau: multiply the rate by this")
    decay_patience: CountOrNone = Field(2, description="plateau: after so many validations without gain")
    clip: float = Field(1.0, ge=0, description="largest gradient norm; 0: no clipping")
    label_smoothing: Share = Field(0.1, description="share of probability spread over all tokens")
    forcing: Literal["teacher", "scheduled", "free"] = Field("teacher", description="what the decoder reads")
    sampling: Probability = Field(0.25, description="scheduled: final share of own predictions")
    validate_every: CountOrNone = Field(500, description="steps between validations; 0: never")
    metric: str = Field("loss", description="what is best: loss, or a metric of decoded text such as bleu")
    valid_sentences: Count = Field(200, description="sentences decoded for the metric")
    patience: CountOrNone = Field(0, description="stop after so many validations without gain; 0: never")
    average: Count = Field(1, description="keep the mean of this many best checkpoints")
    save_every: CountOrNone = Field(500, description="steps between resumable checkpoints; 0: only at the end")
    log_every: Count = Field(50, description="steps between log lines")
    start: str | None = Field(None, description="a run folder to take the first weights and the tokenizer from")
    device: str = Field("auto", description="auto, cpu, cuda or cuda:N")
    precision: Literal["auto", "fp32", "tf32", "bf16"] = Field(
        "auto", description="of products; auto: on a GPU bf16 for Transformers and tf32 for the others, else fp32"
    )
    compile: Literal["auto", "on", "off"] = Field(
        "auto", description="compile a Transformer's layers on a GPU; auto: where the run is long enough to gain"
    )
    shard: Literal["none", "full"] = Field(
        "none", description="several workers: each has all weights, or they are divided with gradients and optimizer"
    )
