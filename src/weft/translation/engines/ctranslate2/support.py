"""The models and searches that CTranslate2 supports with the same results. Imports neither torch nor CTranslate2."""

from __future__ import annotations

from importlib.util import find_spec

from weft.recipe import ModelSettings, SearchSettings, TransformerSettings
from weft.recipe.recipe import only_in_weft
from weft.recipe.search import irrelevant_settings
from weft.text.specials import BEGIN, END

STARTS = ((BEGIN,), (END,))
"""Decoder inputs before the first output token that are supported."""
CPU_BATCH = 64
"""Sentences per batch on a CPU, where larger batches gain nothing."""
Values = tuple[object, ...] | None
_SCORING: dict[str, Values] = {"normalization": ("power", "none"), "length_penalty": None, "no_loops": None}
SUPPORTED: dict[str, dict[str, Values]] = {
    "greedy": {**_SCORING, "coverage_penalty": None},
    "beam": {**_SCORING, "size": None, "finish": None, "stop": ("finished", None)},
}
"""The settings with the same meaning in CTranslate2, for each search.kind, and for which values; None: for all."""
LANGUAGES = {"source_language", "target_language"}
OUTSIDE = {"kind", "max_length", "max_ratio", "max_extra", "replace_unknown", "batch_tokens", "memory"} | LANGUAGES
"""Settings that are applied before or after the search, by the engine's caller."""


def is_installed() -> bool:
    """Whether CTranslate2 can be imported."""
    return find_spec("ctranslate2") is not None


def unsupported_model(settings: ModelSettings, *, loss: str = "cross_entropy") -> str | None:
    """The reason why CTranslate2 has no such model, in one line that names the setting; None if it has.

    ``loss``: the recipe's training.loss.
    """
    if reason := only_in_weft(settings, "CTranslate2", loss=loss):
        return reason
    if reason := _unsupported_alignment(settings):
        return f"model.decoder.alignment_heads: {reason}; set it to []"
    for side, stack in (("encoder", settings.encoder), ("decoder", settings.decoder)):
        if not isinstance(stack, TransformerSettings):
            return f"model.{side}.kind: {stack.kind!r} is recurrent; CTranslate2 holds 'transformer' only"
        if stack.relative_per_layer and stack.positions == "relative" and stack.layers > 1:
            return f"model.{side}.relative_per_layer: CTranslate2 has one table of biases for all layers"
        if stack.kind != "transformer" and stack.norm_placement == "post":
            return (
                f"model.{side}.norm_placement: 'post' with model.{side}.kind = {stack.kind!r} (no feed-forward "
                "networks) cannot be expressed in CTranslate2; 'pre' can"
            )
    epsilons = [stack.norm_epsilon for stack in (settings.encoder, settings.decoder) if hasattr(stack, "norm_epsilon")]
    if len({*epsilons}) > 1:
        return f"model.encoder.norm_epsilon: {epsilons[0]:g} is not that of the decoder; CTranslate2 has one for both"
    return None


def _unsupported_alignment(settings: ModelSettings) -> str | None:
    """The reason why CTranslate2 cannot align words by these heads: it uses the first ones of one layer."""
    heads = getattr(settings.decoder, "alignment_heads", None)
    if not heads or not isinstance(settings.decoder, TransformerSettings):
        return None
    if len({layer for layer, _ in heads}) > 1:
        return "CTranslate2 aligns words by heads of one layer"
    if settings.decoder.kv_heads != settings.decoder.heads:
        return "CTranslate2 cannot choose among heads that share keys"
    return None


def unsupported_search(settings: SearchSettings, *, n_best: int = 1) -> str | None:
    """The reason why CTranslate2 would give other results under these settings; None if it would not.

    A setting that is in no table is unsupported unless it has its default value.
    """
    kind = settings.kind
    if kind == "sample":
        return "search.kind: 'sample' draws other random numbers in CTranslate2: a seed gives other outputs"
    if kind not in SUPPORTED:
        return f"search.kind: {kind!r} is not known to CTranslate2; it has {' and '.join(SUPPORTED)}"
    for name, field in type(settings).model_fields.items():
        if name in OUTSIDE or name in irrelevant_settings(kind):
            continue
        value = getattr(settings, name)
        allowed = SUPPORTED[kind].get(name, (field.get_default(call_default_factory=True),))
        if allowed is not None and value not in allowed:
            values = " or ".join(repr(one) for one in allowed if one is not None)
            return f"search.{name}: {value!r} is not known to CTranslate2, or means something else; it has {values}"
    if kind == "greedy" and n_best > 1:
        return f"n_best: {n_best}; greedy search finds one output"
    if kind == "beam" and max(settings.size, n_best) == 1 and settings.finish > 1:
        return f"search.finish: {settings.finish}; a beam of 1 is greedy search in CTranslate2 and stops at 1"
    return None
