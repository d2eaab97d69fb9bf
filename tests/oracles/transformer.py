"""The Transformer models once more, as the papers write them: one row, one token, one scalar after the other.

It takes a model's settings and its parameters by name and shares nothing else with the library. Vectors are lists of
floats; there is no batch, no pad and no torch here but for reading the parameters. What is ours and not the papers'
is only how matrices are laid out: queries, keys and values below one another, and swiglu's W above its V.
"""

from __future__ import annotations

import math
from typing import NamedTuple, get_args

from torch import nn

from oracles.recurrent import (
    LayerState,
    Parameters,
    SlowAttention,
    SlowSeq2Seq,
    SlowStack,
    Vector,
    dot,
    mix,
    normalized,
    plus,
    softmax,
    times,
)
from weft.recipe import ModelSettings, RecurrentSettings, TransformerSettings

POSITIONS: tuple[str, ...] = get_args(TransformerSettings.model_fields["positions"].annotation)
Heads = list[list[Vector]]
"""Attention weights by head, query and key."""


def sinusoid(position: int, width: int, layout: str = "interleaved") -> Vector:
    """PE(pos, 2i) = sin(pos / 10000^{2i/d}), PE(pos, 2i+1) = cos(pos / 10000^{2i/d})   Vaswani et al. 2017, 3.5.

    halves: dimensions 0, 2, 4, … before 1, 3, 5, …. tensor2tensor: for i < ⌊d/2⌋, in the words of its source,
    ``timescale = exp(i · log(10000) / (⌊d/2⌋ − 1))``, then sin(pos / timescale) of all i, cos of all i, and a zero if d
    is odd.
    """
    if layout == "tensor2tensor":
        half = width // 2
        timescales = [math.exp(i * math.log(10000) / (half - 1)) for i in range(half)]
        return [
            *(math.sin(position / timescale) for timescale in timescales),
            *(math.cos(position / timescale) for timescale in timescales),
            *([0.0] if width % 2 else []),
        ]
    wave = []
    for k in range(width):
        i = k // 2
        angle = position / 10000 ** (2 * i / width)
        wave.append(math.sin(angle) if k % 2 == 0 else math.cos(angle))
    return [*wave[::2], *wave[1::2]] if layout == "halves" else wave


def rotated(x: Vector, position: int) -> Vector:
    """R_m x: the pair (2i, 2i+1) rotated by m θ_i, θ_i = 10000^{−2i/d}   Su et al. 2021, eq. 15."""
    width = len(x)
    y = [0.0] * width
    for i in range(width // 2):
        angle = position * 10000 ** (-2 * i / width)
        y[2 * i] = x[2 * i] * math.cos(angle) - x[2 * i + 1] * math.sin(angle)
        y[2 * i + 1] = x[2 * i] * math.sin(angle) + x[2 * i + 1] * math.cos(angle)
    return y


def slope(head: int, heads: int) -> float:
    """The geometric sequence that starts at 2^{−8/n} and has that ratio   Press et al. 2022, 3. ``head`` from 0."""
    product = 1.0
    for _ in range(head + 1):
        product *= 2 ** (-8 / heads)
    return product


def bucket(distance: int, *, bidirectional: bool, buckets: int = 32, max_distance: int = 128) -> int:
    """The bucket of key position minus query position   Raffel et al. 2020, 2.1; both directions halve the buckets.

    Half of them hold one distance each, the others ranges up to ``max_distance`` that grow by one factor:
    with m = max_distance, ⌊(b − e) log(n/e) / log(m/e)⌋ is the largest k with (n/e)^{b−e} ≥ (m/e)^k, in whole numbers.
    """
    first = 0
    if bidirectional:
        buckets //= 2
        first = buckets if distance > 0 else 0
        away = abs(distance)
    else:
        away = max(-distance, 0)
    exact = buckets // 2
    if away < exact:
        return first + away
    ranges = buckets - exact
    k = 0
    while k + 1 < ranges and away**ranges * exact ** (k + 1) >= max_distance ** (k + 1) * exact**ranges:
        k += 1
    return first + exact + k


def root_mean_square_normalized(x: Vector, a: Vector, epsilon: float) -> Vector:
    """a x / √(mean(x²) + ε)   Zhang & Sennrich 2019, eq. 4."""
    mean = sum(value * value for value in x) / len(x)
    return [a[k] * x[k] / math.sqrt(mean + epsilon) for k in range(len(x))]


def gelu(x: float) -> float:
    """x Φ(x)   Hendrycks & Gimpel 2016."""
    return x * 0.5 * (1 + math.erf(x / math.sqrt(2)))


def gelu_tanh(x: float) -> float:
    """0.5 x (1 + tanh[√(2/π) (x + 0.044715 x³)])   Hendrycks & Gimpel 2016, section 2."""
    return 0.5 * x * (1 + math.tanh(math.sqrt(2 / math.pi) * (x + 0.044715 * x * x * x)))


def swish(x: float) -> float:
    """x σ(x)."""
    return x / (1 + math.exp(-x))


class LayerWeights(NamedTuple):
    """The weights of one layer."""

    own: Heads
    cross: Heads | None


class SlowTransformer:
    """Layers below ``prefix``, as `TransformerStack` names its parameters."""

    def __init__(
        self, parameters: Parameters, prefix: str, settings: TransformerSettings, *, bidirectional: bool
    ) -> None:
        self.parameters, self.prefix, self.settings, self.bidirectional = parameters, prefix, settings, bidirectional
        self.heads = settings.heads
        self.kv_heads = settings.key_value_heads or settings.heads
        self.head_width = settings.head_size if settings.head_size else settings.hidden // settings.heads

    def linear(self, name: str, x: Vector) -> Vector:
        weight, bias = (self.parameters[f"{self.prefix}{name}.{part}"] for part in ("weight", "bias"))
        return plus(times(weight, x), bias)

    def norm(self, name: str, x: Vector) -> Vector:
        weight = self.parameters[f"{self.prefix}{name}.weight"]
        if self.settings.norm == "rms":
            return root_mean_square_normalized(x, weight, self.settings.norm_epsilon)
        return normalized(x, weight, self.parameters[f"{self.prefix}{name}.bias"], self.settings.norm_epsilon)

    def embed(self, embedding: Vector, position: int) -> Vector:
        """√d E[y] + PE(position)   Vaswani et al. 2017, 3.4, 3.5."""
        x = embedding
        if self.settings.scale_embedding:
            x = [math.sqrt(len(embedding)) * value for value in embedding]
        if f"{self.prefix}input_projection.weight" in self.parameters:
            x = self.linear("input_projection", x)
        assert len(x) == self.settings.hidden
        if self.settings.positions == "sinusoidal":
            x = plus(x, sinusoid(position + self.settings.first_position, len(x), self.settings.sinusoids))
        if self.settings.positions == "learned":
            x = plus(x, self.parameters[f"{self.prefix}positions.weight_PD"][position])
        return self.norm("embedding_norm", x) if self.settings.embedding_norm else x

    def bias(self, layer: int, head: int, query: int, key: int) -> float:
        """What the distance of two positions adds to their score."""
        if self.settings.positions == "alibi":
            return -slope(head, self.heads) * abs(query - key)
        if self.settings.positions == "relative":
            number = bucket(
                key - query,
                bidirectional=self.bidirectional,
                buckets=self.settings.relative_buckets,
                max_distance=self.settings.relative_max_distance,
            )
            table = f"relative_bias.{layer}" if self.settings.relative_per_layer else "relative_bias"
            return self.parameters[f"{self.prefix}{table}.weight_KH"][number][head]
        return 0.0

    def vectors(self, x: Vector, first: int, count: int) -> list[Vector]:
        """``count`` of the vectors that lie end to end in x, from number ``first`` on."""
        return [x[number * self.head_width : (number + 1) * self.head_width] for number in range(first, first + count)]

    def attend(self, q: Vector, keys: list[Vector], values: list[Vector], biases: Vector) -> tuple[Vector, Vector]:
        """softmax(q·k / √d + b) v for one query   Vaswani et al. 2017, eq. 1: the answer and the weights."""
        weights = softmax([dot(q, k) / math.sqrt(self.head_width) + b for k, b in zip(keys, biases, strict=True)])
        return mix(weights, values), weights

    def self_attention(self, layer: int, xs: list[Vector], attended: list[int]) -> tuple[list[Vector], Heads]:
        """Token i attends to the first ``attended[i]`` tokens."""
        name = f"layers.{layer}.self_attention"
        rotary = self.settings.positions == "rotary"
        queries: list[list[Vector]] = []
        keys: list[list[Vector]] = []
        values: list[list[Vector]] = []
        for position, x in enumerate(xs):
            mapped = self.linear(f"{name}.query_key_value", x)
            assert len(mapped) == (self.heads + 2 * self.kv_heads) * self.head_width
            own_queries = self.vectors(mapped, 0, self.heads)
            own_keys = self.vectors(mapped, self.heads, self.kv_heads)
            queries.append([rotated(q, position) for q in own_queries] if rotary else own_queries)
            keys.append([rotated(k, position) for k in own_keys] if rotary else own_keys)
            values.append(self.vectors(mapped, self.heads + self.kv_heads, self.kv_heads))
        outputs: list[Vector] = []
        all_weights: Heads = [[] for _ in range(self.heads)]
        for position in range(len(xs)):
            joined: Vector = []
            for head in range(self.heads):
                group = head * self.kv_heads // self.heads
                keys_of = range(attended[position])
                answer, weights = self.attend(
                    queries[position][head],
                    [keys[j][group] for j in keys_of],
                    [values[j][group] for j in keys_of],
                    [self.bias(layer, head, position, j) for j in keys_of],
                )
                joined += answer
                all_weights[head].append(weights + [0.0] * (len(xs) - len(weights)))
            outputs.append(self.linear(f"{name}.output", joined))
        return outputs, all_weights

    def cross_attention(self, name: str, xs: list[Vector], source: list[Vector]) -> tuple[list[Vector], Heads]:
        """Every token attends to every source state; there is no distance between two sequences."""
        keys: list[list[Vector]] = []
        values: list[list[Vector]] = []
        for state in source:
            mapped = self.linear(f"{name}.key_value", state)
            assert len(mapped) == 2 * self.kv_heads * self.head_width
            keys.append(self.vectors(mapped, 0, self.kv_heads))
            values.append(self.vectors(mapped, self.kv_heads, self.kv_heads))
        outputs: list[Vector] = []
        all_weights: Heads = [[] for _ in range(self.heads)]
        for x in xs:
            queries = self.vectors(self.linear(f"{name}.query", x), 0, self.heads)
            joined: Vector = []
            for head in range(self.heads):
                group = head * self.kv_heads // self.heads
                answer, weights = self.attend(
                    queries[head], [k[group] for k in keys], [v[group] for v in values], [0.0] * len(source)
                )
                joined += answer
                all_weights[head].append(weights)
            outputs.append(self.linear(f"{name}.output", joined))
        return outputs, all_weights

    def feed_forward(self, name: str, x: Vector) -> Vector:
        """W₂ act(W₁ x + b₁) + b₂   Vaswani et al. 2017, eq. 2; W₂ (swish(W x) ⊙ V x)   Shazeer 2020, eq. 6."""
        inner = self.linear(f"{name}.linear1", x)
        width = self.settings.feed_forward
        gates = {"swiglu": swish, "geglu": gelu, "geglu_tanh": gelu_tanh}
        activations = {"gelu": gelu, "gelu_tanh": gelu_tanh, "silu": swish, "relu": lambda value: max(0.0, value)}
        if self.settings.activation in gates:
            gate = gates[self.settings.activation]
            inner = [gate(inner[k]) * inner[width + k] for k in range(width)]
        else:
            inner = [activations[self.settings.activation](value) for value in inner]
        assert len(inner) == width
        return self.linear(f"{name}.linear2", inner)

    def before(self, name: str, xs: list[Vector]) -> list[Vector]:
        return [self.norm(f"{name}.norm", x) for x in xs] if self.settings.norm_placement == "pre" else xs

    def after(self, name: str, xs: list[Vector], outputs: list[Vector]) -> list[Vector]:
        """pre: x + f(norm(x)); post: norm(x + f(x))."""
        added = [plus(x, f) for x, f in zip(xs, outputs, strict=True)]
        return [self.norm(f"{name}.norm", x) for x in added] if self.settings.norm_placement == "post" else added

    def read(
        self, xs: list[Vector], attended: list[int], source: list[Vector] | None = None
    ) -> tuple[list[Vector], list[LayerWeights]]:
        """All layers over one row: the last states, and every layer's weights."""
        weights = []
        for number in range(self.settings.layers):
            layer = f"layers.{number}."
            outputs, own = self.self_attention(number, self.before(f"{layer}self_attention_residual", xs), attended)
            xs = self.after(f"{layer}self_attention_residual", xs, outputs)
            cross = None
            if source is not None:
                outputs, cross = self.cross_attention(
                    f"{layer}cross_attention", self.before(f"{layer}cross_attention_residual", xs), source
                )
                xs = self.after(f"{layer}cross_attention_residual", xs, outputs)
            if self.settings.kind != "attention":
                inputs = self.before(f"{layer}feed_forward_residual", xs)
                outputs = [self.feed_forward(f"{layer}feed_forward", x) for x in inputs]
                xs = self.after(f"{layer}feed_forward_residual", xs, outputs)
            weights.append(LayerWeights(own, cross))
        if self.settings.norm_placement == "pre":
            xs = [self.norm("final_norm", x) for x in xs]
        return xs, weights


def mean_of_heads(heads: Heads) -> list[Vector]:
    """The weights of every query, averaged over the heads."""
    return [[sum(of) / len(of) for of in zip(*rows, strict=True)] for rows in zip(*heads, strict=True)]


def below_the_top(layers: list[LayerWeights]) -> LayerWeights:
    """The layer below the top one; the only one where there is but one   Garg et al. 2019, 4.2."""
    return layers[-2] if len(layers) > 1 else layers[0]


def logits_of(parameters: Parameters, readout: str, state: Vector) -> Vector:
    """A state's logits: through the readout where sizes differ, then the output matrix, tied or not."""
    if f"{readout}.weight" in parameters:
        state = plus(times(parameters[f"{readout}.weight"], state), parameters[f"{readout}.bias"])
    return plus(times(parameters["output.weight_VD"], state), parameters["output.bias_V"])


class SlowPairing(SlowSeq2Seq):
    """Any encoder with any decoder, of which at least one is a Transformer."""

    def __init__(self, settings: ModelSettings, model: nn.Module) -> None:
        self.settings = settings
        self.parameters = Parameters(model)
        encoder, decoder, attention = settings.encoder, settings.decoder, settings.attention
        self.encoder = self.stack("encoder.stack.", encoder, bidirectional=True)
        self.decoder = self.stack("decoder.stack.", decoder, bidirectional=False)
        if not isinstance(decoder, TransformerSettings):
            self.attention = SlowAttention(self.parameters, "decoder.attention.", attention)
        self.source_weights: list[LayerWeights] = []
        self.target_weights: list[LayerWeights] = []

    def stack(
        self, prefix: str, settings: RecurrentSettings | TransformerSettings, *, bidirectional: bool
    ) -> SlowStack | SlowTransformer:
        if isinstance(settings, TransformerSettings):
            return SlowTransformer(self.parameters, prefix, settings, bidirectional=bidirectional)
        return SlowStack(self.parameters, prefix, settings.kind, settings.connections, settings.layers)

    def encode(self, source: list[int]) -> tuple[list[Vector], tuple[LayerState, ...]]:
        if not isinstance(self.encoder, SlowTransformer):
            return super().encode(source)
        table = self.parameters["source_embedding.weight_VE"]
        xs = [self.encoder.embed(table[token], position) for position, token in enumerate(source)]
        states, self.source_weights = self.encoder.read(xs, [len(xs)] * len(xs))
        mean = [sum(column) / len(states) for column in zip(*states, strict=True)]
        return states, ((mean,),)

    def logits(self, source: list[int], inputs: list[int]) -> tuple[list[Vector], list[Vector]]:
        """Logits and attention weights for every position of one row; all weights are kept in ``…_weights``."""
        if not isinstance(self.decoder, SlowTransformer):
            return super().logits(source, inputs)
        source_states, _ = self.encode(source)
        table = self.parameters["target_embedding.weight_VE"]
        xs = [self.decoder.embed(table[token], position) for position, token in enumerate(inputs)]
        states, self.target_weights = self.decoder.read(
            xs, [position + 1 for position in range(len(xs))], source_states
        )
        cross = below_the_top(self.target_weights).cross
        assert cross is not None
        return [logits_of(self.parameters, "decoder.readout", state) for state in states], mean_of_heads(cross)


class SlowPrefixLM:
    """One stack over [x; y]: x attends to itself both ways, y to x and its history. A language model has no x."""

    def __init__(self, settings: ModelSettings, model: nn.Module) -> None:
        assert isinstance(settings.decoder, TransformerSettings)
        self.parameters = Parameters(model)
        bidirectional = settings.kind == "prefix_lm"
        self.stack = SlowTransformer(self.parameters, "stack.", settings.decoder, bidirectional=bidirectional)
        self.both_weights: list[LayerWeights] = []

    def logits(self, source: list[int], inputs: list[int]) -> tuple[list[Vector], list[Vector]]:
        """Logits, and the mean of the heads' weights over the source, renormalized so that they sum to one."""
        embedded = [self.parameters["source_embedding.weight_VE"][token] for token in source]
        embedded += [self.parameters["target_embedding.weight_VE"][token] for token in inputs]
        xs = [self.stack.embed(embedding, position) for position, embedding in enumerate(embedded)]
        states, self.both_weights = self.stack.read(xs, [max(position + 1, len(source)) for position in range(len(xs))])
        weights = []
        for row in mean_of_heads(below_the_top(self.both_weights).own)[len(source) :]:
            of_source = row[: len(source)]
            weights.append([weight / sum(of_source) for weight in of_source])
        return [logits_of(self.parameters, "readout", state) for state in states[len(source) :]], weights
