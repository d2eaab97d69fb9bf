"""[model]: the network."""

from __future__ import annotations

from typing import Annotated, Any, Literal

from pydantic import Discriminator, Field, Tag, model_validator

from weft.recipe.base import Count, CountOrNone, Settings, Share
from weft.recipe.choices import ENCODERS, CellName, EncoderName, ScoreName


class RecurrentSettings(Settings):
    """What a stack of recurrent layers has, on either side."""

    kind: CellName = Field("lstm", description="the cell, or transformer")
    layers: Count = Field(1, description="number of layers")
    hidden: Count = Field(512, description="width of a state, both directions together")
    connections: Literal["plain", "residual", "dense"] = Field("plain", description="between layers")
    layer_norm: bool = Field(False, description="normalize what a layer gives")


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

    kind: EncoderName = Field(  # type: ignore[assignment]
        "transformer", description="attention: without feed-forward networks"
    )


class TransformerDecoderSettings(TransformerSettings):
    """[model.decoder] of kind transformer"""


def _family(given: Any) -> str:
    """Which settings a stack has, by its kind."""
    kind = given.get("kind", "lstm") if isinstance(given, dict) else getattr(given, "kind", "lstm")
    return "<transformer>" if kind in [*ENCODERS] else "<recurrent>"


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

    score: ScoreName = Field("general", description="how a query is compared with a key; none: no attention")
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
