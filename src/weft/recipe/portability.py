"""Settings that no other library has: models that use them cannot be exported to any format."""

from __future__ import annotations

from weft.recipe.model import ModelSettings


def only_in_weft(settings: ModelSettings, library: str, *, loss: str) -> str | None:
    """Why a library of encoder–decoders cannot hold such a model, in a line that names the setting; None if it may.

    ``loss``: the recipe's training.loss.
    """
    if loss != "cross_entropy":
        return f"training.loss: {library} has no output layer for {loss!r}; only for 'cross_entropy'"
    if settings.kind != "seq2seq":
        return f"model.kind: {settings.kind!r} is not exported to {library}; only 'seq2seq' is"
    if settings.sources.count > 1:
        return f"model.sources.count: {settings.sources.count} sources are not known to {library}; it has one"
    if settings.attention.normalizer != "softmax":
        return f"model.attention.normalizer: {settings.attention.normalizer!r} is not known to {library}"
    if settings.copies:
        return f"model.copy: copying is not known to {library}"
    return None
