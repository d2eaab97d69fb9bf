"""The costs of a worker's model: sizes, tokens and speed; and the end of operations nobody waits for.

`weft.apps.serve.costs` has the formulas, which need no torch.
"""

from __future__ import annotations

import os
import threading
import time
from collections import deque
from collections.abc import Callable, Sequence
from contextlib import suppress
from typing import TYPE_CHECKING, Any, TypeVar

import torch
from torch.overrides import TorchFunctionMode

from weft.apps.serve.costs import SEARCHING, Cost, Lengths, Limits, ModelShape, check, check_time
from weft.apps.serve.memory import MemoryBudget
from weft.apps.serve.model_info import heads_of
from weft.apps.serve.observation import Abandoned
from weft.models.architecture import architecture_of, count_parameters
from weft.translation.array_sources import ArrayStates

if TYPE_CHECKING:
    from weft.recipe.stem import StemSettings
    from weft.translation.translator import Translator

T = TypeVar("T")
SHORT = 0.05
"""Seconds below which the time of an operation is mostly overhead."""
KEPT_SPEEDS = 8
NICENESS = 10
"""By how much the priority of the threads of long operations is lower: the short ones beside them go first."""


class Cancellation(TorchFunctionMode):
    """Ends the computations of this thread at the next PyTorch function once nobody waits for their results.

    It costs about a microsecond for every function: a quarter of a small search's time, little in a long operation.
    """

    def __init__(self, is_abandoned: Callable[[], bool]) -> None:
        super().__init__()
        self.is_abandoned = is_abandoned

    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        if func is not torch._C._set_grad_enabled and self.is_abandoned():  # leaving `no_grad` must not fail
            raise Abandoned
        return func(*args, **(kwargs or {}))


class Speeds:
    """Multiplications per second of each operation: the fastest of the latest ones.

    A machine that stood still for a while (suspended, or full of other work) makes an operation look slow. One fast
    operation is enough to correct that; a machine that stays slow is believed after `KEPT_SPEEDS` operations.
    """

    def __init__(self) -> None:
        self.latest: dict[str, deque[float]] = {}
        self.writing = threading.Lock()

    def get(self, name: str) -> float | None:
        with self.writing:
            return max(self.latest.get(name, ()), default=None)

    def measured(self, name: str, cost: Cost, seconds: float) -> None:
        """Record how long an operation took. A short one, mostly overhead, counts only if it was faster than known."""
        if cost.multiplications <= 0 or seconds <= 0:
            return
        speed = cost.multiplications / seconds
        known = self.get(name)
        if seconds < SHORT and (known is None or speed <= known):
            return
        with self.writing:
            self.latest.setdefault(name, deque(maxlen=KEPT_SPEEDS)).append(speed)


def lower_priority() -> None:
    """Let the other threads of this process go first."""
    with suppress(OSError, AttributeError):
        thread = threading.get_native_id()
        os.setpriority(os.PRIO_PROCESS, thread, min(os.getpriority(os.PRIO_PROCESS, thread) + NICENESS, 19))


def model_shape(translator: Translator) -> ModelShape:
    """The sizes of a model."""
    described, settings = architecture_of(translator.model), translator.recipe.model
    stacks = described.stacks
    widths = [stack.width for stack in stacks] + [settings.encoder.hidden, settings.decoder.hidden]
    heads = {kind: (size[0], size[1]) for kind, size in heads_of(described).items() if size is not None}
    return ModelShape(
        parameters=count_parameters(translator.model),
        vocabulary=translator.tokenizers.target.size,
        width=max(widths),
        feed_forward=max(getattr(part, "feed_forward", 0) for part in (settings.encoder, settings.decoder)),
        layers=max(sum(stack.layers for stack in stacks), 1),
        decoder_layers=max(described.decoder.layers if described.decoder is not None else settings.decoder.layers, 1),
        recurrent=not any(stack.family == "transformer" for stack in stacks),
        heads=heads,
        stem=stem_costs(settings.stem),
    )


def operation_lengths(
    translator: Translator, op: str, payload: dict[str, Any], is_abandoned: Callable[[], bool] = lambda: False
) -> list[Lengths]:
    """The tokens of the texts of an operation; `Abandoned` if nobody waits for it: decoding a picture takes a while."""
    if op != "score" and op not in SEARCHING:
        return []
    pairs = payload["pairs"] if op == "score" else [(text, payload.get("target")) for text in payload["texts"]]
    lengths = []
    for source, target in pairs:
        if is_abandoned():
            raise Abandoned
        lengths.append(_lengths(translator, payload, source, target))
    return lengths


def _lengths(translator: Translator, payload: dict[str, Any], text: str, target: str | None) -> Lengths:
    search, (source, pixels) = payload.get("search", {}), source_size(translator, text)
    if target is not None:
        rows = len(translator.encode_target(target, text)) + 1
        return Lengths(source, rows, rows, pixels)
    if payload.get("target_ids") is not None:
        rows = len(payload["target_ids"]) + 1
        return Lengths(source, rows, rows, pixels)
    prefix = len(payload.get("prefix_ids") or ()) or len(translator.encode_target(payload.get("prefix") or "", text))
    read = max(source, pixels)  # limits on lengths count the bytes of an array
    longest = max(longest_output(translator, read, search), prefix)
    expected = max(source, prefix, search.get("min_length") or 0, int((search.get("min_ratio") or 0.0) * read))
    return Lengths(source, longest, min(expected, longest), pixels)


def longest_output(translator: Translator, source: int, search: dict[str, Any]) -> int:
    """The longest output for a source of this many tokens."""
    if search.get("max_length"):
        return int(search["max_length"])
    limits = translator.length_limits
    return max(limits.limit(source, max_ratio=search.get("max_ratio"), max_extra=search.get("max_extra")), 1)


def source_size(translator: Translator, text: str) -> tuple[int, int]:
    """The tokens of a source; of a language model, those of the prompt. Of an array, its states and its pixels."""
    if translator.source_role == "none":
        return len(translator.tokenizers.target.encode(text)), 0
    ids = translator.encoded_source(text)[1].ids
    if not translator.tokenizers.reads_arrays or not len(ids):
        return len(ids), 0
    states = ArrayStates.of(translator.recipe.model.stem, ids)
    shape = states.array
    return states.count, shape.height * shape.width if shape.channels else shape.height


def stem_costs(stem: StemSettings) -> tuple[float, float]:
    """Numbers that a stem keeps at a time, and multiplications, for each place of an array.

    A stage that leaves a share a of the pixels, of C channels, has 6 a C numbers beside its input, and k C (C' + 2 b C)
    multiplications for each place that is left: k is the size of the kernel, C' the channels before, b the blocks.
    """
    if stem.kind == "none":
        return 0.0, 0.0
    kernel = 3 if stem.kind == "frames" else 9
    numbers, multiplications, share, before = 0.0, 0.0, 1.0, stem.inputs
    for (down, across), width in zip(stem.stages, stem.widths, strict=True):
        smaller = share / (across if stem.kind == "frames" else down * across)
        numbers = max(numbers, 2 * share * before + 6 * smaller * width)
        multiplications += smaller * kernel * width * (before + 2 * stem.blocks * width)
        share, before = smaller, width
    return numbers, multiplications


class CostControl:
    """Declares the costs of a worker's operations, and runs those that fit."""

    def __init__(
        self, translator: Translator | None, config: dict[str, Any], free: float | None, queues: Sequence[str]
    ):
        """``config``: with the limits; ``free``: the bytes that the queues may use together, None: unlimited.

        Without a translator nothing is limited.
        """
        self.shape = None if translator is None else model_shape(translator)
        self.translator = translator
        self.config = config
        self.speeds = Speeds()
        self.budgets = {queue: MemoryBudget(free and free / len(queues)) for queue in queues}

    def declare(
        self, op: str, payload: dict[str, Any], queue: str, is_abandoned: Callable[[], bool] = lambda: False
    ) -> Cost:
        """The cost of an operation; `CostError` if it is beyond the limits. Pairs are scored in parts that fit."""
        if self.shape is None or self.translator is None:
            return Cost(0, 0)
        limits = Limits.of(self.config, self.budgets[queue].limit)
        lengths = operation_lengths(self.translator, op, payload, is_abandoned)
        parts = [[length] for length in lengths] if op == "score" else [lengths]
        costs = [check(op, payload, part, self.shape, limits) for part in parts]
        total = Cost(max(cost.bytes for cost in costs), sum(cost.multiplications for cost in costs))
        check_time(op, total, self.speeds.get(op), limits)
        return total

    def within(self, payload: dict[str, Any], queue: str) -> dict[str, Any]:
        """A payload whose search divides its batches by the budget, not by what is free on the machine."""
        limit = self.budgets[queue].limit
        if limit is None or "search" not in payload:
            return payload
        return {**payload, "search": {**payload["search"], "memory": max(limit / 2, 1e6)}}

    def parts_of_pairs(self, payload: dict[str, Any], queue: str) -> list[dict[str, Any]]:
        """The payload of pairs in parts that take a quarter of the memory at most; each pair at least alone."""
        limit, pairs = self.budgets[queue].limit, payload["pairs"]
        if self.shape is None or self.translator is None or limit is None:
            return [payload]
        lengths = operation_lengths(self.translator, "score", payload)
        parts, start = [], 0
        for end in range(1, len(lengths) + 1):
            if end == len(lengths) or self.shape.score(lengths[start : end + 1]).bytes > limit / 4:
                parts.append({**payload, "pairs": pairs[start:end]})
                start = end
        return parts

    def run(
        self, op: str, payload: dict[str, Any], queue: str, is_abandoned: Callable[[], bool], compute: Callable[[], T]
    ) -> T:
        """The result of an operation, once there is memory for it; `Abandoned` if nobody waits for it any more."""
        cost = self.declare(op, payload, queue, is_abandoned)
        with self.budgets[queue].reserve(cost.bytes, is_abandoned) as reserved:
            if not reserved:
                raise Abandoned
            start = time.perf_counter()
            result = compute()
            self.speeds.measured(op, cost, time.perf_counter() - start)
            return result
