"""Limits on what an operation costs, checked in the worker, which knows the tokens, before it begins.

    operation                                  costs                                                  limit
    heads of a text                            weights: layers · heads · (S² + T² + S·T)              max_weights
    translation or stream with attention       weights: n_best · S·T for each text                    max_weights
    exact and exhaustive searches              source tokens S, whose states are kept for every node  max_exact_tokens

S and T are the numbers of source and target tokens; where the target is not known yet, T is taken to be S. Other limits
(texts, characters, beam, phrases) need no tokens, and are checked by the service: `weft.apps.serve.limits`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from weft.apps.serve.limits import EXACT
from weft.apps.serve.model_info import heads_of
from weft.errors import WeftError
from weft.models.architecture import architecture_of

if TYPE_CHECKING:
    from weft.translation.translator import Translator

LIMITS = {"max_weights", "max_exact_tokens"}
"""Names of the limits in the configuration of a worker, which may be without them."""


class CostError(WeftError):
    """A request that would take too much memory or time."""


def check_search(translator: Translator, payload: dict[str, Any], limits: dict[str, Any]) -> None:
    """Fail if the search for texts would cost too much; ``limits``: those of the worker's configuration."""
    exact = payload.get("search", {}).get("kind") in EXACT
    if not limits.keys() & LIMITS or (not exact and not payload.get("attention")):
        return
    lengths = [source_length(translator, text) for text in payload["texts"]]
    longest = limits.get("max_exact_tokens")
    if exact and longest is not None and max(lengths, default=0) > longest:
        reason = f"a text of {max(lengths):,} tokens; at most {longest:,} are searched exactly"
        raise CostError(f"search.kind: {payload['search']['kind']}: {reason}; use a beam, or a shorter text")
    if payload.get("attention"):
        n_best = payload.get("n_best", 1)
        weights = n_best * sum(length**2 for length in lengths)
        _check_weights(weights, limits, f"attention of {n_best} outputs for {sum(lengths):,} tokens")


def check_heads(translator: Translator, payload: dict[str, Any], limits: dict[str, Any]) -> None:
    """Fail if the weights of all heads for a text would be too many."""
    if not limits.keys() & LIMITS:
        return
    [text] = payload["texts"]
    source, target = source_length(translator, text), payload.get("target")
    if target is not None:
        rows = len(translator.encode_target(target, text)) + 1
    elif payload.get("target_ids") is not None:
        rows = len(payload["target_ids"]) + 1
    else:
        rows = source
    areas = {"encoder": source**2, "decoder": rows**2, "cross": rows * source, "copy": rows * source}
    weights = 0
    for kind, size in heads_of(architecture_of(translator.model)).items():
        if size is not None:
            weights += size[0] * size[1] * areas[kind]
    _check_weights(weights, limits, f"text: all heads for {source:,} source and {rows:,} target tokens")


def source_length(translator: Translator, text: str) -> int:
    """The tokens of a source; of a language model, those of the prompt."""
    if translator.source_role == "none":
        return len(translator.tokenizers.target.encode(text))
    return len(translator.encoded_source(text)[1].ids)


def _check_weights(weights: int, limits: dict[str, Any], of: str) -> None:
    limit = limits.get("max_weights")
    if limit is not None and weights > limit:
        raise CostError(
            f"{of}: about {weights:,} attention weights; at most {limit:,} are computed; send a shorter text"
        )
