"""The models that can be exported to ONNX. Imports neither torch nor onnx."""

from __future__ import annotations

from weft.recipe import ModelSettings


def unsupported(settings: ModelSettings) -> str | None:
    """The reason why there are no graphs of such a model, in one line that names the setting; None if there are."""
    if settings.kind == "ctc":
        return "model.kind: 'ctc' is not exported to ONNX: it has no decoder, and the graphs are those of 'seq2seq'"
    if settings.kind != "seq2seq":
        return (
            f"model.kind: {settings.kind!r} is not exported to ONNX: it has no encoder, and the graphs are those of an "
            "encoder and a decoder ('seq2seq')"
        )
    if settings.stem.kind != "none":
        return (
            f"model.stem.kind: {settings.stem.kind!r} is not exported to ONNX: the graph of an encoder reads ids, not "
            "pictures or frames"
        )
    if settings.sources.separate_attentions > 1 and settings.decoder.kind == "transformer":
        return (
            "model.sources.attention: 'parallel' is not exported to ONNX with a Transformer decoder, whose graph does "
            "not know the column of a source state; 'flat' is, and recurrent decoders are"
        )
    if settings.copies:
        return (
            "model.copy: copying is not exported to ONNX: it gives probability to tokens of the source that no "
            "vocabulary has, for which there is no place among the logits"
        )
    return None
