"""[model]: family, size, copying, positions and dropout."""

from __future__ import annotations

from typing import Any

from weft.data.profiling.profile import PairProfile
from weft.recommendation.choices import Choice
from weft.recommendation.kinds import Task


def choose_model(profile: PairProfile, task: Task) -> list[Choice]:
    """The network for a task of that kind and size."""
    if task.kind == "inflection":
        return _inflection(profile)
    if task.kind == "spelling" and profile.pairs <= 200_000:
        return _spelling(profile)
    if task.kind == "summary" and profile.pairs <= 100_000:
        return _summary(profile)
    if task.kind == "text" and profile.pairs < 5_000:
        reason = f"{profile.pairs:,} pairs are few for a Transformer"
        feeding = {"model.decoder.input_feeding": True}
        return [
            Choice("model", "LSTM 256 with attention", reason, {**recurrent("lstm", 256, 256), **feeding}),
            Choice("dropout", "0.4", "few pairs", {"model.dropout": 0.4}),
        ]
    return _transformer(profile, task)


def recurrent(cell: str, hidden: int, embedding: int) -> dict[str, Any]:
    """The settings of an encoder and a decoder of one recurrent layer each."""
    return {
        "model.embedding": embedding,
        **{f"model.{side}.kind": cell for side in ("encoder", "decoder")},
        **{f"model.{side}.hidden": hidden for side in ("encoder", "decoder")},
    }


def transformer(layers: tuple[int, int], hidden: int, feed_forward: int, heads: int) -> dict[str, Any]:
    """The settings of an encoder and a decoder of Transformer layers, rotary positions and pre-norm."""
    settings: dict[str, Any] = {"model.embedding": hidden}
    for side, count in zip(("encoder", "decoder"), layers, strict=True):
        values = {"kind": "transformer", "layers": count, "hidden": hidden, "heads": heads}
        values |= {"feed_forward": feed_forward, "norm_placement": "pre", "positions": "rotary"}
        settings |= {f"model.{side}.{name}": value for name, value in values.items()}
    return settings


def _inflection(profile: PairProfile) -> list[Choice]:
    sources = len(profile.columns.source)
    common = profile.relations.common_characters
    choices = [
        Choice(
            "model",
            "GRU 256",
            "words: a small recurrent network needs the fewest pairs",
            recurrent("gru", 256, 128),
        ),
        Choice(
            "sources", f"{sources} with an encoder each", "the word, and its features", {"model.sources.count": sources}
        ),
        Choice("dropout", "0.4", f"{profile.pairs:,} pairs", {"model.dropout": 0.4}),
    ]
    if common > 0.5:
        reason = f"{common:.0%} of the target characters are in the source, in the same order"
        choices.append(Choice("attention", "hard and monotone", reason, {"model.attention.hard": "first"}))
    return choices


def _spelling(profile: PairProfile) -> list[Choice]:
    pairs = profile.pairs
    if pairs < 3_000:
        choice = Choice("model", "GRU 256 with attention", f"{pairs:,} pairs of words", recurrent("gru", 256, 128))
        return [choice, Choice("dropout", "0.4", "few pairs", {"model.dropout": 0.4})]
    settings = {
        **recurrent("lstm", 512, 256),
        "model.decoder.input_feeding": True,
        "model.attention.score": "general",
        "model.attention.normalizer": "entmax15",
    }
    return [
        Choice("model", "LSTM 512 with attention", f"{pairs:,} pairs of words", settings),
        Choice("dropout", "0.4", "words are short and soon learned by heart", {"model.dropout": 0.4}),
    ]


def _summary(profile: PairProfile) -> list[Choice]:
    settings = {
        **recurrent("lstm", 512, 256),
        "model.decoder.input_feeding": True,
        "model.tie": "all",
        "model.attention.score": "additive",
        "model.attention.coverage": "sum",
        "training.coverage_loss": 1.0,
    }
    rare = profile.relations.copied_rare_words
    return [
        Choice(
            "model", "LSTM 512 with attention and coverage", f"{profile.pairs:,} pairs; nothing is said twice", settings
        ),
        Choice("copying", "yes", f"{rare:.0%} of the rare target words are in the source", {"model.copy": True}),
        Choice("dropout", "0.3", f"{profile.pairs:,} pairs", {"model.dropout": 0.3}),
    ]


def _transformer(profile: PairProfile, task: Task) -> list[Choice]:
    pairs = profile.pairs
    layers, hidden, feed_forward, heads = _size(profile, task)
    settings = transformer(layers, hidden, feed_forward, heads)
    settings["model.tie"] = "target"
    depth = f"{layers[0]} + {layers[1]} layers of {hidden}"
    choices = [Choice("model", f"Transformer, {depth}", f"{pairs:,} pairs", settings)]
    if task.kind == "copying":
        rare = profile.relations.copied_rare_words
        choices.append(
            Choice("copying", "yes", f"{rare:.0%} of the rare target words are in the source", {"model.copy": True})
        )
    dropout, reason = _dropout(profile, task)
    choices.append(Choice("dropout", str(dropout), reason, {"model.dropout": dropout}))
    return choices


def _size(profile: PairProfile, task: Task) -> tuple[tuple[int, int], int, int, int]:
    """Layers of encoder and decoder, width, inner width, heads."""
    pairs = profile.pairs
    if task.kind == "answer":
        return (3, 1), 128, 512, 4
    if task.kind == "formal":
        tiny = max(profile.source.spaced.size, profile.target.spaced.size) <= 50 and pairs < 30_000
        return ((2, 2), 128, 256, 4) if tiny else ((3, 3), 256, 1024, 4) if pairs < 30_000 else ((4, 4), 256, 1024, 8)
    if profile.targets_per_source >= 3:
        return (3, 3), 256, 1024, 4
    if pairs <= 400_000:
        return (4, 4), 256, 1024, 4
    return (6, 6), 512, 2048, 8


def _dropout(profile: PairProfile, task: Task) -> tuple[float, str]:
    pairs = profile.pairs
    if task.kind == "answer":
        return 0.1, "few answers"
    if task.kind == "formal" and (profile.target.tokens.p95 >= 40 or profile.target.spaced.size <= 50):
        return 0.1, "targets of a small closed vocabulary follow strict rules"
    if profile.targets_per_source >= 3:
        return 0.1, f"{profile.targets_per_source:.0f} targets a source: hard to learn by heart"
    if task.kind == "text" and pairs <= 40_000:
        return 0.4, f"{pairs:,} pairs"
    for limit, dropout in ((400_000, 0.3), (2_000_000, 0.2)):
        if pairs <= limit:
            return dropout, f"{pairs:,} pairs"
    return 0.1, f"{pairs:,} pairs"
