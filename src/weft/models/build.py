"""From settings to a model. The modules of a family of models are imported when one is built.

Whether there is memory to train a model is computed before anything is allocated:

    weights in training   n · (4 + 4 + 4 s) bytes     n parameters, their gradients, s values of the optimizer for each
    weights in use        4 n bytes, as are those in training that are frozen

An error names the setting, what it needs and the memory that is available.
"""

from __future__ import annotations

import math
from fnmatch import fnmatchcase
from typing import TYPE_CHECKING, Any, cast

import torch
from torch import nn

from weft.errors import RecipeError
from weft.models.interface import Encoder
from weft.models.layers import Embedding, Output
from weft.models.seq2seq import Seq2Seq
from weft.recipe import ModelSettings, Recipe, RecurrentSettings, TransformerSettings
from weft.recipe.choices import ENCODERS, OUTPUTS, resolve
from weft.runtime.devices import device_memory, gigabytes

if TYPE_CHECKING:
    from weft.models.copying import CopyingSeq2Seq
    from weft.models.ctc import CTCModel
    from weft.models.hard_attention import HardAttentionSeq2Seq
    from weft.models.language_model import RecurrentLanguageModel
    from weft.models.prefix_lm import PrefixLM
    from weft.models.recurrent_decoder import RecurrentDecoder
    from weft.models.stems import Stem
    from weft.models.transformer_decoder import TransformerDecoder

    AnyModel = Seq2Seq | CopyingSeq2Seq | CTCModel | HardAttentionSeq2Seq | RecurrentLanguageModel | PrefixLM

FLOAT_BYTES = 4
OPTIMIZER_VALUES = {"adamw": 2, "adam": 2, "sgd": 1}
"""Values that an optimizer keeps for each parameter."""


def parameter_shapes(settings: ModelSettings, *, source_size: int, target_size: int) -> dict[str, tuple[int, ...]]:
    """The name and the shape of every parameter of a model, without memory for its weights."""
    model = build_on_meta(settings, source_size=source_size, target_size=target_size)
    return {name: tuple(parameter.shape) for name, parameter in model.named_parameters()}


def build_on_meta(
    settings: ModelSettings, *, source_size: int, target_size: int, loss: str = "cross_entropy", ctc: bool = False
) -> AnyModel:
    """A model on the meta device: its parameters and buffers have shapes and no memory.

    To use it, compute its buffers (`reset_buffers`) and assign its parameters (`weft.runs.weights.load_weights`).
    """
    try:
        with torch.device("meta"):
            return _construct(settings, source_size, target_size, resolve(OUTPUTS, loss), ctc=ctc)
    except RuntimeError as error:
        if "overflow" not in str(error):  # of the 64 bits in which torch counts bytes
            raise
        raise RecipeError("model: a matrix of more than 9,000,000 TB; make it smaller") from error


def reset_buffers(model: nn.Module) -> None:
    """Compute the buffers of a model that was constructed on the meta device."""
    for module in model.modules():
        if hasattr(type(module), "reset_buffers"):
            cast(Any, module).reset_buffers()
    if left := [name for name, buffer in model.named_buffers() if buffer.is_meta]:
        raise NotImplementedError(f"{left[0]}: a buffer that no module computes; write its reset_buffers()")


def build_model(
    settings: ModelSettings,
    *,
    source_size: int,
    target_size: int,
    loss: str = "cross_entropy",
    ctc: bool = False,
    seed: int = 1,
) -> AnyModel:
    """A model with fresh weights, which depend on the seed alone; sizes are those of the vocabularies.

    ``loss``: the recipe's training.loss, which decides on the output layer; ``ctc``: whether the encoder has one, too.
    """
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        return _construct(settings, source_size, target_size, resolve(OUTPUTS, loss), ctc=ctc)


def _construct(
    settings: ModelSettings, source_size: int, target_size: int, output: type[Output], *, ctc: bool
) -> AnyModel:
    if settings.kind == "ctc":
        return _ctc(settings, source_size, target_size)
    if settings.kind == "prefix_lm":
        return _prefix_lm(settings, source_size, target_size, output)
    if settings.kind == "language_model" and isinstance(settings.decoder, TransformerSettings):
        return _prefix_lm(settings, None, target_size, output)
    if settings.kind == "language_model":
        from weft.models.language_model import RecurrentLanguageModel

        return RecurrentLanguageModel(settings, vocabulary=target_size, output_class=output)
    if settings.attention.hard != "none":
        return _hard_attention(settings, source_size, target_size)
    network = _seq2seq(settings, source_size, target_size, output, ctc=ctc)
    if not settings.copies:
        return network
    from weft.models.copying import CopyingSeq2Seq

    return CopyingSeq2Seq(network, settings)


def _embedding(
    settings: ModelSettings,
    stack: RecurrentSettings | TransformerSettings,
    vocabulary: int,
    tied: Embedding | None = None,
) -> Embedding:
    """The embedding of one side. A Transformer applies dropout only after it has added positions."""
    dropout = 0.0 if isinstance(stack, TransformerSettings) else settings.dropout
    return Embedding(vocabulary, settings.embedding, dropout, tied)


def _embeddings(settings: ModelSettings, source_size: int, target_size: int) -> tuple[Embedding | Stem, Embedding]:
    """The embedding or stem of the source, and the embedding of the target."""
    if settings.stem.kind == "none":
        return _text_embeddings(settings, source_size, target_size)
    from weft.models.stems import make_stem

    dropout = 0.0 if isinstance(settings.encoder, TransformerSettings) else settings.dropout
    stem = make_stem(settings.stem, width=settings.embedding, dropout=dropout)
    return stem, _embedding(settings, settings.decoder, target_size)


def _text_embeddings(settings: ModelSettings, source_size: int, target_size: int) -> tuple[Embedding, Embedding]:
    """Source and target embeddings, which share one matrix if they are tied."""
    if settings.ties_inputs and source_size != target_size:
        raise RecipeError(
            f"model.tie: '{settings.tie}' needs one vocabulary, but source and target have {source_size} and "
            f"{target_size}"
        )
    source_stack = settings.decoder if settings.kind == "prefix_lm" else settings.encoder
    target = _embedding(settings, settings.decoder, target_size)
    source = _embedding(settings, source_stack, source_size, target if settings.ties_inputs else None)
    if settings.sources.count > 1:
        from weft.models.source_columns import ColumnEmbedding

        source = ColumnEmbedding(source, settings.sources.count)
    return source, target


def _state_size(settings: ModelSettings) -> int:
    """The width of the states that the output layer reads."""
    return settings.embedding if settings.ties_output else settings.decoder.hidden


def _ctc(settings: ModelSettings, source_size: int, target_size: int) -> CTCModel:
    from weft.models.ctc import CTCModel

    return CTCModel(
        source_embedding=_embeddings(settings, source_size, target_size)[0],
        encoder=make_encoder(settings),
        output=Output(target_size, settings.encoder.hidden),
    )


def _seq2seq(
    settings: ModelSettings, source_size: int, target_size: int, output: type[Output], *, ctc: bool
) -> Seq2Seq:
    source_embedding, target_embedding = _embeddings(settings, source_size, target_size)
    size = _state_size(settings)
    encoder = make_encoder(settings)
    decoder: RecurrentDecoder | TransformerDecoder
    if isinstance(settings.decoder, TransformerSettings):
        from weft.models.transformer import make_transformer_stack
        from weft.models.transformer_decoder import TransformerDecoder

        source_width = settings.encoder.hidden
        stack = make_transformer_stack(settings, settings.decoder, bidirectional=False, source_width=source_width)
        decoder = TransformerDecoder(stack, size=size, source_columns=settings.sources.separate_attentions)
    else:
        from weft.models.recurrent_decoder import RecurrentDecoder

        decoder = RecurrentDecoder(settings, size=size)
    parts: dict[str, Any] = {
        "source_embedding": source_embedding,
        "target_embedding": target_embedding,
        "encoder": encoder,
        "decoder": decoder,
        "output": output(target_size, size, target_embedding if settings.ties_output else None),
    }
    if ctc:
        from weft.models.ctc import CTCSeq2Seq

        return CTCSeq2Seq(**parts, ctc_output=Output(target_size, settings.encoder.hidden))
    return Seq2Seq(**parts)


def _hard_attention(settings: ModelSettings, source_size: int, target_size: int) -> HardAttentionSeq2Seq:
    from weft.models.hard_attention import HardAttentionSeq2Seq

    model_class: Any = HardAttentionSeq2Seq
    if settings.copies:
        from weft.models.hard_copying import HardCopyingSeq2Seq

        model_class = HardCopyingSeq2Seq
    source_embedding, target_embedding = _embeddings(settings, source_size, target_size)
    return model_class(
        settings,
        source_embedding=source_embedding,
        target_embedding=target_embedding,
        encoder=make_encoder(settings),
        output=Output(target_size, _state_size(settings), target_embedding if settings.ties_output else None),
    )


def _prefix_lm(settings: ModelSettings, source_size: int | None, target_size: int, output: type[Output]) -> PrefixLM:
    """One stack for both sides; without a source, a language model."""
    from weft.models.prefix_lm import PrefixLM
    from weft.models.transformer import make_transformer_stack

    decoder = settings.decoder
    assert isinstance(decoder, TransformerSettings)
    if source_size is None:
        source, target = None, _embedding(settings, decoder, target_size)
    else:
        source, target = _text_embeddings(settings, source_size, target_size)
    return PrefixLM(
        source_embedding=source,
        target_embedding=target,
        stack=make_transformer_stack(settings, decoder, bidirectional=source is not None),
        output=output(target_size, _state_size(settings), target if settings.ties_output else None),
    )


def make_encoder(settings: ModelSettings) -> Encoder:
    """The encoder of a model, with fresh weights; of several source columns, those of all columns."""
    if settings.sources.count > 1:
        from weft.models.source_columns import ColumnEncoders

        return ColumnEncoders(settings)
    return make_single_encoder(settings)


def make_single_encoder(settings: ModelSettings) -> Encoder:
    """The encoder of one sequence."""
    if settings.encoder.kind in ENCODERS:
        encoder: Encoder = resolve(ENCODERS, settings.encoder.kind)(settings)
        return encoder
    from weft.models.recurrent import RecurrentEncoder

    return RecurrentEncoder(settings)


# Sizes


def parameter_count(settings: ModelSettings, *, source_size: int, target_size: int) -> int:
    """The parameters of a model without its bridge, from models of at most three layers.

    A layer is like the one before it or, with dense connections, wider by the same amount each time. So with
    d = p(3) − p(2) and g = d − (p(2) − p(1)), a stack of 3 + m layers has p(3) + m d + g m (m + 1)/2 parameters.
    """

    def count(**layers: int) -> int:
        depths = {side: min(getattr(settings, side).layers, 3) for side in ("encoder", "decoder")} | layers
        stacks = {side: getattr(settings, side).model_copy(update={"layers": depth}) for side, depth in depths.items()}
        small = settings.model_copy(update={**stacks, "bridge": "zero"})
        shapes = parameter_shapes(small, source_size=source_size, target_size=target_size)
        return sum(map(math.prod, shapes.values()))

    total = three = count()
    for side in ("encoder", "decoder"):
        more = getattr(settings, side).layers - 3
        if more > 0:
            two = count(**{side: 2})
            difference = three - two
            growth = difference - (two - count(**{side: 1}))
            total += more * difference + growth * more * (more + 1) // 2
    return total


def check_training_memory(recipe: Recipe, *, source_size: int, target_size: int, device: torch.device) -> None:
    """Fail if the weights, the gradients and the optimizer's state of a model cannot fit in memory."""
    settings = recipe.model
    parameters = parameter_count(settings, source_size=source_size, target_size=target_size)
    each = FLOAT_BYTES * (2 + OPTIMIZER_VALUES[recipe.training.optimizer])
    if recipe.training.shard == "full" or recipe.training.lora.rank:  # over any number of workers; few are trained
        each = FLOAT_BYTES
    available = device_memory(device)
    if available is None or parameters * each <= available:
        return
    needed, costs = parameters * each, f"{each} bytes each"
    if recipe.training.freeze and parameters * FLOAT_BYTES <= available:
        trained = _trained_parameters(recipe, source_size=source_size, target_size=target_size)
        needed = parameters * FLOAT_BYTES + trained * (each - FLOAT_BYTES)
        costs = f"{each} bytes for each of the {trained:,} that are trained, {FLOAT_BYTES} for the others"
    if needed > available:
        raise RecipeError(
            f"{largest_setting(recipe)}: a model of {parameters:,} parameters needs {gigabytes(needed)} to "
            f"train ({costs}), and {gigabytes(available)} are available on {device}; make it smaller"
        )


def _trained_parameters(recipe: Recipe, *, source_size: int, target_size: int) -> int:
    """The parameters that training.freeze does not match."""
    shapes = parameter_shapes(recipe.model, source_size=source_size, target_size=target_size)
    patterns = recipe.training.freeze
    trained = [name for name in shapes if not any(fnmatchcase(name, pattern) for pattern in patterns)]
    return sum(math.prod(shapes[name]) for name in trained)


def largest_setting(recipe: Recipe) -> str:
    """The setting that most of a model's size is due to: the one that is the largest multiple of its default."""
    model = recipe.model
    candidates: list[tuple[float, str]] = [
        (model.embedding / 256, f"model.embedding = {model.embedding}"),
        (recipe.tokenizer.size / 8_000, f"tokenizer.size = {recipe.tokenizer.size}"),
        (model.attention.size / 512, f"model.attention.size = {model.attention.size}"),
    ]
    for side, stack in (("encoder", model.encoder), ("decoder", model.decoder)):
        if model.kind != "seq2seq" and side != ("encoder" if model.kind == "ctc" else "decoder"):
            continue
        names = ["layers", "hidden"]
        if not isinstance(stack, RecurrentSettings):
            names += ["feed_forward", *(["max_positions"] if stack.positions == "learned" else [])]
        for name in names:
            value, default = getattr(stack, name), type(stack).model_fields[name].default
            candidates.append((value / default, f"model.{side}.{name} = {value}"))
    return max(candidates)[1]
