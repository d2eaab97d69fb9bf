"""What a service reports about a model: architecture, sizes, heads, examples."""

from __future__ import annotations

from collections import Counter
from itertools import islice
from typing import TYPE_CHECKING, Any

from weft.errors import WeftError
from weft.models.edited import attentions
from weft.models.ensemble import Ensemble
from weft.models.hard_attention import HardAttentionSeq2Seq
from weft.models.interface import HasCopyProbabilities
from weft.models.language_model import RecurrentLanguageModel
from weft.models.prefix_lm import PrefixLM
from weft.models.seq2seq import EncoderDecoder
from weft.models.transformer import TransformerStack
from weft.recipe.choices import CELLS
from weft.text.frames import DEFAULT_RULES, FrameRules

if TYPE_CHECKING:
    from weft.models.interface import Model
    from weft.text.tokenizer import Tokenizers
    from weft.translation.translator import Translator

EXAMPLES = 8


def model_info(translator: Translator) -> dict[str, Any]:
    """All that is known of a model without searching."""
    recipe, model = translator.recipe, translator.model
    sizes = heads_of(model)
    stacks = [module for module in model.modules() if isinstance(module, TransformerStack)]
    return {
        "title": recipe.summary or recipe.name,
        "architecture": architecture(model),
        "description": describe(translator),
        "has_source": recipe.source_role != "none",
        "attends": recipe.model.attends and recipe.source_role == "text",
        "heads": any(sizes.values()),
        "heads_of": sizes,
        "copies": isinstance(model, HasCopyProbabilities),
        "editable": any(role.reads_source for role, _ in attentions(model)),
        "source_columns": translator.source_columns,
        **languages(translator.tokenizers),
        "parameters": sum(parameter.numel() for parameter in model.parameters()),
        "vocabulary": {"source": translator.tokenizers.source.size, "target": translator.tokenizers.target.size},
        "positions": stacks[0].settings.positions if stacks else None,
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


def architecture(model: Model) -> str:
    if isinstance(model, Ensemble):
        return "ensemble"
    if isinstance(model, HardAttentionSeq2Seq):
        return "hard_attention"
    if isinstance(model, PrefixLM):
        return "language_model" if model.source_embedding is None else "prefix_lm"
    if isinstance(model, RecurrentLanguageModel):
        return "language_model"
    if isinstance(model, EncoderDecoder):
        return "transformer" if hasattr(model.decoder, "alignment_layer") else "recurrent"
    return "other"


def heads_of(model: Model) -> dict[str, list[int] | None]:
    """For every kind of attention how many layers and how many heads it has."""
    sizes: dict[str, list[int] | None] = dict.fromkeys(("encoder", "decoder", "cross", "copy"))
    for role, module in attentions(model):
        for kind in ("encoder", "decoder") if role.kind == "prefix" else (role.kind,):
            heads = module.output.in_features // module.head_width if role.multihead else 1  # type: ignore[union-attr, operator]
            layers, most = sizes[kind] or [0, 0]
            sizes[kind] = [max(layers, role.layer + 1), max(most, int(heads))]
    return sizes


def _kind(name: str) -> str:
    """A kind of encoder or decoder as people write it: LSTM, Transformer."""
    names = {"transformer": "Transformer", "attention": "attention-only"}
    return names.get(name, name.upper() if name in CELLS else name)


def describe(translator: Translator) -> str:
    """The model in a few words."""
    settings = translator.recipe.model
    parts = [f"{_kind(settings.decoder.kind)} decoder, {settings.decoder.layers} × {settings.decoder.hidden}"]
    if settings.kind == "seq2seq":
        parts.insert(
            0, f"{_kind(settings.encoder.kind)} encoder, {settings.encoder.layers} × {settings.encoder.hidden}"
        )
    if settings.recurs and settings.attention.score != "none":
        parts.append(f"{settings.attention.score} attention")
    return "; ".join(parts)


def examples(translator: Translator) -> list[dict[str, str | None]]:
    """Sources of the run's own kind, with their targets: the first of its test or validation set that are short."""
    from weft.preparation import read_corpus

    for split in ("test", "valid"):
        try:
            pairs = list(islice(read_corpus(translator.recipe, split, Counter()), 10 * EXAMPLES))
        except (WeftError, OSError):  # the files are elsewhere
            continue
        short = sorted(pairs, key=lambda pair: len(pair.source))[: len(pairs) // 2 + EXAMPLES]
        chosen = {pair.source: pair.target for pair in pairs if pair in short}
        if chosen:
            has_source = translator.source_role != "none"
            items = list(chosen.items())[:EXAMPLES]
            return [
                {"source": source if has_source else target.split(" ")[0], "target": target} for source, target in items
            ]
    return []
