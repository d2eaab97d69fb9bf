"""[model]: the network."""

from __future__ import annotations

from typing import Annotated, Any, Literal

from pydantic import Discriminator, Field, Tag, model_validator

from weft.recipe.base import Count, CountOrNone, Layers, Settings, Share, Width
from weft.recipe.choices import ENCODERS, CellName, EncoderName, HardName, NormalizerName, ScoreName, WindowName
from weft.recipe.stem import StemSettings


class RecurrentSettings(Settings):
    """A stack of recurrent layers, in an encoder or a decoder."""

    kind: CellName = Field("lstm", description="kind of network: a recurrent cell, or another")
    layers: Layers = Field(1, description="number of layers")
    hidden: Width = Field(512, description="hidden size")
    connections: Literal["plain", "residual", "dense"] = Field("plain", description="connections between layers")
    layer_norm: bool = Field(False, description="layer normalization of the outputs of each layer")


class RecurrentEncoderSettings(RecurrentSettings):
    """[model.encoder] of kind rnn, gru or lstm"""

    hidden: Width = Field(512, description="hidden size; if bidirectional, of both directions together")
    bidirectional: bool = Field(True, description="run over the source in both directions")
    reverse_source: bool = Field(False, description="reverse the order of the source tokens")


class RecurrentDecoderSettings(RecurrentSettings):
    """[model.decoder] of kind rnn, gru or lstm"""

    input_feeding: bool = Field(False, description="feed the previous attentional vector to the next step")
    feed_summary: bool = Field(False, description="feed the final state of the encoder to every step")


class TransformerSettings(Settings):
    """A stack of Transformer layers, in an encoder or a decoder."""

    kind: Literal["transformer"] = Field("transformer", description="kind of network")
    layers: Layers = Field(6, description="number of layers")
    hidden: Width = Field(512, description="hidden size")
    heads: Width = Field(8, description="attention heads; they divide the hidden size, unless head_size is set")
    key_value_heads: int = Field(
        0, ge=0, le=1_000_000, description="key-value heads (grouped-query); 0: as many as heads"
    )
    head_size: int = Field(0, ge=0, le=1_000_000, description="size of a head; 0: the hidden size divided by the heads")
    feed_forward: Width = Field(2048, description="inner size of the feed-forward networks")
    activation: Literal["relu", "gelu", "gelu_tanh", "silu", "swiglu", "geglu", "geglu_tanh"] = Field(
        "relu", description="of the feed-forward networks; gated: swiglu, geglu, and geglu_tanh as in T5 1.1"
    )
    norm: Literal["layer", "rms"] = Field("layer", description="LayerNorm or RMSNorm")
    norm_epsilon: float = Field(1e-5, gt=0, le=1, description="added to the variance that a norm divides by")
    norm_placement: Literal["pre", "post"] = Field(
        "pre", description="normalize before each sub-layer, or after it as in the original Transformer"
    )
    positions: Literal["sinusoidal", "learned", "relative", "rotary", "alibi", "none"] = Field(
        "sinusoidal", description="position encoding"
    )
    max_positions: int = Field(1_024, ge=1, le=10_000_000, description="learned positions: maximum sequence length")
    sinusoids: Literal["interleaved", "halves", "tensor2tensor"] = Field(
        "interleaved",
        description="sinusoidal positions: sines and cosines alternating; all sines, then all cosines; or the latter "
        "with the wavelengths of Tensor2Tensor and fairseq",
    )
    first_position: int = Field(0, ge=0, le=1_000_000, description="sinusoidal positions: the number of the first one")
    relative_buckets: int = Field(
        32, ge=4, le=65_536, description="relative positions: number of ranges of distances that share a bias"
    )
    relative_max_distance: int = Field(
        128, ge=2, le=10_000_000, description="relative positions: distances of at least this share one bias"
    )
    relative_per_layer: bool = Field(
        False, description="relative positions: a table of biases for each layer, not one for all"
    )
    scale_embedding: bool = Field(True, description="multiply embeddings by the square root of their size")
    embedding_norm: bool = Field(False, description="normalize the sum of embedding and position")
    embedding_dropout: Share | None = Field(None, description="dropout of embeddings; if not set, model.dropout")
    residual_dropout: Share | None = Field(None, description="dropout of sub-layer outputs; if not set, model.dropout")
    attention_dropout: Share = Field(0.0, description="dropout of attention weights")
    activation_dropout: Share = Field(0.0, description="dropout inside the feed-forward networks")

    @property
    def head_width(self) -> int:
        """The size of a head."""
        return self.head_size or self.hidden // self.heads

    @property
    def kv_heads(self) -> int:
        """The number of key–value heads."""
        return self.key_value_heads or self.heads

    @property
    def gated(self) -> bool:
        """Whether the feed-forward networks are gated linear units."""
        return self.activation in ("swiglu", "geglu", "geglu_tanh")


class TransformerEncoderSettings(TransformerSettings):
    """[model.encoder] of kind transformer or attention"""

    kind: EncoderName = Field(  # type: ignore[assignment]
        "transformer", description="transformer, or attention: without feed-forward networks"
    )


class TransformerDecoderSettings(TransformerSettings):
    """[model.decoder] of kind transformer"""

    alignment_heads: list[Annotated[list[CountOrNone], Field(min_length=2, max_length=2)]] = Field(
        [],
        description="heads whose attention to the source is the word alignment, as [layer, head], both from 0; "
        "none: all heads of the layer below the top one",
    )


def _family(stack: Any) -> str:
    """The class of settings of a stack, by its kind."""
    kind = stack.get("kind", "lstm") if isinstance(stack, dict) else getattr(stack, "kind", "lstm")
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
    """[model.attention]: for a Transformer, only the normalizer applies, to every head"""

    score: ScoreName = Field("general", description="score function of queries and keys; none: no attention")
    normalizer: NormalizerName = Field(
        "softmax", description="from scores to weights; sparsemax and entmax15 make small weights exactly zero"
    )
    placement: Literal["after", "before"] = Field(
        "after", description="attend after the recurrent step (Luong) or before it (Bahdanau)"
    )
    window: WindowName = Field(
        "none", description="local attention around the position of the step, or around one that is predicted"
    )
    window_size: Count = Field(10, description="local attention: source tokens to each side of the position")
    coverage: Literal["none", "sum", "fertility"] = Field(
        "none",
        description="additive and concat scores: how much attention each source token has received, as a sum or "
        "divided by its predicted fertility",
    )
    location: bool = Field(
        False, description="additive and concat scores: a convolution over the weights of the step before"
    )
    location_filters: Width = Field(10, description="location: number of filters")
    location_width: Width = Field(7, description="location: source tokens that a filter spans, an odd number")
    hard: HardName = Field(
        "none",
        description="emit each token from one source position and sum over all alignments: zeroth: any positions; "
        "monotonic: never back; first: 0 to max_jump further, depending on the position before",
    )
    max_jump: Width = Field(
        4, description="hard = first: source positions that an alignment can advance by in one step"
    )
    size: int = Field(
        0,
        ge=0,
        le=1_000_000,
        description="hidden size of additive and concat scores and of hard = first; 0: that of the decoder",
    )
    project: bool = Field(False, description="learn projections of keys and values")
    temperature: float = Field(0.1, gt=0, description="cosine score: temperature that divides it")


class SourceSettings(Settings):
    """[model.sources]: several columns of a table as separate sources"""

    count: int = Field(1, ge=1, le=16, description="source columns that stay apart; 1: they are joined into one text")
    encoders: Literal["separate", "shared", "joint"] = Field(
        "separate",
        description="one encoder per column; one that reads each column separately; or one that reads them as one",
    )
    attention: Literal["parallel", "flat"] = Field(
        "parallel",
        description="an attention to each column, their outputs combined; or one attention to all states together",
    )

    @property
    def separate_attentions(self) -> int:
        """Number of attentions to the source at each place of a decoder."""
        return self.count if self.attention == "parallel" else 1

    @property
    def final_states(self) -> int:
        """Number of concatenated final states of encoders."""
        return 1 if self.encoders == "joint" else self.count


class ModelSettings(Settings):
    """[model]: the network."""

    kind: Literal["seq2seq", "language_model", "prefix_lm", "ctc"] = Field(
        "seq2seq",
        description="encoder and decoder; decoder only; one decoder stack for source and target; or encoder only, "
        "trained by CTC: for targets in the order of their sources, and shorter",
    )
    embedding: Width = Field(256, description="embedding size")
    tie: Literal["none", "target", "inputs", "all"] = Field(
        "none",
        description="share one matrix: target: the target embedding and the output projection; inputs: both "
        "embeddings; all: both embeddings and the output projection",
    )
    dropout: Share = Field(0.1, description="dropout of embeddings, between layers and before the output projection")
    bridge: Literal["auto", "copy", "project", "zero"] = Field(
        "auto", description="initial decoder state from the final encoder state; auto: copy if the shapes agree"
    )
    copies: bool = Field(  # `copy` is a method of every pydantic model
        False,
        alias="copy",
        description="copy source tokens: mix the output distribution with the attention over the source",
    )
    encoder: EncoderSettings = RecurrentEncoderSettings()
    decoder: DecoderSettings = RecurrentDecoderSettings()
    attention: AttentionSettings = AttentionSettings()
    sources: SourceSettings = SourceSettings()
    stem: StemSettings = StemSettings()

    @property
    def ties_output(self) -> bool:
        """Whether the output projection is the target embedding."""
        return self.tie in ("target", "all")

    @property
    def ties_inputs(self) -> bool:
        """Whether source and target embedding are one matrix."""
        return self.tie in ("inputs", "all")

    @property
    def has_source(self) -> bool:
        """Whether the model has a separate source sequence."""
        return self.kind != "language_model"

    @property
    def recurs(self) -> bool:
        """Whether any stack is recurrent. The kind of the encoder matters only if the model has one."""
        stacks = {"seq2seq": (self.encoder, self.decoder), "ctc": (self.encoder,)}.get(self.kind, (self.decoder,))
        return any(isinstance(stack, RecurrentSettings) for stack in stacks)

    @property
    def attends(self) -> bool:
        """Whether there is attention over the source or, in a language model, over the history."""
        if self.kind == "ctc":
            return False
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
        _check_attention(self)
        _check_alignment_heads(self)
        if self.attention.hard != "none":
            _check_hard_attention(self)
        _check_sources(self)
        _check_copying(self)
        if self.attention.score == "parameter_free" and self.attention.project:
            raise ValueError("model.attention.project: a parameter-free attention learns no projections; use 'dot'")
        return self


def _check_attention(model: ModelSettings) -> None:
    """Windows and histories belong to the attention of a recurrent decoder over a source."""
    attention = model.attention
    names = [name for name in ("window", "coverage") if getattr(attention, name) != "none"]
    names += ["location"] if attention.location else []
    for name in names:
        where = f"model.attention.{name}"
        if isinstance(model.decoder, TransformerSettings):
            raise ValueError(f"{where}: not available for Transformers; set model.decoder.kind = 'lstm' or 'gru'")
        if model.kind == "language_model":
            raise ValueError(f"{where}: a language model has no source to attend to; use model.kind = 'seq2seq'")
        if attention.score == "none":
            raise ValueError(f"{where}: this model has no attention; set model.attention.score")
        if name != "window" and attention.score not in ("additive", "concat"):
            raise ValueError(
                f"{where}: needs the hidden layer of an additive score; set model.attention.score = 'additive' or "
                f"'concat' (it is '{attention.score}')"
            )
    if attention.location and attention.location_width % 2 == 0:
        raise ValueError(f"model.attention.location_width: {attention.location_width} is even; choose an odd number")


def _check_alignment_heads(model: ModelSettings) -> None:
    """The heads exist, and nothing else is the alignment."""
    decoder = model.decoder
    if not isinstance(decoder, TransformerDecoderSettings) or not decoder.alignment_heads:
        return
    where = "model.decoder.alignment_heads"
    if model.kind != "seq2seq" or model.copies or model.sources.count > 1:
        reason = "model.kind is not 'seq2seq'" if model.kind != "seq2seq" else "it copies" if model.copies else None
        raise ValueError(f"{where}: not for this model: {reason or 'it has several sources'}")
    for layer, head in decoder.alignment_heads:
        if layer >= decoder.layers or head >= decoder.heads:
            raise ValueError(
                f"{where}: [{layer}, {head}] is not a head; there are layers 0 to {decoder.layers - 1} with heads 0 to "
                f"{decoder.heads - 1}"
            )
    if len({*map(tuple, decoder.alignment_heads)}) < len(decoder.alignment_heads):
        raise ValueError(f"{where}: names a head twice")


def _check_hard_attention(model: ModelSettings) -> None:
    """Hard attention takes the place of a recurrent decoder's weighted sum, and of all that depends on that sum."""
    where, attention, decoder = f"model.attention.hard: '{model.attention.hard}'", model.attention, model.decoder
    if model.kind != "seq2seq":
        raise ValueError(f"{where} aligns a target with a source; use model.kind = 'seq2seq'")
    if not isinstance(decoder, RecurrentDecoderSettings):
        raise ValueError(f"{where} needs a recurrent decoder; set model.decoder.kind = 'lstm' or 'gru'")
    for name, value, neutral in (
        ("model.decoder.input_feeding", decoder.input_feeding, False),
        ("model.decoder.feed_summary", decoder.feed_summary, False),
        ("model.attention.placement", attention.placement, "after"),
        ("model.attention.normalizer", attention.normalizer, "softmax"),
        ("model.attention.window", attention.window, "none"),
        ("model.attention.coverage", attention.coverage, "none"),
        ("model.attention.location", attention.location, False),
        ("model.attention.project", attention.project, False),
    ):
        if value != neutral:
            raise ValueError(f"{name}: hard attention has no weighted sum of source states; set it to {_toml(neutral)}")
    if attention.score == "none":
        raise ValueError(f"{where} needs a score; set model.attention.score")


def _toml(value: str | bool) -> str:
    """A setting's value as it is written in a recipe."""
    return f"'{value}'" if isinstance(value, str) else str(value).lower()


def _check_sources(model: ModelSettings) -> None:
    """Several sources belong to a model with an encoder."""
    sources = model.sources
    if sources.count == 1:
        return
    where = f"model.sources.count: {sources.count} sources"
    if model.kind != "seq2seq":
        raise ValueError(f"{where} need encoders; set model.kind = 'seq2seq' (it is '{model.kind}')")
    if model.bridge == "copy" and sources.final_states > 1:
        raise ValueError(f"{where} have as many final states; set model.bridge = 'project' or 'auto'")
    if model.attention.window != "none" and sources.attention == "parallel":
        raise ValueError(f"{where} have no position in common for a window; set model.sources.attention = 'flat'")


def _check_copying(model: ModelSettings) -> None:
    """Copying needs an attention over a separate source."""
    if not model.copies:
        return
    if model.kind != "seq2seq":
        raise ValueError(f"model.copy: needs an encoder to copy from; model.kind is '{model.kind}', use 'seq2seq'")
    if not model.attends:
        raise ValueError("model.copy: this model has no attention to copy by; set model.attention.score")


def _check_heads(where: str, stack: TransformerSettings) -> None:
    if stack.hidden % stack.heads and not stack.head_size:
        raise ValueError(f"{where}.heads: {stack.heads} heads do not divide the width {stack.hidden} ({where}.hidden)")
    if stack.key_value_heads and stack.heads % stack.key_value_heads:
        raise ValueError(
            f"{where}.key_value_heads: {stack.key_value_heads} do not divide the {stack.heads} heads ({where}.heads)"
        )
    if stack.positions == "rotary" and stack.head_width % 2:
        size = stack.head_width
        raise ValueError(f"{where}.positions: 'rotary' rotates pairs of dimensions; a head has {size}, an odd number")
    if stack.positions == "relative" and stack.relative_max_distance <= stack.relative_buckets // 2:
        raise ValueError(
            f"{where}.relative_max_distance: {stack.relative_max_distance} is not above half of "
            f"{where}.relative_buckets = {stack.relative_buckets}; raise one or lower the other"
        )
