"""Translators whose attention is edited (`Translator.with_edits`)."""

from __future__ import annotations

from typing import TYPE_CHECKING

from weft.attention.edits import AttentionEdits
from weft.models.edited import edit_attention
from weft.translation.engines.torch import TorchEngine

if TYPE_CHECKING:
    from weft.translation.translator import Translator


def edited_translator(translator: Translator, edits: AttentionEdits) -> Translator:
    """A translator of the same model with edits, by PyTorch."""
    model, device = edit_attention(translator.model, edits), translator.device
    engine = TorchEngine(model, translator.tokenizers.target, device=device, seed=translator.recipe.seed)
    engine.loop = engine.encoder_graphs = None  # the steps of a search differ: they cannot be recorded once for all
    edited = type(translator)(
        model, translator.tokenizers, translator.recipe, device=device, engine=engine, folder=translator.folder
    )
    edited.length_limits = translator.length_limits
    return edited
