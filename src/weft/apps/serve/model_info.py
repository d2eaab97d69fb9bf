"""The description of a served model: architecture, sizes, heads, examples."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from weft.apps.serve.walk import has_walk
from weft.attention.ragged_attention import alignment_layer
from weft.models.architecture import Architecture, architecture_of, count_parameters
from weft.models.interface import HasCopyProbabilities
from weft.recipe.choices import CELLS
from weft.recipe.model import TransformerDecoderSettings
from weft.runs.layout import read_examples
from weft.text.frames import DEFAULT_RULES, FrameRules

if TYPE_CHECKING:
    from weft.text.tokenizer import Tokenizers
    from weft.translation.translator import Translator


def model_info(translator: Translator) -> dict[str, Any]:
    """The description of a model, as far as it needs no search."""
    recipe, model = translator.recipe, translator.model
    described = architecture_of(model)
    sizes = heads_of(described)
    positions = [stack.positions for stack in described.stacks if stack.positions is not None]
    return {
        "title": recipe.summary or recipe.name,
        "architecture": architecture_name(described),
        "description": describe(translator),
        "has_source": recipe.source_role != "none",
        "attends": recipe.model.attends and recipe.source_role == "text",
        "heads": any(sizes.values()),
        "heads_of": sizes,
        "has_walk": has_walk(described),
        "shown_heads": shown_heads(translator, sizes),
        "copies": isinstance(model, HasCopyProbabilities),
        "editable": any(attention.role.reads_source for attention in described.attentions),
        "source_columns": translator.source_columns,
        "reads": recipe.tokenizer.kind if recipe.tokenizer.reads_arrays else "text",
        **languages(translator.tokenizers),
        "parameters": count_parameters(model),
        "vocabulary": {"source": translator.tokenizers.source.size, "target": translator.tokenizers.target.size},
        "positions": positions[0] if positions else None,
        "engine": translator.engine.name,
        "precision": translator.engine.precision,
        "device": str(translator.device),
        "search": recipe.search.model_dump(),
    }


def languages(tokenizers: Tokenizers) -> dict[str, Any]:
    """The languages of each side, and the chosen ones, for a model with language tokens."""
    rules: FrameRules = getattr(tokenizers.source, "rules", DEFAULT_RULES)
    tokens = (*rules.source_before, *rules.source_after, rules.begin, *rules.target_before)
    return {
        "languages": {side: list(rules.languages) if side in tokens else [] for side in ("source", "target")},
        "language": {"source": rules.source, "target": rules.target},
    }


def architecture_name(described: Architecture) -> str:
    """As the page and the API name it."""
    if described.kind == "seq2seq":
        return "transformer" if described.is_transformer else "recurrent"
    return "other" if described.kind == "unknown" else described.kind


def heads_of(described: Architecture) -> dict[str, list[int] | None]:
    """For every kind of attention how many layers and how many heads it has."""
    sizes: dict[str, list[int] | None] = dict.fromkeys(("encoder", "decoder", "cross", "copy"))
    for _, role, heads in described.attentions:
        for kind in ("encoder", "decoder") if role.kind == "prefix" else (role.kind,):
            if kind in sizes:
                layers, most = sizes[kind] or [0, 0]
                sizes[kind] = [max(layers, role.layer + 1), max(most, heads)]
    return sizes


def shown_heads(translator: Translator, sizes: dict[str, list[int] | None]) -> str | None:
    """The heads of a Transformer whose mean is the attention of a translation, in words; None if there is one head."""
    layers, heads = sizes["cross"] or (0, 0)
    if layers * heads <= 1:
        return None
    if sizes["copy"] is not None:
        return "the attention by which the model copies"
    settings = translator.recipe.model.decoder
    chosen = sorted(settings.alignment_heads) if isinstance(settings, TransformerDecoderSettings) else []
    if chosen:
        return "mean of " + ", ".join(f"layer {layer + 1} head {head + 1}" for layer, head in chosen)
    return f"mean of the {heads} heads of layer {alignment_layer(layers) + 1} of {layers}"


def _kind(name: str) -> str:
    """A kind of encoder or decoder as people write it: LSTM, Transformer."""
    names = {"transformer": "Transformer", "attention": "attention-only"}
    return names.get(name, name.upper() if name in CELLS else name)


def describe(translator: Translator) -> str:
    """The model in a few words."""
    settings = translator.recipe.model
    sides = {"seq2seq": ("encoder", "decoder"), "ctc": ("encoder",)}.get(settings.kind, ("decoder",))
    stacks = [(side, getattr(settings, side)) for side in sides]
    parts = [f"{_kind(stack.kind)} {side}, {stack.layers} × {stack.hidden}" for side, stack in stacks]
    if settings.kind == "ctc":
        return f"{parts[0]}; CTC"
    if settings.recurs and settings.attention.score != "none":
        parts.append(f"{settings.attention.score} attention")
    return "; ".join(parts)


def examples(translator: Translator) -> list[dict[str, str]]:
    """Sources of the run's own kind, from its folder alone: a stranger's recipe may name any file of this machine."""
    shows_examples = translator.recipe.serve.examples and not translator.recipe.tokenizer.reads_arrays
    if translator.folder is None or not shows_examples:
        return []
    return [{"source": source} for source in read_examples(translator.folder)]
