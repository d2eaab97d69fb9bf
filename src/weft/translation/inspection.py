"""Looking into a model: the attention weights of every head of every layer, and the tokens that it copies."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
import torch

from weft.errors import SearchError
from weft.models.edited import unedited
from weft.models.ensemble import Ensemble
from weft.models.interface import HasCopyProbabilities, Model
from weft.models.prefix_lm import PrefixLM
from weft.ragged import Ragged
from weft.text import specials
from weft.translation.languages import in_languages
from weft.translation.postprocessing import NO_TOKEN
from weft.translation.results import CopiedTokens, HeadAttention, Translation, WordAttention

if TYPE_CHECKING:
    from weft.translation.translator import Translator


class NamedTokens(NamedTuple):
    """The tokens of a text, the end token included."""

    ids: Sequence[int]
    names: list[str]
    """For display."""


BEGIN_TOKEN = NamedTokens([specials.BEGIN], [specials.SPECIALS[specials.BEGIN]])
"""What the decoder of weft's own models reads first."""


def attention_heads(
    model: Model,
    source_tokens: NamedTokens,
    target_tokens: NamedTokens,
    *,
    begin: NamedTokens = BEGIN_TOKEN,
    device: torch.device | str = "cpu",
) -> list[HeadAttention]:
    """The attention of every head for a source and a target; empty if there is none. A language model has no source.

    ``begin``: what the decoder reads first.
    """
    if isinstance(model, Ensemble):
        raise SearchError("this is an ensemble: it has no heads of its own; inspect its members one by one")
    with torch.no_grad():
        inputs = Ragged.of([target_tokens.ids], device).shifted(begin.ids[0])
        records = model(Ragged.of([source_tokens.ids], device), inputs, return_attention=True).attention
    source, target = source_tokens.names, target_tokens.names
    history = [*begin.names, *target[:-1]]
    keys = {
        "encoder": source,
        "cross": source,
        "copy": source,
        "decoder": [*source, *history] if isinstance(unedited(model), PrefixLM) else history,
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


def heads_of_pair(
    translator: Translator, source: str, target: str | None, search: Mapping[str, Any]
) -> list[HeadAttention]:
    """The heads for a source and a target, or for the translation that a search finds."""
    translator, search = in_languages(translator, search)
    frame, end = translator.tokenizers.frame, [specials.END]
    has_source = translator.recipe.model.has_source
    if target is not None:
        target_ids = [*translator.encode_target(target, source), *end]
    elif has_source:
        result = translator.translate(source, return_attention=False, **search)
        target_ids = [*result.ids, *(end if result.ended == "end" else [])]
    else:
        target_ids = [*translator.tokenizers.target.encode(source), *end]
    target_ids = [*frame.target_before, *target_ids]
    tokenizers, source_tokens = translator.tokenizers_for(source), NamedTokens([], [])
    if has_source:
        names = tokenizers.source.tokens(translator.encoded_source(source)[1].ids)
        source_tokens = NamedTokens(translator.source_ids(source), names)
    target_tokens = NamedTokens(target_ids, tokenizers.target.tokens(target_ids))
    begin = NamedTokens([frame.begin], tokenizers.target.tokens([frame.begin]))
    return attention_heads(translator.model, source_tokens, target_tokens, begin=begin, device=translator.device)


def copied_tokens(
    model: Model, source_ids: Sequence[int], target: NamedTokens, *, device: torch.device | str = "cpu"
) -> CopiedTokens | None:
    """How much of each token of a target is copied; None for a model that does not copy."""
    if not isinstance(model, HasCopyProbabilities):
        return None
    targets = Ragged.of([target.ids], device)
    with torch.no_grad():
        inputs = targets.shifted(specials.BEGIN)
        gates_N, copied_N = model.copy_probabilities(Ragged.of([source_ids], device), inputs, targets.values)
    return CopiedTokens(target.names, copied_N.tolist(), gates_N.tolist())


def attention_over_words(
    run: Translator, source: str, target: str | None, search: Mapping[str, Any]
) -> tuple[Translation, WordAttention]:
    """A translation, or the given target, and its attention over words."""
    from weft.data.pairs import Pair

    translator, settings = in_languages(run, dict(search))
    if target is None:
        result = translator.translate(source, **settings)
    else:
        [result] = translator.force_decode([Pair(source, target)])
    if result.attention is None:
        raise SearchError(
            f"{run.recipe.name}: this model has no attention to show; look at its heads with `heads`"
            if run.recipe.model.attends
            else f"{run.recipe.name}: this model has no attention (model.attention.score = 'none'): nothing to show"
        )
    return result, result.word_attention or WordAttention(result.attention, result.source_tokens, result.tokens)


def copied_tokens_of(run: Translator, translation: Translation) -> CopiedTokens | None:
    """`copied_tokens` of a translation by this run; None if it is empty."""
    if not translation.ids:
        return None
    ids = [*translation.ids, *([specials.END] if translation.ended == "end" else [])]
    names = run.tokenizers_for(translation.source).target.tokens(ids)
    return copied_tokens(run.model, run.source_ids(translation.source), NamedTokens(ids, names), device=run.device)
