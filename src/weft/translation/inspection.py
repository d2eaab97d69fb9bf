"""Looking into a model: the attention weights of every head of every layer."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import torch

from weft.errors import SearchError
from weft.models.ensemble import Ensemble
from weft.models.interface import Model
from weft.models.prefix_lm import PrefixLM
from weft.ragged import Ragged
from weft.text import specials
from weft.text.tokenizer import Tokenizers
from weft.translation.postprocessing import NO_TOKEN
from weft.translation.results import HeadAttention


def attention_heads(
    model: Model,
    tokenizers: Tokenizers,
    source_ids: Sequence[int],
    target_ids: Sequence[int],
    *,
    device: torch.device | str = "cpu",
) -> list[HeadAttention]:
    """The attention of every head for a source and a target, both with their end tokens; empty if there is none.

    A language model has no source: its ``source_ids`` are empty.
    """
    if isinstance(model, Ensemble):
        raise SearchError("this is an ensemble: it has no heads of its own; inspect its members one by one")
    with torch.no_grad():
        inputs = Ragged.of([target_ids], device).shifted(specials.BEGIN)
        records = model(Ragged.of([source_ids], device), inputs, return_attention=True).attention
    source = tokenizers.source.tokens(source_ids) if source_ids else []
    target = tokenizers.target.tokens(target_ids)
    history = [specials.SPECIALS[specials.BEGIN], *target[:-1]]
    keys = {
        "encoder": source,
        "cross": source,
        "decoder": [*source, *history] if isinstance(model, PrefixLM) else history,
        "history": [NO_TOKEN, *history[:-1]],
    }
    return [
        HeadAttention(
            "decoder" if record.kind == "history" else record.kind,
            record.layer + 1,
            head + 1,
            weights_TS.cpu().numpy().astype(np.float64),
            keys[record.kind],
            source if record.kind == "encoder" else target,
        )
        for record in records
        for head, weights_TS in enumerate(record.weights_BHTS[0])
    ]
