"""[model]: family, size, copying, positions and dropout."""

from __future__ import annotations

import math
from typing import Any

from weft.errors import plural
from weft.pairs.profiling.profile import PairProfile
from weft.pairs.recommendation.choices import Choice
from weft.pairs.recommendation.devices import Device
from weft.pairs.recommendation.kinds import MOSTLY_DIGITS, TaskProfile, is_transcription
from weft.pairs.recommendation.variants import choose_variants, splice_words

FEW_WORDS = 3_000
"""Pairs of words below which a network is small."""
VERY_FEW_WORDS = 1_000
"""Pairs of words below which one with hard attention is small, too."""
HARD_WORDS = 20_000
"""Pairs of words up to which hard attention is better than soft where targets follow their sources."""
FEW_SENTENCES = 5_000
"""Pairs of sentences below which a recurrent network is better than a Transformer."""
TINY_VOCABULARY = 50
"""Symbols that languages made by rules have at most on each side."""
COMMAND_TOKENS = 20
"""Tokens of most sources of such a language for which a recurrent network with location attention is chosen."""
LONG_TARGETS = 40
"""Tokens of a long target: much to learn from each pair."""
MANY_PAIRS = 5_000
"""Pairs of a formal language from which on validation pairs are soon all right, and long targets prevent learning by
heart."""
SMALL = (2, 2), 256, 1024, 4
"""Layers, width, inner width and heads of a Transformer for which there is little time."""
ROTARY = ("formal", "copying")
"""Tasks in which distances matter more than places; models that copy cannot be exported anyway (docs/own-pairs.md)."""
KEPT_CHARACTERS = 0.6
"""The share of the shorter side's characters that the other side has in the same order, for hard attention."""


def choose_model(
    profile: PairProfile, task: TaskProfile, device: Device, few_epochs: str | None = None
) -> list[Choice]:
    """The network for a task of that kind and size.

    ``few_epochs``: why there is only time for a few epochs. Then a Transformer is small, and hardly has dropout.
    """
    if task.kind == "inflection":
        return _inflection(profile)
    if task.kind == "spelling":
        return _spelling(profile, task, device)
    if task.kind == "summary":
        return _summary(profile)
    if are_commands(profile, task):
        return _commands(profile)
    if task.kind == "text" and profile.pairs < FEW_SENTENCES:
        reason = f"{profile.pairs:,} pairs are few for a Transformer"
        feeding = {"model.decoder.input_feeding": True}
        return [
            Choice("model", "LSTM 256 with attention", reason, {**recurrent("lstm", 256, 256), **feeding}),
            Choice("dropout", "0.4", "few pairs", {"model.dropout": 0.4}),
        ]
    return _transformer(profile, task, few_epochs)


def recurrent(cell: str, hidden: int, embedding: int) -> dict[str, Any]:
    """The settings of an encoder and a decoder of one recurrent layer each."""
    return {
        "model.embedding": embedding,
        **{f"model.{side}.kind": cell for side in ("encoder", "decoder")},
        **{f"model.{side}.hidden": hidden for side in ("encoder", "decoder")},
    }


def transformer(
    layers: tuple[int, int], hidden: int, feed_forward: int, heads: int, positions: str = "sinusoidal"
) -> dict[str, Any]:
    """The settings of an encoder and a decoder of Transformer layers, pre-norm.

    With sinusoidal positions they can be exported to every format; Hugging Face has no such model with rotary ones.
    """
    settings: dict[str, Any] = {"model.embedding": hidden}
    for side, count in zip(("encoder", "decoder"), layers, strict=True):
        values = {"kind": "transformer", "layers": count, "hidden": hidden, "heads": heads}
        values |= {"feed_forward": feed_forward, "norm_placement": "pre", "positions": positions}
        settings |= {f"model.{side}.{name}": value for name, value in values.items()}
    return settings


def _inflection(profile: PairProfile) -> list[Choice]:
    sources = len(profile.columns.source)
    reason = "words: a small recurrent network needs the fewest pairs"
    each = f"{sources} with an encoder each"
    choices = [
        Choice("model", "GRU 256", reason, recurrent("gru", 256, 128)),
        Choice("sources", each, "the word, and its features", {"model.sources.count": sources}),
        Choice("dropout", "0.4", "words are short and soon memorized", {"model.dropout": 0.4}),
    ]
    kept = _kept_characters(profile)
    if kept > KEPT_CHARACTERS:
        reason = f"{kept:.0%} of a word's characters are in its form, in the same order"
        choices.append(Choice("attention", "hard and monotone", reason, {"model.attention.hard": "first"}))
    return choices


def _kept_characters(profile: PairProfile) -> float:
    """The common characters of both sides in order, as a share of the shorter side."""
    relations = profile.relations
    return min(1.0, relations.common_characters * max(1.0, relations.length_ratio))


def _spelling(profile: PairProfile, task: TaskProfile, device: Device) -> list[Choice]:
    pairs, few = profile.pairs, profile.pairs < FEW_WORDS
    are_numbers = min(profile.source.digits, profile.target.digits) > MOSTLY_DIGITS
    if pairs <= HARD_WORDS and not are_numbers and (is_transcription(profile) or (few and _is_spelled(profile, task))):
        hidden = 512 if device == "cuda" and pairs >= VERY_FEW_WORDS else 256
        number = f"{'only ' * few}{plural(pairs, 'pair')}"
        reason = "a transcription follows the spelling"
        return [
            Choice("model", f"GRU {hidden}", number, recurrent("gru", hidden, hidden // 2)),
            Choice("attention", "hard and monotone", reason, {"model.attention.hard": "first"}),
            Choice("dropout", "0.5", f"{number} of words, soon memorized", {"model.dropout": 0.5}),
            *splice_words(task, 1 if few else 2),
        ]
    if few or device == "cpu":
        reason = f"only {plural(pairs, 'pair')}" if few else "short strings, on a CPU"
        model = Choice("model", "GRU 256", reason, recurrent("gru", 256, 128))
    else:
        model = Choice("model", "LSTM 512", f"{pairs:,} pairs of short strings", recurrent("lstm", 512, 256))
    attention: dict[str, Any] = {"model.decoder.input_feeding": True, "model.attention.score": "general"}
    attention["model.attention.normalizer"] = "entmax15"
    choices = [model, Choice("attention", "sparse", "few characters of the source matter for each token", attention)]
    if are_numbers:
        return [*choices, Choice("dropout", "0.1", "numbers follow strict rules", {"model.dropout": 0.1})]
    reason = "words are short and soon memorized"
    return [*choices, Choice("dropout", "0.4", reason, {"model.dropout": 0.4})]


def _is_spelled(profile: PairProfile, task: TaskProfile) -> bool:
    """Whether words become about as many symbols, such as phones, as they have characters."""
    symbols = profile.target.tokens.mean / max(1.0, profile.source.characters.mean)
    return task.target == "symbol" and profile.source.tokens.median <= 2 and 0.5 <= symbols <= 2


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
    model = "LSTM 512 with attention and coverage"
    return [
        Choice("model", model, f"{profile.pairs:,} pairs; coverage prevents repetition", settings),
        Choice("copying", "yes", f"{rare:.0%} of the rare target words are in the source", {"model.copy": True}),
        Choice("dropout", "0.3", f"{profile.pairs:,} pairs", {"model.dropout": 0.3}),
    ]


def _commands(profile: PairProfile) -> list[Choice]:
    """Location attention goes on from where it was: outputs longer than those of training are within its reach."""
    symbols = max(profile.source.spaced.size, profile.target.spaced.size)
    location = {"model.attention.score": "additive", "model.attention.location": True}
    location["model.attention.placement"] = "before"
    network = {**recurrent("gru", 128, 128), "model.tie": "target"}
    ratio = max(2, math.ceil(2 * profile.target.tokens.p99 / max(1, profile.source.tokens.median)))
    return [
        Choice("model", "GRU 128", f"commands of at most {symbols} symbols: strict rules", network),
        Choice("attention", "by location", "it moves forward from its last position, at any length", location),
        Choice("dropout", "0.3", "rules, not pairs, are to be learned", {"model.dropout": 0.3}),
        Choice(
            "longest output", f"{ratio} tokens a symbol", "twice as long as in training", {"search.max_ratio": ratio}
        ),
        *choose_variants(profile),
    ]


def _transformer(profile: PairProfile, task: TaskProfile, few_epochs: str | None) -> list[Choice]:
    layers, hidden, feed_forward, heads = _size(profile, task)
    reason = f"{profile.pairs:,} pairs"
    if few_epochs is not None and task.kind != "answer":
        (layers, hidden, feed_forward, heads), reason = SMALL, few_epochs
    positions = "rotary" if task.kind in ROTARY else "sinusoidal"
    settings = transformer(layers, hidden, feed_forward, heads, positions)
    settings["model.tie"] = "target"
    depth = f"{layers[0]} + {layers[1]} layers of {hidden}"
    choices = [Choice("model", f"Transformer, {depth}", reason, settings)]
    if task.kind == "copying":
        rare = profile.relations.copied_rare_words
        reason = f"{rare:.0%} of the rare target words are in the source"
        choices.append(Choice("copying", "yes", reason, {"model.copy": True}))
    dropout, reason = (0.1, "too few epochs to learn pairs by heart") if few_epochs else _dropout(profile, task)
    choices.append(Choice("dropout", str(dropout), reason, {"model.dropout": dropout}))
    return choices


def _size(profile: PairProfile, task: TaskProfile) -> tuple[tuple[int, int], int, int, int]:
    """Layers of encoder and decoder, width, inner width, heads."""
    pairs = profile.pairs
    if task.kind == "answer":
        return (3, 1), 128, 512, 4
    if task.kind == "formal":
        return ((3, 3), 256, 1024, 4) if pairs < 30_000 else ((4, 4), 256, 1024, 8)
    if profile.targets_per_source >= 3:
        return (3, 3), 256, 1024, 4
    if pairs <= 400_000:
        return (4, 4), 256, 1024, 4
    return (6, 6), 512, 2048, 8


def are_commands(profile: PairProfile, task: TaskProfile) -> bool:
    """Whether sources are short commands of a language of strict rules."""
    return _has_strict_rules(profile, task) and profile.source.tokens.p95 <= COMMAND_TOKENS


def _has_strict_rules(profile: PairProfile, task: TaskProfile) -> bool:
    sizes = profile.source.spaced.size, profile.target.spaced.size
    return task.kind == "formal" and task.source == task.target == "symbol" and max(sizes) <= TINY_VOCABULARY


def _dropout(profile: PairProfile, task: TaskProfile) -> tuple[float, str]:
    """Dropout of a Transformer: the fewer pairs, the more, except where pairs cannot be memorized."""
    pairs = profile.pairs
    if task.kind == "answer":
        return 0.1, "few answers"
    if _has_strict_rules(profile, task):
        return 0.1, f"at most {TINY_VOCABULARY} symbols on each side: a language of strict rules"
    if task.kind == "formal" and pairs >= MANY_PAIRS and profile.target.tokens.p95 >= LONG_TARGETS:
        return 0.1, f"long targets of a closed vocabulary: {profile.target.tokens.mean:.0f} tokens on average"
    if profile.targets_per_source >= 3:
        return 0.1, f"{profile.targets_per_source:.0f} targets a source: hard to learn by heart"
    if task.kind == "text" and pairs <= 40_000:
        return 0.4, f"only {pairs:,} pairs"
    for limit, dropout in ((400_000, 0.3), (2_000_000, 0.2)):
        if pairs <= limit:
            return dropout, f"{pairs:,} pairs"
    return 0.1, f"{pairs:,} pairs"
