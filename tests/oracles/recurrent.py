"""The recurrent models once more: one row, one time step, one scalar after the other, in plain Python.

It takes a model's settings and its parameters by name and shares nothing else with the library. Vectors are lists of
floats; there is no batch, no pad and no torch here but for reading the parameters.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import get_args

from torch import nn

from weft.recipe import AttentionSettings, ModelSettings, RecurrentSettings

CONNECTIONS = get_args(RecurrentSettings.model_fields["connections"].annotation)
"""The connections between layers that the settings have."""

Vector = list[float]
Matrix = list[list[float]]
LayerState = tuple[Vector, ...]


def dot(one: Sequence[float], other: Sequence[float]) -> float:
    return sum(a * b for a, b in zip(one, other, strict=True))


def times(matrix: Matrix, vector: Vector) -> Vector:
    return [dot(row, vector) for row in matrix]


def plus(*vectors: Vector) -> Vector:
    return [sum(numbers) for numbers in zip(*vectors, strict=True)]


def tanh(vector: Vector) -> Vector:
    return [math.tanh(x) for x in vector]


def sigmoid(vector: Vector) -> Vector:
    return [1 / (1 + math.exp(-x)) for x in vector]


def softmax(scores: Vector) -> Vector:
    top = max(scores)
    powers = [math.exp(score - top) for score in scores]
    return [power / sum(powers) for power in powers]


def mix(weights: Vector, vectors: Sequence[Vector]) -> Vector:
    return [dot(weights, column) for column in zip(*vectors, strict=True)]


class Parameters:
    """A module's parameters as lists, by name below a prefix."""

    def __init__(self, module: nn.Module) -> None:
        self.lists = {name: tensor.tolist() for name, tensor in module.state_dict().items()}

    def __getitem__(self, name: str) -> list:
        return self.lists[name]

    def __contains__(self, name: str) -> bool:
        return name in self.lists


def cell(kind: str, of_x: Vector, of_h: Vector, state: LayerState) -> LayerState:
    """One step of one layer from W x + b and U h + b', PyTorch's order of gates."""
    size = len(state[0])

    def gate(vector: Vector, number: int) -> Vector:
        return vector[number * size : (number + 1) * size]

    if kind == "rnn":
        return (tanh(plus(of_x, of_h)),)
    if kind == "gru":
        r = sigmoid(plus(gate(of_x, 0), gate(of_h, 0)))
        z = sigmoid(plus(gate(of_x, 1), gate(of_h, 1)))
        n = [math.tanh(gate(of_x, 2)[i] + r[i] * gate(of_h, 2)[i]) for i in range(size)]
        return ([(1 - z[i]) * n[i] + z[i] * state[0][i] for i in range(size)],)
    i, f, g, o = (plus(gate(of_x, number), gate(of_h, number)) for number in range(4))
    i, f, g, o = sigmoid(i), sigmoid(f), tanh(g), sigmoid(o)
    c = [f[k] * state[1][k] + i[k] * g[k] for k in range(size)]
    return [o[k] * math.tanh(c[k]) for k in range(size)], c


def normalized(x: Vector, a: Vector, b: Vector, epsilon: float = 1e-5) -> Vector:
    """a (x − μ) / √(σ² + ε) + b   Ba et al. 2016."""
    mean = sum(x) / len(x)
    variance = sum((value - mean) ** 2 for value in x) / len(x)
    return [a[k] * (x[k] - mean) / math.sqrt(variance + epsilon) + b[k] for k in range(len(x))]


class SlowStack:
    """Layers of cells below ``prefix``, as `RecurrentStack` names its parameters."""

    def __init__(
        self, parameters: Parameters, prefix: str, kind: str, connections: str, layers: int, layer_norm: bool = False
    ) -> None:
        self.parameters, self.prefix, self.kind = parameters, prefix, kind
        self.connections, self.layers, self.layer_norm = connections, layers, layer_norm

    def advance(self, level: int, x: Vector, state: LayerState, suffix: str = "") -> LayerState:
        """One step of one layer."""
        W, U, b, d = (
            self.parameters[f"{self.prefix}layers.{level}.{name}_l0{suffix}"]
            for name in ("weight_ih", "weight_hh", "bias_ih", "bias_hh")
        )
        return cell(self.kind, plus(times(W, x), b), plus(times(U, state[0]), d), state)

    def above(self, level: int, x: Vector, h: Vector) -> Vector:
        """What goes up from a layer that read x and gave h."""
        if self.connections == "residual" and len(x) == len(h):
            h = plus(x, h)
        if self.layer_norm:
            h = normalized(h, *(self.parameters[f"{self.prefix}norms.{level}.{name}"] for name in ("weight", "bias")))
        if self.connections == "dense" and level + 1 < self.layers:
            return x + h
        return h

    def step(self, x: Vector, state: tuple[LayerState, ...]) -> tuple[Vector, tuple[LayerState, ...]]:
        new = []
        for level in range(self.layers):
            new.append(self.advance(level, x, state[level]))
            x = self.above(level, x, new[-1][0])
        return x, tuple(new)

    def zero(self, level: int, suffix: str = "") -> LayerState:
        size = len(self.parameters[f"{self.prefix}layers.{level}.weight_hh_l0{suffix}"][0])
        return ([0.0] * size,) * (2 if self.kind == "lstm" else 1)

    def read(self, xs: list[Vector], *, bidirectional: bool) -> tuple[list[Vector], tuple[LayerState, ...]]:
        """A whole sequence, layer by layer: the top's outputs, and every layer's last state."""
        finals = []
        for level in range(self.layers):
            state = self.zero(level)
            hs = []
            for x in xs:
                state = self.advance(level, x, state)
                hs.append(state[0])
            if bidirectional:
                back = self.zero(level, "_reverse")
                backward = []
                for x in reversed(xs):
                    back = self.advance(level, x, back, "_reverse")
                    backward.append(back[0])
                hs = [one + other for one, other in zip(hs, reversed(backward), strict=True)]
                state = tuple(one + other for one, other in zip(state, back, strict=True))
            finals.append(state)
            xs = [self.above(level, x, h) for x, h in zip(xs, hs, strict=True)]
        return xs, tuple(finals)


class SlowAttention:
    """An attention below ``prefix``: every score's equation for one query and one key; the weights of each step."""

    def __init__(self, parameters: Parameters, prefix: str, settings: AttentionSettings) -> None:
        self.parameters, self.prefix, self.settings = parameters, prefix, settings
        self.score, self.temperature = settings.score, settings.temperature
        self.steps: list[Vector] = []
        """The weights of the steps so far, of the row that is being computed."""

    def project(self, name: str, item: Vector) -> Vector:
        weight = f"{self.prefix}{name}.weight"
        return times(self.parameters[weight], item) if weight in self.parameters else item

    def features(self, j: int, items: list[Vector]) -> Vector:
        """u_j: coverage (See et al. 2017; Tu et al. 2016) and location (Chorowski et al. 2015)."""
        size = len(self.parameters[f"{self.prefix}score.vector"])
        u = [0.0] * size
        if self.settings.coverage != "none":
            covered = sum(weights[j] for weights in self.steps)
            if self.settings.coverage == "fertility":
                [of_state] = times(self.parameters[f"{self.prefix}features.fertility.weight"], items[j])
                covered /= 2 / (1 + math.exp(-of_state))
            u = plus(u, times(self.parameters[f"{self.prefix}features.coverage.weight"], [covered]))
        if self.settings.location:
            half = self.settings.location_width // 2
            previous = self.steps[-1] if self.steps else [0.0] * len(items)
            near = [previous[i] if 0 <= i < len(items) else 0.0 for i in range(j - half, j + half + 1)]
            filtered = [dot(kernel[0], near) for kernel in self.parameters[f"{self.prefix}features.filters.weight"]]
            u = plus(u, times(self.parameters[f"{self.prefix}features.location.weight"], filtered))
        return u

    def center(self, q: Vector, length: int) -> float:
        """p_t of a local attention   Luong et al. 2015, 3.2."""
        if self.settings.window == "monotonic":
            return min(len(self.steps), length - 1)
        hidden = tanh(times(self.parameters[f"{self.prefix}window.hidden.weight"], q))
        [share] = sigmoid(times(self.parameters[f"{self.prefix}window.vector.weight"], hidden))
        return min(length * share, length - 0.5)

    def compare(self, q: Vector, k: Vector, u: Vector | None = None) -> float:
        def parameter(name: str) -> list:
            return self.parameters[f"{self.prefix}score.{name}"]

        match self.score:
            case "dot" | "parameter_free":
                return dot(q, k)
            case "scaled_dot":
                return dot(q, k) / math.sqrt(len(q))
            case "general":
                return dot(q, times(parameter("weight_QK"), k))
            case "scaled_general":
                return dot(q, times(parameter("weight_QK"), k)) / math.sqrt(len(k))
            case "concat":
                hidden = times(parameter("weight"), q + k)
                return dot(parameter("vector"), tanh(plus(hidden, u) if u else hidden))
            case "additive":
                of_key = plus(times(parameter("key_projection.weight"), k), parameter("key_projection.bias"))
                hidden = plus(of_key, times(parameter("query_projection.weight"), q))
                return dot(parameter("vector"), tanh(plus(hidden, u) if u else hidden))
            case "cosine":
                length = math.sqrt(dot(q, q)) * math.sqrt(dot(k, k))
                return dot(q, k) / length / self.temperature if length else 0.0
        raise AssertionError(self.score)

    def look(self, q: Vector, items: list[Vector]) -> tuple[Vector, Vector]:
        """The context and the weights."""
        remembers = self.settings.coverage != "none" or self.settings.location
        scores = [
            self.compare(q, self.project("key_projection", item), self.features(j, items) if remembers else None)
            for j, item in enumerate(items)
        ]
        if self.settings.window == "none":
            weights = softmax(scores)
        else:
            center, size = self.center(q, len(items)), self.settings.window_size
            inside = [j for j in range(len(items)) if abs(j - center) <= size]
            alpha = dict(zip(inside, softmax([scores[j] for j in inside]), strict=True))
            if self.settings.window == "predictive":
                alpha = {j: alpha[j] * math.exp(-((j - center) ** 2) / (2 * (size / 2) ** 2)) for j in inside}
            weights = [alpha.get(j, 0.0) for j in range(len(items))]
        self.steps.append(weights)
        return mix(weights, [self.project("value_projection", item) for item in items]), weights


class SlowSeq2Seq:
    """p(y_t | y_<t, x) for one pair, by the equations at the top of recurrent_decoder.py."""

    def __init__(self, settings: ModelSettings, model: nn.Module) -> None:
        self.settings = settings
        self.parameters = Parameters(model)
        encoder, decoder, attention = settings.encoder, settings.decoder, settings.attention
        self.encoder = SlowStack(self.parameters, "encoder.stack.", encoder.kind, encoder.connections, encoder.layers)
        self.decoder = SlowStack(self.parameters, "decoder.stack.", decoder.kind, decoder.connections, decoder.layers)
        self.attention = SlowAttention(self.parameters, "decoder.attention.", attention)

    def encode(self, source: list[int]) -> tuple[list[Vector], tuple[LayerState, ...]]:
        encoder = self.settings.encoder
        embedded = [self.parameters["source_embedding.weight_VE"][token] for token in source]
        if encoder.reverse_source:
            states, final = self.encoder.read(embedded[::-1], bidirectional=False)
            return states[::-1], final
        return self.encoder.read(embedded, bidirectional=encoder.bidirectional)

    def bridge(self, final: tuple[LayerState, ...]) -> tuple[LayerState, ...]:
        decoder = self.settings.decoder
        parts = 2 if decoder.kind == "lstm" else 1
        if self.settings.bridge == "zero":
            return (([0.0] * decoder.hidden,) * parts,) * decoder.layers
        if "decoder.bridge.maps.0.weight" not in self.parameters:
            return final
        top = final[-1][0]
        started = [
            tanh(
                plus(
                    times(self.parameters[f"decoder.bridge.maps.{i}.weight"], top),
                    self.parameters[f"decoder.bridge.maps.{i}.bias"],
                )
            )
            for i in range(decoder.layers * parts)
        ]
        return tuple(tuple(started[level * parts : (level + 1) * parts]) for level in range(decoder.layers))

    def readout(self, parts: list[Vector]) -> Vector:
        joined = [x for part in parts for x in part]
        if "decoder.readout.weight" not in self.parameters:
            return joined
        weight, bias = self.parameters["decoder.readout.weight"], self.parameters["decoder.readout.bias"]
        return tanh(plus(times(weight, joined), bias))

    def logits(self, source: list[int], inputs: list[int]) -> tuple[list[Vector], list[Vector]]:
        """Logits and attention weights for every position of one row."""
        settings = self.settings
        attends = settings.attention.score != "none"
        before = attends and settings.attention.placement == "before"
        items, final = self.encode(source)
        self.attention.steps = []
        state = self.bridge(final)
        summary = final[-1][0] if settings.decoder.feed_summary else []
        width = len(self.parameters["output.weight_VD"][0])
        fed = [0.0] * width if settings.decoder.input_feeding else []
        logits, weights = [], []
        for token in inputs:
            y = self.parameters["target_embedding.weight_VE"][token]
            context: Vector = []
            if before:
                context, alpha = self.attention.look(state[-1][0], items)
                s, state = self.decoder.step(y + context + summary, state)
            else:
                s, state = self.decoder.step(y + fed + summary, state)
                if attends:
                    context, alpha = self.attention.look(s, items)
            hidden = self.readout([context, summary, s, y if before or summary else []])
            fed = hidden if settings.decoder.input_feeding else []
            logits.append(plus(times(self.parameters["output.weight_VD"], hidden), self.parameters["output.bias_V"]))
            if attends:
                weights.append(alpha)
        return logits, weights


class SlowLanguageModel:
    """p(y_t | y_<t) for one row."""

    def __init__(self, settings: ModelSettings, model: nn.Module) -> None:
        self.settings = settings
        self.parameters = Parameters(model)
        decoder = settings.decoder
        self.stack = SlowStack(self.parameters, "stack.", decoder.kind, decoder.connections, decoder.layers)
        self.attention = SlowAttention(self.parameters, "attention.", settings.attention)

    def logits(self, inputs: list[int]) -> tuple[list[Vector], list[Vector]]:
        attends = self.settings.attention.score != "none"
        state = tuple(self.stack.zero(level) for level in range(self.settings.decoder.layers))
        past = [[0.0] * self.settings.decoder.hidden]
        logits, weights = [], []
        for token in inputs:
            s, state = self.stack.step(self.parameters["embedding.weight_VE"][token], state)
            hidden = s
            if attends:
                context, alpha = self.attention.look(s, past)
                weights.append(alpha)
                past.append(s)
                hidden = context + s
            if "readout.weight" in self.parameters:
                hidden = tanh(plus(times(self.parameters["readout.weight"], hidden), self.parameters["readout.bias"]))
            logits.append(plus(times(self.parameters["output.weight_VD"], hidden), self.parameters["output.bias_V"]))
        return logits, weights
