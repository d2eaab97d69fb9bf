"""Transformer layers and stacks   Vaswani et al. 2017, and later variants as options.

A layer is a list of sub-layers f, each in a residual block with a norm:

    post    x ← norm(x + f(x))              as published
    pre     x ← x + f(norm(x))              Xiong et al. 2020; a final norm follows the last layer

f is self-attention, cross-attention over the source, and the position-wise feed-forward network. A stack of kind
"attention" has no feed-forward networks.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import cast

import torch
from torch import Tensor, nn
from torch.nn import functional

from weft.attention.edits import AttentionRole
from weft.attention.initialization import initialize
from weft.attention.multihead import CrossAttention, Heads, KeysValues, SelfAttention, StepKeysValues
from weft.attention.normalizers import Normalizer, make_normalizer, softmax
from weft.attention.ragged_attention import (
    AttentionPattern,
    AttentionRecorder,
    AttentionRecords,
    RaggedAttention,
    ReturnAttention,
    patterns_by_layer,
)
from weft.attention.relative_positions import AlibiBias, RelativeBias, Rotation, T5Bias, rotation
from weft.models.architecture import AttentionShape, PartArchitecture, StackShape
from weft.models.interface import Encoded, Model
from weft.models.layers import ResidualBlock, dropout, make_norm, normalize
from weft.models.positions import Learned, Sinusoidal
from weft.ragged import Ragged
from weft.recipe import ModelSettings, TransformerSettings
from weft.runtime.devices import autocast_dtype
from weft.runtime.replaceable import replaceable


def gelu_tanh(values: Tensor) -> Tensor:
    """½ x (1 + tanh(√(2/π) (x + 0.044715 x³))), near GELU   Hendrycks & Gimpel 2016, 2."""
    return functional.gelu(values, approximate="tanh")


def gated(activation: Callable[[Tensor], Tensor]) -> Callable[[Tensor], Tensor]:
    """act(a) ⊙ b of the two halves of a vector."""

    def activate(both: Tensor) -> Tensor:
        gate, values = both.chunk(2, -1)
        return activation(gate) * values

    return activate


ACTIVATIONS: dict[str, Callable[[Tensor], Tensor]] = {
    "relu": functional.relu_,  # in place: nothing else uses its input
    "gelu": functional.gelu,
    "gelu_tanh": gelu_tanh,
    "silu": functional.silu,
    "swiglu": gated(functional.silu),
    "geglu": gated(functional.gelu),
    "geglu_tanh": gated(gelu_tanh),
}


class FeedForward(nn.Module):
    """W₂ act(W₁ x + b₁) + b₂   Vaswani et al. 2017, eq. 2; gated: W₂ (act(W₁ x) ⊙ V x)   Shazeer 2020."""

    def __init__(self, settings: TransformerSettings) -> None:
        super().__init__()
        width, inner = settings.hidden, settings.feed_forward
        self.activation = ACTIVATIONS[settings.activation]
        self.dropout = settings.activation_dropout
        self.linear1 = nn.Linear(width, inner * (2 if settings.gated else 1))
        self.linear2 = nn.Linear(inner, width)
        initialize(self)

    def reset_parameters(self) -> None:
        for linear in (self.linear1, self.linear2):
            nn.init.xavier_uniform_(linear.weight)
            nn.init.zeros_(linear.bias)

    def forward(self, stream_ND: Tensor) -> Tensor:
        inner_NF = dropout(self.activation(self.linear1(stream_ND)), self.dropout, self.training)
        output_ND: Tensor = self.linear2(inner_NF)
        return output_ND


class TransformerLayer(nn.Module):
    """Self-attention; cross-attention if there is a source; feed-forward network unless the kind is "attention"."""

    def __init__(
        self,
        settings: TransformerSettings,
        *,
        normalize: Normalizer = softmax,
        source_width: int | None = None,
        source_columns: int = 1,
    ) -> None:
        """``source_width``: width of the source states; None: without cross-attention.

        ``source_columns``: number of source columns that are attended to separately.
        """
        super().__init__()
        width, dropout = settings.hidden, settings.attention_dropout
        heads = Heads(settings.heads, settings.kv_heads, settings.head_width)
        self.self_attention = SelfAttention(width, heads, dropout=dropout, normalize=normalize)
        self.self_attention_residual = ResidualBlock(settings)
        self.cross_attention: CrossAttention | None = None
        if source_width is not None:
            if source_columns > 1:
                from weft.attention.source_attention import SeparateCrossAttention

                self.cross_attention = SeparateCrossAttention(
                    settings, columns=source_columns, source_width=source_width, normalize=normalize
                )
            else:
                self.cross_attention = CrossAttention(width, source_width, heads, dropout=dropout, normalize=normalize)
            self.cross_attention_residual = ResidualBlock(settings)
        self.feed_forward: FeedForward | None = None
        if settings.kind != "attention":
            self.feed_forward = FeedForward(settings)
            self.feed_forward_residual = ResidualBlock(settings)

    @replaceable
    def forward(
        self,
        stream_ND: Tensor,
        pattern: AttentionPattern,
        rotation: Rotation | None = None,
        source_MD: Tensor | None = None,
        source_pattern: AttentionPattern | None = None,
        recorder: AttentionRecorder | None = None,
    ) -> Tensor:
        """All tokens of a batch, each attending where the patterns allow."""
        residual = self.self_attention_residual
        output_ND = self.self_attention(residual.input(stream_ND), pattern, rotation, recorder)
        stream_ND = residual.add(stream_ND, output_ND)
        if self.cross_attention is not None and source_MD is not None:
            residual = self.cross_attention_residual
            output_ND = self.cross_attention(residual.input(stream_ND), source_MD, source_pattern, recorder)
            stream_ND = residual.add(stream_ND, output_ND)
        return self._feed_forward(stream_ND)

    def step(
        self,
        stream_RD: Tensor,
        history: KeysValues,
        rotation: Rotation | None,
        bias: Tensor | None,
        source: StepKeysValues | None,
    ) -> tuple[Tensor, KeysValues, Tensor]:
        """One token per row: the stream, the longer history, and the weights (R, H, S) over the source.

        Without cross-attention the source, if any, is a prefix of the history, and the weights are over both.
        """
        residual = self.self_attention_residual
        prefix = source if self.cross_attention is None else None
        output_RD, longer, weights_RHS = self.self_attention.step(
            residual.input(stream_RD), history, rotation, bias, prefix
        )
        stream_RD = residual.add(stream_RD, output_RD)
        if self.cross_attention is not None and source is not None:
            residual = self.cross_attention_residual
            output_RD, weights_RHS = self.cross_attention.step(residual.input(stream_RD), source)
            stream_RD = residual.add(stream_RD, output_RD)
        return self._feed_forward(stream_RD), longer, weights_RHS

    def _feed_forward(self, stream_ND: Tensor) -> Tensor:
        if self.feed_forward is None:
            return stream_ND
        residual = self.feed_forward_residual
        return residual.add(stream_ND, self.feed_forward(residual.input(stream_ND)))


class TransformerStack(nn.Module):
    """Layers, the embedding of their inputs with positions, and the final norm of a pre-norm stack."""

    def __init__(
        self,
        settings: TransformerSettings,
        *,
        input_width: int,
        bidirectional: bool,
        normalize: Normalizer = softmax,
        source_width: int | None = None,
        source_columns: int = 1,
    ) -> None:
        """``settings``: settings with all dropouts set; ``bidirectional``: whether tokens attend to later tokens."""
        super().__init__()
        width = settings.hidden
        self.settings = settings
        self.width = width
        self.embedding_scale = math.sqrt(input_width) if settings.scale_embedding else 1.0
        self.input_projection = nn.Identity() if input_width == width else nn.Linear(input_width, width)
        self.positions: Sinusoidal | Learned | None = None
        if settings.positions == "sinusoidal":
            self.positions = Sinusoidal(width, layout=settings.sinusoids, first=settings.first_position)
        elif settings.positions == "learned":
            self.positions = Learned(width, count=settings.max_positions)
        self.embedding_norm = make_norm(settings) if settings.embedding_norm else None
        self.relative_bias = make_relative_bias(settings, bidirectional=bidirectional)
        layers = [
            TransformerLayer(settings, normalize=normalize, source_width=source_width, source_columns=source_columns)
            for _ in range(settings.layers)
        ]
        self.layers = cast(Sequence[TransformerLayer], nn.ModuleList(layers))
        self.final_norm = make_norm(settings) if settings.norm_placement == "pre" else None

    @property
    def max_positions(self) -> int | None:
        """The longest sequence it can read; None: unlimited."""
        return self.settings.max_positions if isinstance(self.positions, Learned) else None

    @replaceable
    def embed(self, embedded_NE: Tensor, positions_N: Tensor, longest: int) -> Tensor:
        """x = √d E[y] + PE(position), normalized if so set, with dropout   Vaswani et al. 2017, 3.4, 5.4."""
        stream_ND = self.input_projection(embedded_NE * self.embedding_scale)
        stream_ND = stream_ND.to(autocast_dtype(stream_ND))
        if self.positions is not None:
            stream_ND = stream_ND + self.positions(positions_N, longest).to(stream_ND.dtype)
        if self.embedding_norm is not None:
            stream_ND = normalize(self.embedding_norm, stream_ND)
        return dropout(stream_ND, self.settings.embedding_dropout or 0.0, self.training)

    @replaceable
    def forward(
        self,
        stream_ND: Tensor,
        positions_N: Tensor,
        patterns: Sequence[AttentionPattern],
        source_MD: Tensor | None = None,
        source_pattern: AttentionPattern | None = None,
        records: AttentionRecords | None = None,
    ) -> Tensor:
        """All layers, before the final norm.

        ``patterns``: the self-attention of each layer. ``records``: receives the attention weights to return.
        """
        rotation = self.rotation(positions_N, stream_ND.dtype)
        for number, (layer, pattern) in enumerate(zip(self.layers, patterns, strict=True)):
            recorder = None if records is None else records.recorder(number)
            stream_ND = layer(stream_ND, pattern, rotation, source_MD, source_pattern, recorder)
        return stream_ND

    def step(
        self,
        stream_RD: Tensor,
        positions_R: Tensor,
        history: Sequence[KeysValues],
        sources: Sequence[StepKeysValues | None],
    ) -> tuple[Tensor, tuple[KeysValues, ...], list[Tensor]]:
        """One token per row through all layers, before the final norm; with the results of each layer's `step`."""
        history_T = torch.arange(history[0].keys.shape[2] + 1, device=stream_RD.device)
        biases = self.position_biases(history_T[-1:], history_T)
        rotation = self.rotation(positions_R, stream_RD.dtype)
        longer: list[KeysValues] = []
        weights: list[Tensor] = []
        for layer, layer_history, bias_HTS, source in zip(self.layers, history, biases, sources, strict=True):
            bias = None if bias_HTS is None else bias_HTS[None]
            stream_RD, layer_longer, weights_RHS = layer.step(stream_RD, layer_history, rotation, bias, source)
            longer.append(layer_longer)
            weights.append(weights_RHS)
        return stream_RD, tuple(longer), weights

    def normalize(self, stream_ND: Tensor) -> Tensor:
        """The final norm of a pre-norm stack."""
        return stream_ND if self.final_norm is None else normalize(self.final_norm, stream_ND)

    def rotation(self, positions_N: Tensor, dtype: torch.dtype) -> Rotation | None:
        """The rotation of queries and keys at these positions, if positions are rotary."""
        if self.settings.positions != "rotary":
            return None
        return rotation(positions_N, self.settings.head_width, dtype)

    def position_biases(self, queries: Tensor, keys: Tensor) -> list[Tensor | None]:
        """The biases of distances in the scores, for positions (…, T) and (…, S): (…, H, T, S) for each layer.

        Layers that share a table share the tensor.
        """
        if self.relative_bias is None:
            return [None] * len(self.layers)
        distances = keys[..., None, :] - queries[..., :, None]
        if isinstance(self.relative_bias, nn.ModuleList):
            return [bias(distances) for bias in self.relative_bias]
        return [self.relative_bias(distances)] * len(self.layers)

    def self_attention_biases(self, longest: int, device: torch.device) -> list[Tensor | None]:
        """`position_biases` where the positions of every row are 0, 1, 2, …: (1, H, T, T) for each layer."""
        positions_1T = torch.arange(longest, device=device)[None]
        return self.position_biases(positions_1T, positions_1T)

    def shape(self, module: str) -> StackShape:
        """``module``: the name of the module in the model."""
        positions = self.settings.positions
        return StackShape(module, "transformer", len(self.layers), self.width, positions, self.max_positions)

    def self_attentions(self, module: str, kind: str) -> tuple[AttentionShape, ...]:
        """The self-attention of every layer; ``kind``: the kind of its role."""
        return tuple(
            AttentionShape(f"{module}.layers.{number}.self_attention", AttentionRole(kind, number), self.settings.heads)
            for number in range(len(self.layers))
        )

    def empty_history(self, rows: int, like: Tensor) -> tuple[KeysValues, ...]:
        """The keys and values (R, H, 0, D) of each layer before the first step of a search."""
        none = like.new_zeros(rows, self.settings.kv_heads, 0, self.settings.head_width)
        return tuple(KeysValues(none, none) for _ in self.layers)


def transformer_layers(model: Model) -> list[TransformerLayer]:
    """The Transformer layers of any model, in the order of its modules."""
    return [layer for stack in transformer_stacks(model) for layer in stack.layers]


def transformer_stacks(model: Model) -> list[TransformerStack]:
    """The Transformer stacks of any model, in the order of its modules."""
    return [module for module in model.modules() if isinstance(module, TransformerStack)]


def make_relative_bias(settings: TransformerSettings, *, bidirectional: bool) -> RelativeBias | nn.ModuleList | None:
    """The biases of distances: one for all layers, or one for each; None if positions are of another kind."""
    if settings.positions == "alibi":
        return AlibiBias(settings.heads)
    if settings.positions != "relative":
        return None
    tables = [
        T5Bias(
            settings.heads,
            bidirectional=bidirectional,
            buckets=settings.relative_buckets,
            max_distance=settings.relative_max_distance,
        )
        for _ in range(settings.layers if settings.relative_per_layer else 1)
    ]
    return nn.ModuleList(tables) if settings.relative_per_layer else tables[0]


def make_transformer_stack(
    settings: ModelSettings, stack: TransformerSettings, *, bidirectional: bool, source_width: int | None = None
) -> TransformerStack:
    """The stack of one side of a model, with fresh weights; dropouts that are not set are ``model.dropout``."""
    dropouts = {
        name: settings.dropout for name in ("embedding_dropout", "residual_dropout") if getattr(stack, name) is None
    }
    return TransformerStack(
        stack.model_copy(update=dropouts),
        input_width=settings.embedding,
        bidirectional=bidirectional,
        normalize=make_normalizer(settings.attention.normalizer),
        source_width=source_width,
        source_columns=settings.sources.separate_attentions,
    )


class TransformerEncoder(nn.Module):
    """Layers of self-attention over the source   Vaswani et al. 2017, 3.1.

    Without feed-forward networks it is the attention-only encoder.
    """

    def __init__(self, settings: ModelSettings) -> None:
        super().__init__()
        assert isinstance(settings.encoder, TransformerSettings)
        self.stack = make_transformer_stack(settings, settings.encoder, bidirectional=True)

    def forward(self, embedded: Ragged, *, return_attention: ReturnAttention = False) -> Encoded:
        records = AttentionRecords(return_attention)
        layout = embedded.layout
        stream_ND = self.stack.embed(embedded.values, layout.positions, layout.longest)
        patterns = patterns_by_layer(
            lambda bias: RaggedAttention("encoder", layout, layout, bias=bias),
            self.stack.self_attention_biases(layout.longest, stream_ND.device),
        )
        stream_ND = self.stack(stream_ND, layout.positions, patterns, records=records)
        return Encoded(embedded.like(self.stack.normalize(stream_ND)), None, tuple(records))

    def part_architecture(self, module: str) -> PartArchitecture:
        stack = f"{module}.stack"
        return PartArchitecture((self.stack.shape(stack),), self.stack.self_attentions(stack, "encoder"))
