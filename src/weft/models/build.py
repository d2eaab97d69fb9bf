"""From settings to a model on a device. From settings to a corpus: corpus/."""

from __future__ import annotations

import torch
from torch import nn

from weft.attention import Attention, make_score
from weft.errors import RecipeError
from weft.models import AnyModel
from weft.models.bridge import Bridge, Copy, Project, Zero
from weft.models.encoders import RecurrentEncoder, TransformerEncoder
from weft.models.language_model import RecurrentLanguageModel
from weft.models.layers import Embedding, Output
from weft.models.prefix_lm import PrefixLM
from weft.models.recurrent import RecurrentStack
from weft.models.recurrent_decoder import RecurrentDecoder
from weft.models.seq2seq import Seq2Seq
from weft.models.transformer import TransformerStack
from weft.models.transformer_decoder import TransformerDecoder
from weft.recipe import (
    AttentionSettings,
    ModelSettings,
    RecurrentDecoderSettings,
    RecurrentEncoderSettings,
    RecurrentSettings,
    TransformerSettings,
)
from weft.recipe.choices import CELLS, resolve


def choose_device(name: str) -> torch.device:
    """``auto`` is CUDA where there is one."""
    if name == "auto":
        return torch.device("cuda" if torch.cuda.is_available() else "cpu")
    try:
        device = torch.device(name)
    except RuntimeError:
        raise RecipeError(f"training.device: {name!r} is no device; use auto, cpu, cuda or cuda:0") from None
    if device.type not in ("cpu", "cuda"):
        raise RecipeError(f"training.device: {name!r} is not supported; use auto, cpu, cuda or cuda:0")
    if device.type == "cuda" and not torch.cuda.is_available():
        raise RecipeError(f"training.device: {name!r} was asked for, but this machine has no CUDA; use cpu or auto")
    return device


def build_model(settings: ModelSettings, *, source_size: int, target_size: int, seed: int = 1) -> AnyModel:
    """A model with fresh weights, which depend on the seed alone."""
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        if settings.kind == "prefix_lm":
            return _prefix_model(settings, source_size, target_size)
        if settings.kind == "language_model" and isinstance(settings.decoder, TransformerSettings):
            return _prefix_model(settings, None, target_size)
        if settings.kind == "language_model":
            return _language_model(settings, target_size)
        return _seq2seq(settings, source_size, target_size)


def _embedding(
    settings: ModelSettings, stack: RecurrentSettings | TransformerSettings, size: int, tied: Embedding | None = None
) -> Embedding:
    """The table one side reads from. A Transformer drops values only after it has added positions."""
    dropout = 0.0 if isinstance(stack, TransformerSettings) else settings.dropout
    return Embedding(size, settings.embedding, dropout, tied)


def _embeddings(settings: ModelSettings, source_size: int, target_size: int) -> tuple[Embedding, Embedding]:
    """Source and target tables, one and the same where they are tied."""
    if settings.tie == "all" and source_size != target_size:
        raise RecipeError(
            f"model.tie: 'all' needs one vocabulary, but source and target have {source_size} and {target_size}"
        )
    reader = settings.decoder if settings.kind == "prefix_lm" else settings.encoder
    target = _embedding(settings, settings.decoder, target_size)
    return _embedding(settings, reader, source_size, target if settings.tie == "all" else None), target


def _seq2seq(settings: ModelSettings, source_size: int, target_size: int) -> Seq2Seq:
    source_embedding, target_embedding = _embeddings(settings, source_size, target_size)
    encoder, decoder = settings.encoder, settings.decoder
    size = settings.embedding if settings.tie != "none" else decoder.hidden
    made_encoder: RecurrentEncoder | TransformerEncoder
    made_decoder: RecurrentDecoder | TransformerDecoder
    if isinstance(encoder, TransformerSettings):
        made_encoder = TransformerEncoder(_transformer_stack(settings, encoder, bidirectional=True))
    else:
        stack = _stack(
            encoder, inputs=settings.embedding, dropout=settings.dropout, bidirectional=encoder.bidirectional
        )
        made_encoder = RecurrentEncoder(stack, reverse_source=encoder.reverse_source)
    if isinstance(decoder, TransformerSettings):
        stack_of_decoder = _transformer_stack(settings, decoder, bidirectional=False, source_width=encoder.hidden)
        made_decoder = TransformerDecoder(stack_of_decoder, size=size)
    else:
        made_decoder = _recurrent_decoder(settings, decoder, size)
    return Seq2Seq(
        source_embedding=source_embedding,
        target_embedding=target_embedding,
        encoder=made_encoder,
        decoder=made_decoder,
        output=Output(target_size, size, target_embedding if settings.tie != "none" else None),
    )


def _recurrent_decoder(settings: ModelSettings, decoder: RecurrentDecoderSettings, size: int) -> RecurrentDecoder:
    encoder, attending = settings.encoder, settings.attention
    attention = None
    context = 0
    if attending.score != "none":
        context = decoder.hidden if attending.project else encoder.hidden
        attention = _attention(attending, queries=decoder.hidden, items=encoder.hidden, context=context)
    summary = encoder.hidden if decoder.feed_summary else 0
    before = attention is not None and attending.placement == "before"
    extra = (context if before else 0) + (size if decoder.input_feeding else 0) + summary
    return RecurrentDecoder(
        _stack(decoder, inputs=settings.embedding + extra, dropout=settings.dropout),
        _bridge(settings, decoder),
        embedding=settings.embedding,
        size=size,
        attention=attention,
        context=context,
        placement=attending.placement,
        input_feeding=decoder.input_feeding,
        summary=summary,
        dropout=settings.dropout,
    )


def _prefix_model(settings: ModelSettings, source_size: int | None, target_size: int) -> PrefixLM:
    """One stack for both sides; without a source, a language model."""
    decoder = settings.decoder
    assert isinstance(decoder, TransformerSettings)
    if source_size is None:
        source, target = None, _embedding(settings, decoder, target_size)
    else:
        source, target = _embeddings(settings, source_size, target_size)
    size = settings.embedding if settings.tie != "none" else decoder.hidden
    return PrefixLM(
        source_embedding=source,
        target_embedding=target,
        stack=_transformer_stack(settings, decoder, bidirectional=source is not None),
        output=Output(target_size, size, target if settings.tie != "none" else None),
    )


def _transformer_stack(
    settings: ModelSettings, stack: TransformerSettings, *, bidirectional: bool, source_width: int | None = None
) -> TransformerStack:
    dropouts = {
        name: settings.dropout for name in ("embedding_dropout", "residual_dropout") if getattr(stack, name) is None
    }
    return TransformerStack(
        stack.model_copy(update=dropouts),
        input_width=settings.embedding,
        bidirectional=bidirectional,
        source_width=source_width,
    )


def _language_model(settings: ModelSettings, size: int) -> RecurrentLanguageModel:
    decoder, attending = settings.decoder, settings.attention
    assert isinstance(decoder, RecurrentSettings)
    embedding = Embedding(size, settings.embedding, settings.dropout)
    stack = _stack(decoder, inputs=settings.embedding, dropout=settings.dropout)
    attention = None
    if attending.score != "none":
        attention = _attention(attending, queries=decoder.hidden, items=decoder.hidden, context=decoder.hidden)
    width = settings.embedding if settings.tie != "none" else decoder.hidden
    return RecurrentLanguageModel(
        embedding=embedding,
        stack=stack,
        size=width,
        output=Output(size, width, embedding if settings.tie != "none" else None),
        attention=attention,
        dropout=settings.dropout,
    )


def _stack(settings: RecurrentSettings, *, inputs: int, dropout: float, bidirectional: bool = False) -> RecurrentStack:
    return RecurrentStack(
        settings.kind,
        inputs=inputs,
        hidden=settings.hidden,
        layers=settings.layers,
        connections=settings.connections,
        layer_norm=settings.layer_norm,
        bidirectional=bidirectional,
        dropout=dropout,
    )


def _attention(settings: AttentionSettings, *, queries: int, items: int, context: int) -> Attention:
    """Attention of ``queries``-wide queries over ``items``-wide states."""
    keys = values = None
    key_size = items
    if settings.project:
        key_size = queries
        keys, values = nn.Linear(items, queries, bias=False), nn.Linear(items, context, bias=False)
    score = make_score(
        settings.score,
        queries=queries,
        keys=key_size,
        size=settings.size or queries,
        temperature=settings.temperature,
    )
    return Attention(score, key_projection=keys, value_projection=values)


def _bridge(settings: ModelSettings, decoder: RecurrentDecoderSettings) -> Bridge:
    encoder = settings.encoder
    parts = resolve(CELLS, decoder.kind).parts
    same_shape = isinstance(encoder, RecurrentEncoderSettings) and (encoder.hidden, encoder.layers, encoder.kind) == (
        decoder.hidden,
        decoder.layers,
        decoder.kind,
    )
    if settings.bridge == "zero":
        return Zero(decoder.hidden, layers=decoder.layers, parts=parts)
    if settings.bridge == "copy" and not same_shape:
        raise RecipeError(
            "model.bridge: 'copy' needs encoder and decoder of the same kind, layers and hidden size; "
            "use 'project', or 'auto'"
        )
    if settings.bridge == "copy" or (settings.bridge == "auto" and same_shape):
        return Copy()
    return Project(encoder.hidden, decoder.hidden, layers=decoder.layers, parts=parts)
