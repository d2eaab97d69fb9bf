"""Rough estimates of the time per update on two CPU cores, before anything can be measured."""

from __future__ import annotations

from typing import Any

SECONDS_PER_BATCH = 0.04
"""Fixed time per batch of 1,024 tokens, for a model of any size: embeddings, loss, the interpreter."""
SECONDS_PER_MILLION = 0.05
"""Additional time per batch for each million weights that a token is multiplied by."""
HARD_POSITIONS = 5
"""The work of hard attention relative to soft attention: it predicts a token from every source position."""
GATES = {"lstm": 4, "gru": 3, "rnn": 1}


def steps_in(seconds: float, tree: dict[str, Any], batch_tokens: int) -> int:
    """The updates that fit into ``seconds``; ``tree``: its recipe; recurrent models have one layer per side."""
    step = batch_tokens * _seconds_per_token(tree)
    return max(100, round(seconds / step) // 100 * 100)


def epochs_in(seconds: float, tree: dict[str, Any], tokens: int) -> float:
    """The number of epochs in ``seconds``; ``tokens``: the number of tokens on the longer side of all pairs."""
    return seconds / (tokens * _seconds_per_token(tree))


def _seconds_per_token(tree: dict[str, Any]) -> float:
    return (SECONDS_PER_BATCH + SECONDS_PER_MILLION * weights_per_token(tree["model"]) / 1e6) / 1_024


def weights_per_token(model: dict[str, Any]) -> int:
    """The weights that a token of each side is multiplied by, without embeddings and output layer."""
    if model["encoder"]["kind"] == "transformer":
        sides = ((model["encoder"], 1), (model["decoder"], 2))
        return sum(_transformer_weights(side, attentions) for side, attentions in sides)
    embedding, encoder, decoder = model["embedding"], model["encoder"], model["decoder"]
    direction = encoder["hidden"] // 2
    encoders = model.get("sources", {}).get("count", 1)
    weights = encoders * 2 * GATES[encoder["kind"]] * direction * (embedding + direction)
    hidden = decoder["hidden"]
    inputs = embedding + hidden + (hidden if decoder.get("input_feeding") else 0)
    weights += GATES[decoder["kind"]] * hidden * inputs
    positions = HARD_POSITIONS if model.get("attention", {}).get("hard", "none") != "none" else 1
    combined = (1 + encoders) * hidden * hidden
    return int(weights + positions * combined + hidden * hidden)


def _transformer_weights(side: dict[str, Any], attentions: int) -> int:
    hidden, inner = side["hidden"], side["feed_forward"]
    return int(side["layers"] * (attentions * 4 * hidden * hidden + 2 * hidden * inner))
