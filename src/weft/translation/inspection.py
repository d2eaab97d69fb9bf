"""Looking into a model: the attention weights of every head of every layer, and the tokens that it copies."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from copy import copy
from dataclasses import replace
from typing import TYPE_CHECKING, Any, NamedTuple

import torch

from weft.errors import SearchError
from weft.models.architecture import architecture_of
from weft.models.interface import HasCopyProbabilities, Model
from weft.ragged import Ragged
from weft.text import specials
from weft.translation.engines.torch import Execution, TorchEngine
from weft.translation.pipeline import NO_TOKEN
from weft.translation.results import CopiedTokens, HeadAttention, Translation, WordAttention

if TYPE_CHECKING:
    from weft.attention.edits import AttentionEdits
    from weft.translation.translator import Translator


class NamedTokens(NamedTuple):
    """The tokens of a text, the end token included."""

    ids: Sequence[int]
    names: list[str]
    """Names for display."""


BEGIN_TOKEN = NamedTokens([specials.BEGIN], [specials.SPECIALS[specials.BEGIN]])
"""The first decoder input of weft's own models."""


def edited_translator(run: Translator, edits: AttentionEdits) -> Translator:
    """See `Translator.with_edits`."""
    from weft.models.edited import edit_attention

    model = edit_attention(run.model, edits)
    engine = TorchEngine(model, run.tokenizers.target, device=run.device, seed=run.recipe.seed)
    engine.execution = Execution(model, run.device)  # steps that are edited differ: they cannot be recorded
    edited = copy(run)
    edited.model, edited.engine = model, engine
    return edited


def attention_heads(
    model: Model,
    source_tokens: NamedTokens,
    target_tokens: NamedTokens,
    *,
    begin: NamedTokens = BEGIN_TOKEN,
    device: torch.device | str = "cpu",
) -> list[HeadAttention]:
    """The attention of every head for a source and a target; empty if there is none. A language model has no source.

    ``begin``: the first input of the decoder.
    """
    described = architecture_of(model)
    if described.members:
        raise SearchError("this is an ensemble, which has no heads; inspect its members individually")
    with torch.no_grad():
        inputs = Ragged.of([target_tokens.ids], device).shifted(begin.ids[0])
        records = model(Ragged.of([source_tokens.ids], device), inputs, return_attention=True).attention
    source, target = source_tokens.names, target_tokens.names
    history = [*begin.names, *target[:-1]]
    keys = {
        "encoder": source,
        "cross": source,
        "copy": source,
        "decoder": [*source, *history] if described.kind == "prefix_lm" else history,
        "history": [NO_TOKEN, *history[:-1]],
    }
    return [
        HeadAttention(
            "decoder" if record.kind == "history" else record.kind,
            record.layer + 1,
            head + 1,
            weights_TS.double().cpu().numpy(),
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
    translator, search = translator.in_languages(search)
    source_tokens, target_tokens, begin = tokens_of_pair(translator, source, target, search)
    heads = attention_heads(translator.model, source_tokens, target_tokens, begin=begin, device=translator.device)
    if not heads:
        raise SearchError(f"{translator.recipe.name}: this model has no attention: nothing to show")
    return heads


def tokens_of_pair(
    translator: Translator, source: str, target: str | Sequence[int] | None, search: Mapping[str, Any]
) -> tuple[NamedTokens, NamedTokens, NamedTokens]:
    """The tokens of a source, those of a target or of the translation that a search finds, and the first input.

    ``target``: a text, or ids without the end token. Of a language model without a target: the text given as source.
    """
    frame, end = translator.tokenizers.frame, [specials.END]
    has_source = translator.recipe.model.has_source
    if isinstance(target, str):
        target_ids = [*translator.encode_target(target, source), *end]
    elif target is not None:
        target_ids = [*target, *end]
    elif has_source:
        _check_not_empty(source)
        result = translator.translate(source, return_attention=False, **search)
        target_ids = [*result.ids, *(end if result.ended == "end" else [])]
    else:
        target_ids = [*translator.tokenizers.target.encode(source), *end]
    target_ids = [*frame.target_before, *target_ids]
    tokenizers, source_tokens = translator.tokenizers_for(source), NamedTokens([], [])
    if has_source:
        names = translator.text.source_tokens(tokenizers, translator.encoded_source(source)[1])
        source_tokens = NamedTokens(translator.source_ids(source), names)
    target_tokens = NamedTokens(target_ids, tokenizers.target.tokens(target_ids))
    begin = NamedTokens([frame.begin], tokenizers.target.tokens([frame.begin]))
    return source_tokens, target_tokens, begin


def _check_not_empty(source: str) -> None:
    """Refuse a source without text: it is not searched, so it has no translation that attends to it."""
    if not source.strip():
        raise SearchError("the text to translate is empty: there is no attention to show")


def copied_tokens(
    model: Model, source_ids: Sequence[int], target: NamedTokens, *, device: torch.device | str = "cpu"
) -> CopiedTokens | None:
    """The copied share of each token of a target; None for a model that does not copy."""
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

    translator, settings = run.in_languages(search)
    if target is None:
        _check_not_empty(source)
        result = translator.translate(source, **settings)
    else:
        [result] = translator.force_decode([Pair(source, target)])
    result = with_positions(run, result)
    if result.attention is None:
        raise SearchError(
            f"{run.recipe.name}: this model has no attention to show; look at its heads with `heads`"
            if run.recipe.model.attends
            else f"{run.recipe.name}: this model has no attention (model.attention.score = 'none'): nothing to show"
        )
    return result, result.word_attention or WordAttention(result.attention, result.source_tokens, result.tokens)


def with_positions(run: Translator, translation: Translation) -> Translation:
    """The output of a CTC model with the states at which its labels are, in place of attention; any other as it is."""
    if translation.attention is not None or not translation.ids or architecture_of(run.model).kind != "ctc":
        return translation
    from weft.models.ctc import BLANK
    from weft.search.ctc import label_positions

    tokenizers, source = run.encoded_source(translation.source)
    with torch.no_grad():
        memory: Any = run.model.encode(Ragged.of([source.ids], run.device))
    positions_TS = label_positions(memory.log_p_BTV[0], translation.ids, blank=BLANK)
    if positions_TS is None or not run.recipe.tokenizer.reads_arrays:
        return replace(translation, attention=positions_TS)
    names = run.text.source_tokens(tokenizers, source)
    return replace(translation, attention=positions_TS, source_tokens=names)


def copied_tokens_of(run: Translator, translation: Translation) -> CopiedTokens | None:
    """`copied_tokens` of a translation by this run; None if it is empty."""
    if not translation.ids:
        return None
    ids = [*translation.ids, *([specials.END] if translation.ended == "end" else [])]
    names = run.tokenizers_for(translation.source).target.tokens(ids)
    return copied_tokens(run.model, run.source_ids(translation.source), NamedTokens(ids, names), device=run.device)
