"""The class of transformers that computes the same function as a model of weft, or the reason why there is none.

    norm_placement  embedding_norm  positions              class
    post            no              sinusoidal, learned    Marian
    post            yes             sinusoidal, learned    BART
    pre             no              sinusoidal, learned    Pegasus; imported M2M100 and NLLB models: M2M100
    pre             yes             sinusoidal, learned    mBART
    pre, RMSNorm    no              relative               T5; a table of biases in each layer: UMT5

All but T5 have one table of embeddings, or, with ``model.tie`` = "target" or "none", a table of all target rows and
then all source rows; Marian may have two. Torch is not imported here.
"""

from __future__ import annotations

from weft.recipe import ModelSettings, Recipe, TransformerSettings
from weft.recipe.recipe import only_in_weft

CLASSES = {
    "marian": "MarianMTModel",
    "bart": "BartForConditionalGeneration",
    "pegasus": "PegasusForConditionalGeneration",
    "mbart": "MBartForConditionalGeneration",
    "m2m_100": "M2M100ForConditionalGeneration",
    "t5": "T5ForConditionalGeneration",
    "umt5": "UMT5ForConditionalGeneration",
}
"""The class for each model_type."""
ABSOLUTE = ("sinusoidal", "learned")
BART_LIKE = {
    ("post", False): "marian",
    ("post", True): "bart",
    ("pre", False): "pegasus",
    ("pre", True): "mbart",
}
"""Model types by norm_placement and embedding_norm."""
BART_EPSILON = 1e-5
BART_ACTIVATIONS = {"relu": "relu", "gelu": "gelu", "gelu_tanh": "gelu_pytorch_tanh", "silu": "silu"}
T5_ACTIVATIONS = {
    **{"relu": "relu", "gelu": "gelu", "gelu_tanh": "gelu_new", "silu": "silu"},
    **{"geglu_tanh": "gated-gelu", "swiglu": "gated-silu"},
}
"""feed_forward_proj; in T5, gated-gelu is the tanh form."""
UNITS = ("bpe", "unigram", "word", "character", "byte", "imported")
"""Kinds of tokenizers that can be a tokenizer.json, or are one."""
NO_PADDING = "a padding token cannot be added: T5 has no bias that rules it out as an output"
"""Refusal for a tokenizer that weft has learned, which has no padding token."""


def find_architecture(recipe: Recipe) -> tuple[str | None, str]:
    """The model_type of transformers; or None, and the reason in one line that names a setting."""
    settings = recipe.model
    if reason := _unsupported_model(settings, recipe.training.loss):
        return None, reason
    encoder, decoder = settings.encoder, settings.decoder
    assert isinstance(encoder, TransformerSettings) and isinstance(decoder, TransformerSettings)
    for side, stack in (("encoder", encoder), ("decoder", decoder)):
        if reason := _unsupported_stack(side, stack):
            return None, reason
    for name, attribute in _shared_settings(encoder, decoder).items():
        value = getattr(encoder, attribute)
        if value != getattr(decoder, attribute):
            return None, (
                f"model.encoder.{name}: {value!r} is not that of the decoder; transformers has no model in which they "
                "differ"
            )
    if encoder.positions == "relative":
        if settings.tie not in ("all", "inputs"):
            return None, f"model.tie: {settings.tie!r}: T5 has one embedding for source and target"
        if decoder.relative_per_layer and settings.tie != "all":
            return None, (
                f"model.tie: {settings.tie!r}: versions 4 and 5 of transformers compute different outputs of a UMT5 "
                "model whose output projection is not tied"
            )
        return ("umt5" if decoder.relative_per_layer else "t5"), ""
    return BART_LIKE[decoder.norm_placement, decoder.embedding_norm], ""


def unsupported_recipe(recipe: Recipe) -> str | None:
    """The reason why a run of this recipe cannot be exported, in one line that names a setting; None if it can.

    Tokenizers that are not learned from the training pairs are not looked at.
    """
    kind, reason = find_architecture(recipe)
    tokenizer = recipe.tokenizer
    if kind is None or tokenizer.file is not None or recipe.training.start is not None:
        return None if kind else reason
    extra = bool(tokenizer.symbols or tokenizer.protect)
    for side, unit in (("source", tokenizer.kind), ("target", tokenizer.target_unit)):
        special = extra or (unit == "character" and (tokenizer.tags or tokenizer.decompose))
        refusal = unsupported_unit(side, unit, special=special, splits_punctuation=tokenizer.split_punctuation)
        if refusal is not None:
            return refusal
    return NO_PADDING if kind in ("t5", "umt5") else None


def unsupported_unit(side: str, unit: str, *, special: bool, splits_punctuation: bool) -> str | None:
    """The reason why a tokenizer of this kind cannot be a tokenizer.json; None if it can.

    ``special``: whether it knows tags, symbols, protected patterns or decomposed characters.
    """
    if unit == "word" and splits_punctuation:
        return (
            f"a {side} tokenizer of kind 'word' that splits punctuation cannot be written as a tokenizer.json; with "
            "tokenizer.split_punctuation = false it can"
        )
    if unit not in UNITS:
        return f"a {side} tokenizer of kind {unit!r} cannot be written as a tokenizer.json; {', '.join(UNITS)} can"
    if special and unit in ("character", "word"):
        return (
            f"the {side} tokenizer knows tags, symbols, protected patterns or decomposed characters, which a "
            f"tokenizer.json of {unit}s does not"
        )
    return None


def _unsupported_model(settings: ModelSettings, loss: str) -> str | None:
    if reason := only_in_weft(settings, "transformers", loss=loss):
        return reason
    for side, stack in (("encoder", settings.encoder), ("decoder", settings.decoder)):
        if not isinstance(stack, TransformerSettings) or stack.kind != "transformer":
            return f"model.{side}.kind: {stack.kind!r}: transformers has no such sequence-to-sequence model"
        if settings.embedding != stack.hidden:
            return f"model.embedding: {settings.embedding}: in transformers it is the hidden size, here {stack.hidden}"
    return None


def _unsupported_stack(side: str, stack: TransformerSettings) -> str | None:
    where = f"model.{side}"
    if stack.kv_heads != stack.heads:
        return (
            f"{where}.key_value_heads: {stack.kv_heads}: in transformers there are as many as heads, here {stack.heads}"
        )
    if stack.positions in ABSOLUTE:
        expected: dict[str, object] = {"norm": "layer", "norm_epsilon": BART_EPSILON, "head_size": 0}
        activations = BART_ACTIVATIONS
    elif stack.positions == "relative":
        expected = {"norm": "rms", "norm_placement": "pre", "embedding_norm": False, "scale_embedding": False}
        activations = T5_ACTIVATIONS
    else:
        return (
            f"{where}.positions: {stack.positions!r}: transformers has no sequence-to-sequence model with them; set "
            "model.encoder.positions and model.decoder.positions to 'sinusoidal' for one"
        )
    for name, value in expected.items():
        given = getattr(stack, name)
        if given != value and not (name == "head_size" and stack.head_width * stack.heads == stack.hidden):
            return (
                f"{where}.{name}: {given!r} with {where}.positions = {stack.positions!r}: no model of transformers; "
                f"it would be {value!r}"
            )
    if stack.activation not in activations:
        known = ", ".join(activations)
        return f"{where}.activation: {stack.activation!r} is not known to transformers here; it has {known}"
    return None


def _shared_settings(encoder: TransformerSettings, decoder: TransformerSettings) -> dict[str, str]:
    """Settings that are one entry of config.json for both sides, each with the attribute that holds its value."""
    if "relative" in (encoder.positions, decoder.positions):
        sizes = {"hidden": "hidden", "heads": "heads", "head_size": "head_width", "feed_forward": "feed_forward"}
        relative = ("relative_buckets", "relative_max_distance", "relative_per_layer")
        return {name: name for name in ("positions", "activation", "norm_epsilon", *relative)} | sizes
    names = ("norm_placement", "embedding_norm", "scale_embedding", "activation", "hidden")
    return {name: name for name in names}
