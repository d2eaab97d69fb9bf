"""The stages of a step of a Transformer, in the order of `TransformerStack.step`, for one layer and one head."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

import torch
from torch import Tensor

from weft.apps.serve.walk import AttentionNumbers, Choice, Stage

if TYPE_CHECKING:
    from weft.attention.multihead import KeysValues, StepKeysValues
    from weft.attention.relative_positions import Rotation
    from weft.models.layers import ResidualBlock
    from weft.models.prefix_lm import PrefixLM, PrefixMemory, PrefixState
    from weft.models.transformer import TransformerLayer, TransformerStack
    from weft.models.transformer_decoder import TransformerDecoder, TransformerMemory, TransformerState

ATTENTION = "e_j = q · k_j / √d;  α = softmax(e);  c = Σ_j α_j v_j"
FEED_FORWARD = "f(x) = W₂ act(W₁ x + b₁) + b₂"


class StepContext(NamedTuple):
    """Where a token is read, and what it attends to."""

    positions_R: Tensor
    longest: int
    history: Sequence[KeysValues]
    sources: Sequence[StepKeysValues | None]


def walk_transformer_decoder(
    decoder: TransformerDecoder, embedded_RE: Tensor, state: TransformerState, memory: TransformerMemory, choice: Choice
) -> tuple[list[Stage], Tensor]:
    """The stages of a step for one row, and the state that the output layer reads."""
    time = state.layers[0].keys.shape[2]
    positions_R = torch.full((1,), time, device=embedded_RE.device)
    context = StepContext(positions_R, time + 1, state.layers, memory.step_sources())
    stages, stream_RD = walk_stack(decoder.stack, embedded_RE, context, choice)
    return stages, decoder.readout(stream_RD)


def walk_prefix_lm(
    model: PrefixLM, embedded_RE: Tensor, state: PrefixState, memory: PrefixMemory, choice: Choice
) -> tuple[list[Stage], Tensor]:
    """The stages of a step for one row, and the state that the output layer reads."""
    time = state.layers[0].keys.shape[2]
    longest = time + 1 + memory.mask_B11S.shape[-1]
    context = StepContext(memory.lengths_B + time, longest, state.layers, model.step_sources(memory, time))
    stages, stream_RD = walk_stack(model.stack, embedded_RE, context, choice)
    return stages, model.readout(stream_RD)


def walk_stack(
    stack: TransformerStack, embedded_RE: Tensor, context: StepContext, choice: Choice
) -> tuple[list[Stage], Tensor]:
    """All stages, those within the chosen layer in detail; and the stream after the final norm."""
    stages, stream_RD = embed(stack, embedded_RE, context)
    history_T = torch.arange(context.history[0].keys.shape[2] + 1, device=embedded_RE.device)
    biases = stack.position_biases(history_T[-1:], history_T)
    rotation = stack.rotation(context.positions_R, stream_RD.dtype)
    streams = {"x_0": stream_RD}
    for number, layer in enumerate(stack.layers):
        bias = None if biases[number] is None else biases[number][None]  # type: ignore[index]
        walked = LayerWalk(layer, f"Layer {number + 1}: ", choice.head)
        of_layer, stream_RD = walked.run(stream_RD, context.history[number], rotation, bias, context.sources[number])
        streams[f"x_{number + 1}"] = stream_RD
        if number == choice.layer:
            stages += of_layer
    help = "The vector of the token after every layer: each adds to it what it has found."
    stages.append(Stage("The stream through all layers", "x_l = layer_l(x_{l−1})", streams, help))
    if stack.final_norm is None:
        return stages, stream_RD
    normalized_RD = stack.normalize(stream_RD)
    vectors = {"x": stream_RD, "norm(x)": normalized_RD}
    return [*stages, Stage("Final norm", norm_equation(stack.final_norm), vectors)], normalized_RD


def embed(stack: TransformerStack, embedded_RE: Tensor, context: StepContext) -> tuple[list[Stage], Tensor]:
    """The embedding with its position, as in `TransformerStack.embed`."""
    vectors = {"E[y]": embedded_RE}
    equation = "x_0 = √d · E[y]" if stack.settings.scale_embedding else "x_0 = E[y]"
    if stack.positions is not None:
        vectors["PE(t)"] = stack.positions(context.positions_R, context.longest)
        equation += " + PE(t)"
    stream_RD = stack.embed(embedded_RE, context.positions_R, context.longest)
    help = "The row of the embedding matrix that belongs to the token, and the vector of its position."
    if stack.positions is None:
        help = f"The row of the embedding matrix that belongs to the token. Positions: {stack.settings.positions}."
    return [Stage("Embedding", equation, {**vectors, "x_0": stream_RD}, help)], stream_RD


class LayerWalk:
    """The stages of a layer, as in `TransformerLayer.step`."""

    def __init__(self, layer: TransformerLayer, prefix: str, head: int) -> None:
        """``prefix``: the beginning of the titles."""
        self.layer = layer
        self.prefix = prefix
        self.head = head
        self.stages: list[Stage] = []

    def run(
        self,
        stream_RD: Tensor,
        history: KeysValues,
        rotation: Rotation | None,
        bias: Tensor | None,
        source: StepKeysValues | None,
    ) -> tuple[list[Stage], Tensor]:
        """The stages, and the stream after the layer."""
        layer = self.layer
        prefix = source if layer.cross_attention is None else None
        residual, attention = layer.self_attention_residual, layer.self_attention
        inputs_RD = residual.input(stream_RD)
        output_RD, longer, weights_RHS = attention.step(inputs_RD, history, rotation, bias, prefix)
        queries_RHD = attention.split_heads(attention.query_key_value(inputs_RD))[:, : attention.heads]
        if rotation is not None:
            queries_RHD = rotation.rotate(queries_RHD)
        parts: list[Any] = [prefix] if prefix is not None else []
        parts.append((longer.keys, longer.values, bias))
        title = "self-attention" if prefix is None else "attention to the source and the output so far"
        self.attend(title, queries_RHD, parts, weights_RHS, "history" if prefix is None else "both")
        stream_RD = self.add("self-attention", residual, stream_RD, inputs_RD, output_RD)
        if layer.cross_attention is not None and source is not None:
            residual, cross = layer.cross_attention_residual, layer.cross_attention
            inputs_RD = residual.input(stream_RD)
            output_RD, weights_RHS = cross.step(inputs_RD, source)
            queries_RHD = cross.split_heads(cross.query(inputs_RD))
            self.attend("attention to the source", queries_RHD, [source], weights_RHS, "source")
            stream_RD = self.add("attention to the source", residual, stream_RD, inputs_RD, output_RD)
        if layer.feed_forward is not None:
            residual, network = layer.feed_forward_residual, layer.feed_forward
            inputs_RD = residual.input(stream_RD)
            inner_RF = network.activation(network.linear1(inputs_RD))
            output_RD = network(inputs_RD)
            vectors = {"x": inputs_RD, "act(W₁ x + b₁)": inner_RF, "f(x)": output_RD}
            self.stages.append(Stage(f"{self.prefix}feed-forward network", FEED_FORWARD, vectors))
            stream_RD = self.add("feed-forward network", residual, stream_RD, inputs_RD, output_RD)
        return self.stages, stream_RD

    def attend(
        self,
        title: str,
        queries_RHD: Tensor,
        parts: Sequence[Any],
        weights_RHS: Tensor,
        side: str,
    ) -> None:
        """Add the stage of an attention: the chosen head over all parts together. Heads may share keys and values."""
        heads, kv_heads = queries_RHD.shape[1], parts[0][0].shape[1]
        head = min(self.head, heads - 1)
        of_keys = head // (heads // kv_heads)
        query_D = queries_RHD[0, head]
        keys, values, scores = [], [], []
        for keys_BHSD, values_BHSD, bias in parts:
            keys.append(keys_BHSD[0, of_keys])
            values.append(values_BHSD[0, of_keys])
            scores_S = keys[-1] @ query_D / math.sqrt(len(query_D))
            if bias is not None:
                scores_S = scores_S + bias.expand(1, heads, 1, -1)[0, head, 0]
            scores.append(scores_S)
        weights_S, values_SD = weights_RHS[0, head], torch.cat(values)
        numbers = AttentionNumbers(
            query_D, torch.cat(keys), values_SD, torch.cat(scores), weights_S, weights_S @ values_SD, side
        )
        help = f"Head {head + 1} of {heads}: its query q is compared with the key k of every position j."
        self.stages.append(Stage(f"{self.prefix}{title}", ATTENTION, {}, help, numbers))

    def add(
        self, title: str, residual: ResidualBlock, stream_RD: Tensor, inputs_RD: Tensor, output_RD: Tensor
    ) -> Tensor:
        """Add the stage of a residual connection with its norm; the stream after it."""
        after_RD = residual.add(stream_RD, output_RD)
        if residual.pre_norm:
            equation = f"x ← x + f(norm(x));  {norm_equation(residual.norm)}"
            vectors = {"x": stream_RD, "norm(x)": inputs_RD, "f": output_RD, "x + f": after_RD}
        else:
            equation = f"x ← norm(x + f(x));  {norm_equation(residual.norm)}"
            vectors = {"x": stream_RD, "f": output_RD, "x + f": stream_RD + output_RD, "norm(x + f)": after_RD}
        self.stages.append(Stage(f"{self.prefix}residual and norm of the {title}", equation, vectors))
        return after_RD


def norm_equation(norm: Any) -> str:
    """By the kind of norm."""
    if type(norm).__name__ == "RMSNorm":
        return "norm(x) = a ⊙ x / √(mean(x²) + ε)"
    return "norm(x) = a ⊙ (x − μ) / √(σ² + ε) + b"
