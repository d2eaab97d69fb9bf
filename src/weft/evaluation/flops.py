"""Floating-point operations: what a model takes, and what the machine reaches."""

from __future__ import annotations

import time
from collections.abc import Callable

import torch
from torch import nn

from weft.attention.scores import Concat
from weft.models.prefix_lm import PrefixLM
from weft.recipe import ModelSettings, TransformerSettings

COPIED_FLOATS = {"cpu": 2**25, "cuda": 2**28}
"""Large enough that no cache holds them."""
KEY_WEIGHTS = (
    *(
        f"{attention}.{part}"
        for attention in ("decoder.attention", "alignment")
        for part in ("score.key_projection.", "score.weight_QK", "key_projection.", "value_projection.")
    ),
    "emission.keys.",
    "copy_attention.key_projection.",
)
"""Weights of an attention, soft or hard, that are multiplied by the source states, once for all steps."""


def training_flops(model: nn.Module, *, source: int, target: int) -> float:
    """Floating-point operations of the products with weights, forward and backward, for a number of tokens.

    6 per weight and token: 2 forward, 4 backward.
    """
    return 3.0 * forward_flops(model, source=source, target=target)


def forward_flops(model: nn.Module, *, source: int, target: int) -> float:
    """Floating-point operations of the products with weights, forward only, for a number of tokens: 2 for each weight.

    Embeddings and positions are looked up, not multiplied; the output layer is multiplied. The bridge from encoder to
    decoder, once per sentence, is left out. Hard attention multiplies its output layer for every source position of a
    target token, and is counted as if for one.
    """
    total = 0.0
    for name, parameter in model.named_parameters(remove_duplicate=False):
        looked_up = "embedding" in name or name.endswith(("weight_PD", "weight_KH"))
        if parameter.dim() >= 2 and not looked_up and not name.startswith("decoder.bridge."):
            total += 2.0 * parameter.numel() * _tokens(model, name, source, target)
    return total


def _tokens(model: nn.Module, name: str, source: int, target: int) -> float:
    """How many tokens a weight is multiplied by. The stack of a prefix language model reads both sides."""
    if isinstance(model, PrefixLM):
        return target + (source if model.source_embedding is not None and name.startswith("stack.") else 0)
    if name.startswith(("encoder.", *KEY_WEIGHTS)) or ".cross_attention.key_value." in name:
        return source
    score = getattr(getattr(getattr(model, "decoder", None), "attention", None), "score", None)
    if isinstance(score, Concat) and name == "decoder.attention.score.weight":  # one matrix over [q; k]
        query_fraction = score.query_width / score.weight.shape[1]
        return query_fraction * target + (1 - query_fraction) * source
    return target


def attention_flops(settings: ModelSettings, *, source: int, target: int) -> float:
    """Floating-point operations of the scores and the weighted sums of attention, forward only, for one pair.

    4 for each query, key and component of a head; a target token has itself and those before it as keys.
    """
    decoder, causal = settings.decoder, target * (target + 1) / 2
    if not isinstance(decoder, TransformerSettings):
        pairs = 0.0 if settings.attention.score == "none" else source * target if settings.has_source else causal
        total = 4.0 * decoder.hidden * pairs
    else:
        pairs = (source * target if settings.has_source else 0) + causal
        total = 4.0 * _attention_width(decoder) * decoder.layers * pairs
    encoder = {"seq2seq": settings.encoder, "prefix_lm": decoder}.get(settings.kind)
    if isinstance(encoder, TransformerSettings):
        total += 4.0 * _attention_width(encoder) * encoder.layers * source * source
    return total


def _attention_width(stack: TransformerSettings) -> int:
    return stack.heads * stack.head_width


def peak_bandwidth(device: torch.device) -> float:
    """Bytes per second of one large copy, those that are read and those that are written: what this machine reaches."""
    source = torch.ones(COPIED_FLOATS[device.type], device=device)
    target = torch.empty_like(source)
    return 2.0 * source.nbytes / _best_seconds(lambda: target.copy_(source), device)


def peak_flops(device: torch.device, precision: str) -> float:
    """Floating-point operations per second of one large matrix product: what this machine reaches."""
    from weft.models.device import allow_tf32

    size, kind = (8192, torch.bfloat16) if device.type == "cuda" and precision == "bf16" else (1536, torch.float32)
    size = 8192 if device.type == "cuda" else size
    left, right = (torch.randn(size, size, device=device, dtype=kind) for _ in range(2))
    with allow_tf32(precision == "tf32"):
        return 2.0 * size**3 / _best_seconds(lambda: left @ right, device)


def _best_seconds(call: Callable[[], object], device: torch.device) -> float:
    """The shortest of several calls."""
    best = float("inf")
    for _ in range(8):
        if device.type == "cuda":
            torch.cuda.synchronize(device)
        start = time.perf_counter()
        call()
        if device.type == "cuda":
            torch.cuda.synchronize(device)
        best = min(best, time.perf_counter() - start)
    return best
