"""A Transformer's weights as a CTranslate2 specification.

CTranslate2 computes what weft computes, once each of weft's options is expressed in its terms:

    sinusoidal    a table: its own sinusoids count from 1 and put sines before cosines, weft's interleave them
    alibi         T5 buckets, one per distance: w_h[d] = −m_h d. So both directions and any number of heads
    none          T5 buckets, all 0
    embedding ≠ hidden   E' = √e E Wᵀ + b, the table already projected; the output too, W' = O R, b' = O b + c
    attention     an encoder without feed-forward networks gets zero ones:  x + W₂ act(0) = x   (pre-norm only)
    alignment_heads   the word alignment is the mean of the first heads of a layer: its heads in another order

The tables of `sinusoidal` and `alibi` have ``positions`` positions; a learned one has as many as were learned.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, cast

import numpy as np
import torch
from torch import Tensor, nn

from weft.attention.relative_positions import AlibiBias, T5Bias
from weft.models.layers import Embedding
from weft.models.positions import Learned, Sinusoidal
from weft.models.seq2seq import Seq2Seq
from weft.models.transformer import TransformerEncoder, TransformerLayer, TransformerStack
from weft.models.transformer_decoder import TransformerDecoder
from weft.recipe import TransformerSettings
from weft.text.specials import BEGIN, END, SPECIALS, UNKNOWN

POSITIONS = 4096
"""Positions for which a table is written if the model has no limit."""
ZERO_WIDTH = 8
"""Inner width of a feed-forward network that adds nothing."""


def token_names(size: int) -> list[str]:
    """The vocabulary of CTranslate2: special tokens as they are spelled, every other token as its id.

    Their text is not used: it may hold line ends, or be spelled like a special token.
    """
    return [*SPECIALS, *map(str, range(len(SPECIALS), size))]


def make_spec(model: Seq2Seq, *, positions: int = POSITIONS, start: int | None = BEGIN) -> Any:
    """A `ctranslate2.specs.TransformerSpec` with the model's weights, ready to be saved.

    ``start``: the special token that the decoder reads first; None: the first token of the target prefix of a call.
    """
    from ctranslate2 import specs

    with torch.no_grad():
        encoder, decoder = transformer_stacks(model)
        source_VE = cast(Embedding, model.source_embedding).weight_VE
        alignment = cast(TransformerDecoder, model.decoder).alignment
        [(alignment_layer, heads)] = alignment.items()  # heads of several layers: `unsupported_model`
        spec = specs.TransformerSpec(
            specs.TransformerEncoderSpec(**_options(encoder.settings)),
            specs.TransformerDecoderSpec(
                **_options(decoder.settings),
                alignment_layer=alignment_layer,
                alignment_heads=len(heads) if heads else decoder.settings.heads,
            ),
        )
        _fill_embeddings(spec.encoder, spec.encoder.embeddings[0], encoder, source_VE)
        _fill_embeddings(spec.decoder, spec.decoder.embeddings, decoder, model.target_embedding.weight_VE)
        _fill_stack(spec.encoder, encoder, positions)
        _fill_stack(spec.decoder, decoder, positions)
        if heads:
            _put_first(spec.decoder.layer[alignment_layer].attention, decoder.layers[alignment_layer], heads)
        _fill_output(spec.decoder.projection, model)
    spec.register_source_vocabulary(token_names(len(source_VE)))
    spec.register_target_vocabulary(token_names(len(model.target_embedding.weight_VE)))
    spec.config.unk_token, spec.config.bos_token, spec.config.eos_token = (
        SPECIALS[UNKNOWN],
        SPECIALS[BEGIN],
        SPECIALS[END],
    )
    spec.config.decoder_start_token = None if start is None else SPECIALS[start]
    spec.config.add_source_eos = False  # sources are given as the model reads them, with the end token
    spec.config.layer_norm_epsilon = decoder.settings.norm_epsilon  # the encoder's too (`unsupported_model`)
    return spec


def transformer_stacks(model: Seq2Seq) -> tuple[TransformerStack, TransformerStack]:
    """The stacks of encoder and decoder, which `unsupported_model` has found to be Transformers."""
    return cast(TransformerEncoder, model.encoder).stack, cast(TransformerDecoder, model.decoder).stack


def _options(settings: TransformerSettings) -> dict[str, Any]:
    """The options that encoder and decoder share."""
    from ctranslate2.specs import Activation

    activations = {
        **{"relu": Activation.RELU, "silu": Activation.SWISH, "swiglu": Activation.SWISH},
        **{"gelu": Activation.GELU, "geglu": Activation.GELU},
        **{"gelu_tanh": Activation.GELUTanh, "geglu_tanh": Activation.GELUTanh},
    }
    options: dict[str, Any] = {
        "num_layers": settings.layers,
        "num_heads": settings.heads,
        "pre_norm": settings.norm_placement == "pre",
        "activation": activations[settings.activation],
        "ffn_glu": settings.gated,
        "layernorm_embedding": settings.embedding_norm,
        "rms_norm": settings.norm == "rms",
        "relative_attention_bias": settings.positions in ("relative", "alibi", "none"),
    }
    if settings.key_value_heads and settings.key_value_heads != settings.heads:
        options["num_heads_kv"] = settings.key_value_heads
    if settings.head_size:
        options["head_dim"] = settings.head_size
    if settings.positions == "rotary":
        options |= {"rotary_dim": 0, "rotary_interleave": True, "rotary_base": 10_000}
    return options


def max_positions(stack: TransformerStack, positions: int) -> int | None:
    """The longest sequence that an exported stack can read; None: no limit."""
    return positions if stack.settings.positions in ("sinusoidal", "alibi") else stack.max_positions


def _fill_embeddings(spec: Any, embeddings: Any, stack: TransformerStack, table_VE: Tensor) -> None:
    if isinstance(stack.input_projection, nn.Identity):
        embeddings.weight = _array(table_VE)
        spec.scale_embeddings = stack.settings.scale_embedding
    else:
        embeddings.weight = _array(stack.input_projection(table_VE * stack.embedding_scale))
        spec.scale_embeddings = False


def _fill_stack(spec: Any, stack: TransformerStack, positions: int) -> None:
    if stack.settings.positions == "learned":
        spec.position_encodings.encodings = _array(cast(Learned, stack.positions).weight_PD)
    elif stack.settings.positions == "sinusoidal":
        spec.position_encodings.encodings = _array(cast(Sinusoidal, stack.positions).table.make(positions))
    if stack.embedding_norm is not None:
        _fill_norm(spec.layernorm_embedding, stack.embedding_norm)
    bias = _distance_table(stack, positions)
    for layer_spec, layer in zip(spec.layer, stack.layers, strict=True):
        _fill_layer(layer_spec, layer)
        if bias is not None:
            layer_spec.self_attention.relative_attention_bias = bias[0]
            layer_spec.self_attention.relative_attention_max_distance = bias[1]
    if stack.final_norm is not None:
        _fill_norm(spec.layer_norm, stack.final_norm)


def _distance_table(stack: TransformerStack, positions: int) -> tuple[np.ndarray, np.int32] | None:
    """The position biases as T5 buckets (K, H), and the distance from which on the last bucket counts.

    Of K buckets a decoder has all for the past, an encoder half for each direction; the nearer half of those are for
    one distance each. So with 2 · positions buckets per direction, every distance has its own.
    """
    if stack.settings.positions == "relative":
        biases: Any = stack.relative_bias
        relative: T5Bias = biases[0] if stack.settings.relative_per_layer else biases  # of one layer: see `support`
        return _array(relative.weight_KH), np.int32(relative.max_distance)
    directions = 2 if stack.layers[0].cross_attention is None else 1
    if stack.settings.positions == "alibi":
        distances_K = torch.arange(2 * positions, dtype=torch.float32)
        penalties_KH = -distances_K[:, None] * cast(AlibiBias, stack.relative_bias).slopes_H.cpu().float()
        return _array(penalties_KH.repeat(directions, 1)), np.int32(4 * positions)
    if stack.settings.positions == "none":
        return np.zeros((32, stack.settings.heads), np.float32), np.int32(128)
    return None


def _fill_layer(spec: Any, layer: TransformerLayer) -> None:
    own, cross = layer.self_attention, layer.cross_attention
    _fill_linears(spec.self_attention, own.query_key_value, own.output)
    _fill_norm(spec.self_attention.layer_norm, layer.self_attention_residual.norm)
    if cross is not None:
        _fill_linears(spec.attention, cross.query, cross.key_value, cross.output)
        _fill_norm(spec.attention.layer_norm, layer.cross_attention_residual.norm)
    if layer.feed_forward is None:
        width = layer.self_attention.output.out_features
        _fill_zero_feed_forward(spec.ffn, layer.self_attention_residual.norm, width=width)
        return
    _fill_norm(spec.ffn.layer_norm, layer.feed_forward_residual.norm)
    linear1, linear2 = layer.feed_forward.linear1, layer.feed_forward.linear2
    if linear1.out_features == linear2.in_features:
        _fill_linear(spec.ffn.linear_0, linear1.weight, linear1.bias)
    else:  # gated: act(W₁ x) ⊙ V x, both in one matrix
        for part, weight, bias in zip(
            (spec.ffn.linear_0, spec.ffn.linear_0_noact), linear1.weight.chunk(2), linear1.bias.chunk(2), strict=True
        ):
            _fill_linear(part, weight, bias)
    _fill_linear(spec.ffn.linear_1, linear2.weight, linear2.bias)


def _fill_zero_feed_forward(spec: Any, norm: nn.Module, *, width: int) -> None:
    """A feed-forward network that adds nothing."""
    _fill_norm(spec.layer_norm, norm)
    enter, leave = torch.zeros(ZERO_WIDTH, width), torch.zeros(width, ZERO_WIDTH)
    _fill_linear(spec.linear_0, enter, torch.zeros(ZERO_WIDTH))
    if hasattr(spec, "linear_0_noact"):
        _fill_linear(spec.linear_0_noact, enter, torch.zeros(ZERO_WIDTH))
    _fill_linear(spec.linear_1, leave, torch.zeros(width))


def _fill_linears(spec: Any, *projections: nn.Linear) -> None:
    """Fill the projections of an attention: queries, keys and values, in one matrix or in two, then the output."""
    for linear, projection in zip(spec.linear, projections, strict=True):
        _fill_linear(linear, projection.weight, projection.bias)


def _put_first(spec: Any, layer: TransformerLayer, heads: Sequence[int]) -> None:
    """The attention to the source with these heads before all others: other rows of projections, columns of outputs."""
    attention = layer.cross_attention
    assert attention is not None
    sizes = attention.heads, attention.head_width
    order = [*heads, *(head for head in range(attention.heads) if head not in heads)]
    for linear, projection in zip(spec.linear, (attention.query, attention.key_value), strict=False):
        blocks = [part.unflatten(0, (-1, *sizes))[:, order].flatten(0, 2) for part in projection.parameters()]
        _fill_linear(linear, *blocks)
    columns = attention.output.weight.unflatten(1, sizes)[:, order].flatten(1)
    _fill_linear(spec.linear[2], columns, attention.output.bias)


def _fill_output(spec: Any, model: Seq2Seq) -> None:
    weight_VE, bias_V = model.output.weight_VD, model.output.bias_V
    readout = cast(TransformerDecoder, model.decoder).readout
    if isinstance(readout, nn.Linear):
        _fill_linear(spec, weight_VE @ readout.weight, weight_VE @ readout.bias + bias_V)
    else:
        _fill_linear(spec, weight_VE, bias_V)


def _fill_linear(spec: Any, weight: Tensor, bias: Tensor) -> None:
    spec.weight, spec.bias = _array(weight), _array(bias)


def _fill_norm(spec: Any, norm: nn.Module) -> None:
    assert isinstance(norm, nn.LayerNorm | nn.RMSNorm)
    spec.gamma = _array(norm.weight)
    if isinstance(norm, nn.LayerNorm):
        spec.beta = _array(norm.bias)


def _array(tensor: Tensor) -> np.ndarray:
    """A copy: the library quantizes in place."""
    return np.array(tensor.detach().float().cpu().numpy(), dtype=np.float32, order="C", copy=True)
