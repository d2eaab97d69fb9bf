"""The cost of every operation: bytes and multiplications as functions of lengths and settings.

    S, T     source and target tokens of a text             B, K      texts of a batch, hypotheses of each
    D, F     widths of states and of feed-forward layers    L, H      layers, heads of a layer
    V        target vocabulary                              P         parameters
    X        pixels of a picture                            n, m      numbers and multiplications for each (stem_costs)

    operation       bytes                                                       multiplications
    encoder         4 · B (S (8 D + F) + 2 H S²)                                B (S P + 2 L S² D)
    stem            4 · B X n                                                   B X m
    search          4 · B K (6 V + 6 L T D + S D + 50 T), and the encoder       B K T (P + V D + 2 L (S+T) D) + 5·10⁶ T
    exact search    the search with K = 64, and a state for every length:       as the search; nodes are limited
                    4 · 64 · L T² D in a Transformer, 4 · 64 · 4 L T D else
    attention       4 · K S T, and 100 · n_best S T: tensors, numbers, JSON
    scores          4 · min(tokens, 4,096) · 3 V, and the encoder                tokens (P + V D)
    heads           100 · (L_e H_e S² + L_d H_d T² + L_c H_c S T)               those of a search and of both stacks
    walk            the search, and a search with K = 1                         as the searches
    known           100 for each character of a glossary and a memory           –

A worker knows the tokens. It refuses an operation that cannot fit into its memory (`ServeSettings.memory`) or, by the
speed of the operations before it, into the time of a request (`ServeSettings.deadline`), and says why; what fits waits
until enough memory is free. The service estimates the tokens from characters, and sends what takes long to the queue of
long operations. For bytes, T is the longest output that the settings allow; for time, T is taken to be S.

Other limits (texts, characters, beam, phrases) need no tokens: `weft.apps.serve.limits`.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

from weft.apps.serve.limits import EXACT
from weft.errors import WeftError

FLOAT = 4
EXACT_WIDTH = 64
"""Prefixes that an exact search expands in one step."""
SCORED_TOKENS = 4096
"""Tokens of a batch of pairs that are scored."""
STEP_OVERHEAD = 5e6
"""The time of a step of a search that does not depend on its size, in multiplications."""
WEIGHT_BYTES = 100
"""Bytes of an attention weight in a response: as a tensor, an array, a Python number and JSON."""
KNOWN_BYTES = 100
"""Bytes of a character of a glossary or a translation memory, with the index of its words."""
OVERHEAD = 8 << 20
"""Bytes of an operation of any size: buffers of matrix products, Python objects."""

SEARCHING = ("translate", "stream", "heads", "walk")
"""Operations that search for an output, unless they are given one."""


class CostError(WeftError):
    """A request that would take too much memory or time."""


class Cost(NamedTuple):
    """The cost of an operation."""

    bytes: float
    multiplications: float

    def __add__(self, other: object) -> Cost:
        assert isinstance(other, Cost)
        return Cost(self.bytes + other.bytes, self.multiplications + other.multiplications)


class Lengths(NamedTuple):
    """The tokens of a text."""

    source: int
    longest: int
    """The longest output that is allowed."""
    target: int
    """The expected output, or the given one."""
    pixels: int = 0
    """The pixels of a picture, or the number of frames; ``source`` then counts the states that a stem makes of it."""


class ModelShape(NamedTuple):
    """The sizes of a model on which the costs depend. A dictionary of its fields is part of a model's description."""

    parameters: int
    vocabulary: int
    width: int
    """The widest state."""
    feed_forward: int
    layers: int
    """Layers of the encoder and the decoder together."""
    decoder_layers: int
    recurrent: bool
    heads: dict[str, tuple[int, int]]
    """Layers and heads of each kind of attention: encoder, decoder, cross, copy."""
    stem: Sequence[float] = (0.0, 0.0)
    """Numbers and multiplications for each pixel of a source that is an array; of texts 0."""

    def encoder(self, lengths: Sequence[Lengths]) -> Cost:
        """The encoder, for the texts of a batch."""
        tokens = sum(length.source for length in lengths)
        squares = sum(length.source**2 for length in lengths)
        heads = max((heads for kind, (_, heads) in self.heads.items() if kind == "encoder"), default=0)
        numbers = tokens * (8 * self.width + self.feed_forward) + 2 * heads * squares
        multiplications = tokens * self.parameters + 2 * self.layers * squares * self.width * (heads > 0)
        pixels, (stem_numbers, stem_multiplications) = sum(length.pixels for length in lengths), self.stem
        return Cost(FLOAT * (numbers + pixels * stem_numbers), multiplications + pixels * stem_multiplications)

    def search(self, lengths: Sequence[Lengths], size: int) -> Cost:
        """A search for the texts of a batch with ``size`` hypotheses each."""
        numbers, multiplications = 0, STEP_OVERHEAD * max((length.target for length in lengths), default=0)
        for source, longest, target, _ in lengths:
            history = 1 if self.recurrent else longest
            states = 6 * self.decoder_layers * history + source
            numbers += size * (6 * self.vocabulary + states * self.width + 50 * longest)
            reach = source + (0 if self.recurrent else target)
            step = self.parameters + self.vocabulary * self.width + 2 * self.layers * reach * self.width
            multiplications += size * target * step
        return self.encoder(lengths) + Cost(FLOAT * numbers, multiplications)

    def exact_search(self, lengths: Sequence[Lengths]) -> Cost:
        """An exact search: one sentence after the other, with a batch of states for each length."""
        longest = max((length.longest for length in lengths), default=0)
        states = (4 * longest if self.recurrent else longest**2) * self.decoder_layers
        kept = Cost(FLOAT * EXACT_WIDTH * states * self.width, 0.0)
        parts = [self.search([length], EXACT_WIDTH) for length in lengths]
        return Cost(max((part.bytes for part in parts), default=0), sum(part.multiplications for part in parts)) + kept

    def attention(self, lengths: Sequence[Lengths], size: int, n_best: int) -> Cost:
        """The attention weights of all steps, and those of the outputs."""
        weights = sum(length.source * length.longest for length in lengths)
        return Cost((FLOAT * size + WEIGHT_BYTES * n_best) * weights, 0.0)

    def score(self, lengths: Sequence[Lengths]) -> Cost:
        """log p of given targets."""
        tokens = sum(length.target for length in lengths)
        longest = max((length.target for length in lengths), default=0)
        logits = FLOAT * 3 * self.vocabulary * max(min(tokens, SCORED_TOKENS), longest)
        both = [Lengths(length.source + length.target, 0, 0, length.pixels) for length in lengths]
        return self.encoder(both) + Cost(logits, tokens * self.vocabulary * self.width)

    def weights(self, lengths: Lengths) -> int:
        """The attention weights of all heads for a text."""
        source, target = lengths.source, lengths.target
        areas = {"encoder": source**2, "decoder": target**2, "cross": target * source, "copy": target * source}
        return sum(layers * heads * areas[kind] for kind, (layers, heads) in self.heads.items())

    def operation(self, name: str, payload: dict[str, Any], lengths: Sequence[Lengths]) -> Cost:
        """The cost of an operation by its name, for the payload that a worker is sent."""
        return self.computation(name, payload, lengths) + Cost(KNOWN_BYTES * known_characters(payload), 0.0)

    def computation(self, name: str, payload: dict[str, Any], lengths: Sequence[Lengths]) -> Cost:
        """The cost of the model's part of an operation."""
        search, n_best = payload.get("search", {}), payload.get("n_best", 1)
        if name == "score":
            return self.score(lengths)
        if name in SEARCHING:
            exact, size = search.get("kind") in EXACT, hypotheses(search, n_best)
            cost = self.exact_search(lengths) if exact else self.search(lengths, size)
            if name in ("translate", "stream"):
                return cost + self.attention(lengths, size, n_best) if payload.get("attention") else cost
            if has_target(payload):
                cost = Cost(0, 0)
            if name == "walk":
                return cost + self.search(lengths, 1)
            return cost + self.score(lengths) + Cost(WEIGHT_BYTES * self.weights(lengths[0]), 0.0)
        if name == "neighbors":
            return Cost(FLOAT * 3 * self.vocabulary * self.width, self.vocabulary * self.width)
        return Cost(0, 0)


def known_characters(payload: dict[str, Any]) -> int:
    """The characters of the glossary and of the translation memory of an operation."""
    return len(payload.get("glossary") or "") + len(payload.get("memory") or "")


def has_target(payload: dict[str, Any]) -> bool:
    """Whether an operation is given a target, so that it searches for none."""
    return payload.get("target") is not None or payload.get("target_ids") is not None


def hypotheses(search: dict[str, Any], n_best: int) -> int:
    """Hypotheses of a sentence in every step of a search."""
    return max({"beam": search.get("size", 1), "mbr": search.get("samples", 1)}.get(search.get("kind", ""), 1), n_best)


class Limits(NamedTuple):
    """The cost that an operation of a worker may have."""

    memory: float | None = None
    """Bytes of all operations together; None: unlimited."""
    seconds: float | None = None
    weights: int | None = None
    exact_tokens: int | None = None

    @classmethod
    def of(cls, config: dict[str, Any], memory: float | None) -> Limits:
        """Those of a worker's configuration."""
        return cls(memory, config.get("deadline"), config.get("max_weights"), config.get("max_exact_tokens"))


def check(name: str, payload: dict[str, Any], lengths: Sequence[Lengths], shape: ModelShape, limits: Limits) -> Cost:
    """The cost of an operation; `CostError` if it is beyond a limit that does not depend on the load of the service."""
    search, sources = payload.get("search", {}), [length.source for length in lengths]
    longest = max(sources, default=0)
    exact = name in SEARCHING and search.get("kind") in EXACT and not has_target(payload)
    if exact and limits.exact_tokens is not None and longest > limits.exact_tokens:
        reason = f"a text of {longest:,} tokens; at most {limits.exact_tokens:,} are searched exactly"
        raise CostError(f"search.kind: {search['kind']}: {reason}; use a beam, or a shorter text")
    weights, described = 0, ""
    if name == "heads":
        weights = shape.weights(lengths[0])
        described = f"text: all heads for {sources[0]:,} source and {lengths[0].target:,} target tokens"
    elif payload.get("attention"):
        n_best = payload.get("n_best", 1)
        weights = n_best * sum(length.source * length.target for length in lengths)
        described = f"attention of {n_best} outputs for {sum(sources):,} tokens"
    if limits.weights is not None and weights > limits.weights:
        allowed = f"at most {limits.weights:,} are computed"
        raise CostError(f"{described}: about {weights:,} attention weights; {allowed}; send a shorter text")
    cost = shape.operation(name, payload, lengths) + Cost(OVERHEAD, 0)
    if limits.memory is not None and cost.bytes > limits.memory:
        allowed = f"at most {megabytes(limits.memory)} are available"
        what = f"{name}: {sum(sources):,} source tokens"
        raise CostError(f"{what} would need about {megabytes(cost.bytes)}; {allowed}; send less, or use a smaller beam")
    return cost


def check_time(name: str, cost: Cost, speed: float | None, limits: Limits) -> None:
    """Fail if an operation would take longer than a request may; ``speed``: multiplications a second, if known."""
    if not speed or limits.seconds is None:
        return
    seconds = cost.multiplications / speed
    if seconds > limits.seconds:
        allowed = f"a request may take {limits.seconds:g} seconds"
        raise CostError(f"{name}: would take about {seconds:,.0f} seconds; {allowed}; send less, or use a smaller beam")


def megabytes(size: float) -> str:
    return f"{max(size / 1e6, 0):,.0f} MB"


def estimated_lengths(
    texts: Sequence[str], tokens_per_character: float, search: dict[str, Any], longest: Callable[[int], int]
) -> list[Lengths]:
    """The lengths of texts by their characters, for a service, which has no tokenizer."""
    lengths = []
    for text in texts:
        source = int(len(text) * tokens_per_character) + 1
        limit = min(search.get("max_length") or longest(source), longest(source))
        lengths.append(Lengths(source, limit, min(max(source, search.get("min_length") or 0), limit)))
    return lengths
