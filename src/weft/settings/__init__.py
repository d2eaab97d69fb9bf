"""Every setting, with its type, its default and one line of help.

These classes are the only place a setting is written down. They check recipes and ``--set``, give the JSON Schema
(`Recipe.model_json_schema()`) and what ``weft recipes show`` prints. A recipe names things from tables; it can
never name Python code. Reading and writing recipes: recipe.py.
"""

from __future__ import annotations

import re
from typing import Annotated, Any, Literal

from pydantic import Discriminator, Field, Tag, field_validator, model_validator

from weft.settings.base import Count, CountOrNone, Probability, Settings, Share
from weft.settings.data import DataSettings, TokenizerSettings
from weft.settings.search import SearchSettings


class RecurrentSettings(Settings):
    """What a stack of recurrent layers has, on either side."""

    kind: Literal["rnn", "gru", "lstm"] = Field("lstm", description="the cell, or transformer")
    layers: Count = Field(1, description="number of layers")
    hidden: Count = Field(512, description="width of a state, both directions together")
    connections: Literal["plain", "residual", "dense"] = Field("plain", description="between layers")
    layer_norm: bool = Field(False, description="normalise what a layer gives")


class RecurrentEncoderSettings(RecurrentSettings):
    """[model.encoder] of kind rnn, gru or lstm"""

    bidirectional: bool = Field(True, description="read the source both ways")
    reverse_source: bool = Field(False, description="read the source back to front")


class RecurrentDecoderSettings(RecurrentSettings):
    """[model.decoder] of kind rnn, gru or lstm"""

    input_feeding: bool = Field(False, description="feed the last attentional vector back in")
    feed_summary: bool = Field(False, description="feed the encoder's final state at every step")


class TransformerSettings(Settings):
    """What a stack of Transformer layers has, on either side."""

    kind: Literal["transformer"] = Field("transformer", description="or rnn, gru, lstm")
    layers: Count = Field(6, description="number of layers")
    hidden: Count = Field(512, description="width of a state")
    heads: Count = Field(8, description="attentions side by side; they share the width")
    key_value_heads: CountOrNone = Field(0, description="heads with keys and values of their own; 0: all")
    feed_forward: Count = Field(2048, description="width of the feed-forward network")
    activation: Literal["relu", "gelu", "swiglu"] = Field("relu", description="in the feed-forward network")
    norm: Literal["layer", "rms"] = Field("layer", description="LayerNorm or RMSNorm")
    norm_placement: Literal["pre", "post"] = Field("pre", description="before each sub-layer, or after it as published")
    positions: Literal["sinusoidal", "learned", "relative", "rotary", "alibi", "none"] = Field(
        "sinusoidal", description="how a token knows its place"
    )
    max_positions: Count = Field(1_024, description="learned positions: the longest sequence")
    scale_embedding: bool = Field(True, description="multiply embeddings by the root of their width")
    embedding_dropout: Share | None = Field(None, description="on embeddings; not set: model.dropout")
    residual_dropout: Share | None = Field(None, description="on what a sub-layer adds; not set: model.dropout")
    attention_dropout: Share = Field(0.0, description="on attention weights")
    activation_dropout: Share = Field(0.0, description="inside the feed-forward network")


class TransformerEncoderSettings(TransformerSettings):
    """[model.encoder] of kind transformer or attention"""

    kind: Literal["transformer", "attention"] = Field(  # type: ignore[assignment]
        "transformer", description="attention: without feed-forward networks"
    )


class TransformerDecoderSettings(TransformerSettings):
    """[model.decoder] of kind transformer"""


CELL_KINDS = ("rnn", "gru", "lstm")


def _family(given: Any) -> str:
    """Which settings a stack has, by its kind."""
    kind = given.get("kind", "lstm") if isinstance(given, dict) else getattr(given, "kind", "lstm")
    return "<transformer>" if kind in ("transformer", "attention") else "<recurrent>"


EncoderSettings = Annotated[
    Annotated[RecurrentEncoderSettings, Tag("<recurrent>")]
    | Annotated[TransformerEncoderSettings, Tag("<transformer>")],
    Discriminator(_family),
]
DecoderSettings = Annotated[
    Annotated[RecurrentDecoderSettings, Tag("<recurrent>")]
    | Annotated[TransformerDecoderSettings, Tag("<transformer>")],
    Discriminator(_family),
]


class AttentionSettings(Settings):
    """[model.attention] of a recurrent decoder; a Transformer decoder has its own"""

    score: Literal[
        "none",
        "dot",
        "scaled_dot",
        "general",
        "scaled_general",
        "concat",
        "additive",
        "cosine",
        "parameter_free",
    ] = Field("general", description="how a query is compared with a key; none: no attention")
    placement: Literal["after", "before"] = Field(
        "after", description="after the step (Luong) or before it, into the recurrence (Bahdanau)"
    )
    size: CountOrNone = Field(0, description="width of additive and concat; 0: the decoder's width")
    project: bool = Field(False, description="learn projections for keys and values")
    temperature: float = Field(0.1, gt=0, description="cosine: scores are divided by it")


class ModelSettings(Settings):
    """[model]: the network."""

    kind: Literal["seq2seq", "language_model", "prefix_lm"] = Field(
        "seq2seq", description="encoder and decoder; the decoder alone; one stack (the decoder's) for both sides"
    )
    embedding: Count = Field(256, description="width of an embedding")
    tie: Literal["none", "target", "all"] = Field(
        "none", description="share the output's matrix with the target embedding, or with both"
    )
    dropout: Share = Field(0.1, description="on embeddings, between layers, before the output")
    bridge: Literal["auto", "copy", "project", "zero"] = Field(
        "auto", description="encoder's final state to decoder's first; auto: copy where the shapes agree"
    )
    encoder: EncoderSettings = RecurrentEncoderSettings()
    decoder: DecoderSettings = RecurrentDecoderSettings()
    attention: AttentionSettings = AttentionSettings()

    @property
    def has_source(self) -> bool:
        """Whether the model reads one sequence to write another."""
        return self.kind != "language_model"

    @property
    def recurs(self) -> bool:
        """Whether a recurrent stack is part of it. Only with an encoder of its own does the encoder's kind matter."""
        stacks = (self.encoder, self.decoder) if self.kind == "seq2seq" else (self.decoder,)
        return any(isinstance(stack, RecurrentSettings) for stack in stacks)

    @property
    def attends(self) -> bool:
        """Whether there is an attention over the source (of a language model: over its past) to look at."""
        return isinstance(self.decoder, TransformerSettings) or self.attention.score != "none"

    @model_validator(mode="after")
    def _agree(self) -> ModelSettings:
        for side, stack in (("encoder", self.encoder), ("decoder", self.decoder)):
            if isinstance(stack, TransformerSettings):
                _check_heads(f"model.{side}", stack)
        if isinstance(self.encoder, RecurrentEncoderSettings) and self.encoder.bidirectional:
            if self.encoder.hidden % 2:
                raise ValueError(
                    f"model.encoder.hidden: {self.encoder.hidden} is odd; two directions need an even width"
                )
            if self.encoder.reverse_source:
                raise ValueError("model.encoder.reverse_source: a bidirectional encoder already reads both ways")
        if self.kind == "prefix_lm" and not isinstance(self.decoder, TransformerSettings):
            raise ValueError("model.kind: 'prefix_lm' is one Transformer stack; set model.decoder.kind = 'transformer'")
        attends = self.attention.score != "none"
        feeding = isinstance(self.decoder, RecurrentDecoderSettings) and self.decoder.input_feeding
        if feeding and not (attends and self.attention.placement == "after"):
            raise ValueError(
                "model.decoder.input_feeding: needs an attention placed 'after' the step; "
                "set model.attention.score and model.attention.placement"
            )
        if self.attention.score == "parameter_free" and self.attention.project:
            raise ValueError("model.attention.project: a parameter-free attention learns no projections; use 'dot'")
        return self


def _check_heads(where: str, stack: TransformerSettings) -> None:
    if stack.hidden % stack.heads:
        raise ValueError(f"{where}.heads: {stack.heads} heads do not divide the width {stack.hidden} ({where}.hidden)")
    if stack.key_value_heads and stack.heads % stack.key_value_heads:
        raise ValueError(
            f"{where}.key_value_heads: {stack.key_value_heads} do not divide the {stack.heads} heads ({where}.heads)"
        )
    if stack.positions == "rotary" and stack.hidden // stack.heads % 2:
        raise ValueError(
            f"{where}.positions: 'rotary' turns pairs, but a head is {stack.hidden // stack.heads} wide, an odd number"
        )


class TrainingSettings(Settings):
    """[training]: the loop."""

    steps: Count = Field(10_000, description="updates in all")
    batch_tokens: Count = Field(2_048, description="at most so many tokens a batch on each side")
    accumulate: Count = Field(1, description="batches an update")
    optimiser: Literal["adamw", "adam", "sgd"] = Field("adamw", description="what makes steps of gradients")
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
        "none", description="several workers: each has all weights, or they are divided with gradients and optimiser"
    )


class EvaluationSettings(Settings):
    """[evaluation]"""

    metrics: list[str] = Field(["bleu", "chrf", "exact_match"], description="what `weft evaluate` reports")
    references: Literal["each", "grouped"] = Field(
        "each", description="grouped: pairs with the same source are one item with several references"
    )


class Recipe(Settings):
    """A whole run."""

    name: str = Field("unnamed", description="also the run folder's name under runs/")
    summary: str = Field("", description="one line for people")
    seed: int = Field(1, ge=0, description="of weights, data order, dropout and sampling")
    data: DataSettings = DataSettings()
    tokenizer: TokenizerSettings = TokenizerSettings()
    model: ModelSettings = ModelSettings()
    training: TrainingSettings = TrainingSettings()
    search: SearchSettings = SearchSettings()
    evaluation: EvaluationSettings = EvaluationSettings()

    @field_validator("name")
    @classmethod
    def _a_folder_name(cls, given: str) -> str:
        if not re.fullmatch(r"\w[\w .+-]*", given):
            raise ValueError(f"name: {given!r} was given; it names a folder: letters, digits, space and . + - _ only")
        return given

    @model_validator(mode="after")
    def _agree(self) -> Recipe:
        if self.model.tie == "all" and not self.tokenizer.joint:
            raise ValueError("model.tie: 'all' shares one table of both sides; it needs tokenizer.joint = true")
        for side, stack in (("encoder", self.model.encoder), ("decoder", self.model.decoder)):
            longest, counted = self.data.max_length + 1, "data.max_length + 1"
            prompted = self.model.kind == "language_model" and self.data.prompts
            if (self.model.kind == "prefix_lm" or prompted) and side == "decoder":  # one stack holds both sides
                longest, counted = 2 * longest, f"2 * ({counted})"
            if (
                isinstance(stack, TransformerSettings)
                and stack.positions == "learned"
                and stack.max_positions < longest
            ):
                raise ValueError(
                    f"model.{side}.max_positions: {stack.max_positions} is below {counted} = {longest}; "
                    "raise the one or lower the other"
                )
        if self.training.precision == "bf16" and self.model.recurs:
            raise ValueError("training.precision: 'bf16' is for Transformers; recurrent models train in fp32 or tf32")
        if self.data.prompts and self.model.kind == "language_model" and self.training.forcing != "teacher":
            raise ValueError("data.prompts: prompts are read under training.forcing = 'teacher' only")
        if self.tokenizer.extend and self.training.start is None:
            raise ValueError("tokenizer.extend: there is no tokenizer to extend; start from a run (--from RUN)")
        if self.training.metric != "loss" and not self.training.validate_every:
            raise ValueError("training.metric: a metric needs validations; set training.validate_every")
        return self
