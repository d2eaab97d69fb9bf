"""Floating-point operations: the number that a model needs, and the rate that the machine reaches."""

from __future__ import annotations

import time
from collections.abc import Callable

import torch
from torch import nn

from weft.models.architecture import Architecture, architecture_of
from weft.recipe import ModelSettings, TransformerSettings

COPIED_FLOATS = {"cpu": 2**25, "cuda": 2**28}
"""Numbers of floats to copy, too many for any cache."""
KEY_WEIGHTS = ("score.key_projection.", "score.weight_QK", "key_projection.", "value_projection.", "key_value.")
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
    described = architecture_of(model)
    total = 0.0
    for name, parameter in model.named_parameters(remove_duplicate=False):
        looked_up = "embedding" in name or name.endswith(("weight_PD", "weight_KH"))
        if parameter.dim() >= 2 and not looked_up and not name.startswith("decoder.bridge."):
            read = _source_fraction(described, name, parameter)
            # The stack of a prefix language model reads both sides
            both = read == 1.0 and described.kind == "prefix_lm"
            total += 2.0 * parameter.numel() * (read * source + (1.0 if both else 1.0 - read) * target)
    return total


def _source_fraction(described: Architecture, name: str, parameter: nn.Parameter) -> float:
    """The fraction of a weight that is multiplied by the tokens of the source."""
    if name.startswith((*(f"{stack.module}." for stack in described.encoders), "emission.keys.")):
        return 1.0
    readers = [attention for attention in described.attentions if attention.role.kind in ("cross", "copy", "hard")]
    for attention in readers:
        if name.startswith(tuple(f"{attention.module}.{weight}" for weight in KEY_WEIGHTS)):
            return 1.0
        if name == f"{attention.module}.score.weight" and described.decoder is not None:  # one matrix over [q; k]
            return 1.0 - described.decoder.width / parameter.shape[1]
    return 0.0


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
    """Memory bandwidth of this machine: bytes per second read and written by one large copy."""
    source = torch.ones(COPIED_FLOATS[device.type], device=device)
    target = torch.empty_like(source)
    return 2.0 * source.nbytes / _best_seconds(lambda: target.copy_(source), device)


def peak_flops(device: torch.device, precision: str) -> float:
    """Peak rate of this machine: floating-point operations per second of one large matrix product."""
    from weft.runtime.switches import allow_tf32

    size, kind = (8192, torch.bfloat16) if device.type == "cuda" and precision == "bf16" else (1536, torch.float32)
    size = 8192 if device.type == "cuda" else size
    left, right = (torch.randn(size, size, device=device, dtype=kind) for _ in range(2))
    with allow_tf32(precision == "tf32"):
        return 2.0 * size**3 / _best_seconds(lambda: left @ right, device)


def _best_seconds(call: Callable[[], object], device: torch.device) -> float:
    """The time of the fastest of several calls."""
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
