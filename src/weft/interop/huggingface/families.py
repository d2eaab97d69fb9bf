"""The families of models that can be imported, by the ``model_type`` of config.json."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING

from weft.interop.huggingface.configuration import Configuration
from weft.interop.imported_run import Conversion

if TYPE_CHECKING:
    from weft.interop.huggingface.folder import Weights


FAMILIES: Mapping[str, str] = {
    "bart": "BART",
    "m2m_100": "M2M100 and NLLB",
    "marian": "Marian (OPUS-MT)",
    "mbart": "mBART",
    "mt5": "mT5",
    "pegasus": "Pegasus",
    "t5": "T5, T5 1.1, FLAN-T5 and ByT5",
    "umt5": "UMT5",
}
"""Supported model families, by model_type."""
REFUSED: Mapping[str, str] = {
    "quantization_config": "quantized weights are not imported; save the model without quantization",
    "pruned_heads": "pruned heads are not imported",
    "auto_map": "the model comes with its own code, which weft does not run",
}
"""Entries of config.json that would change the model, and why they are refused if they are set."""


def check_family(config: Configuration) -> str:
    """The model_type, if models of this type are imported."""
    kind = config.values.get("model_type")
    if not isinstance(kind, str) or kind not in FAMILIES:
        given = "is missing" if kind is None else f"{kind!r} is not imported"
        raise config.error("model_type", f"{given}; weft imports {', '.join(FAMILIES)}")
    for name, reason in REFUSED.items():
        if config.values.get(name):
            raise config.error(name, reason)
    if config.values.get("is_encoder_decoder") is False:
        raise config.error("is_encoder_decoder", "false: weft imports models with an encoder and a decoder")
    return kind


def convert(kind: str, config: Configuration, weights: Weights) -> Conversion:
    """The settings and the weights of a model of this type."""
    from weft.interop.huggingface import bart, t5

    converters: dict[str, Callable[[str, Configuration, Weights], Conversion]] = {
        **dict.fromkeys(bart.VARIANTS, bart.convert),
        **dict.fromkeys(t5.VARIANTS, t5.convert),
    }
    conversion = converters[kind](kind, config, weights)
    weights.check_all_taken()
    return conversion
