"""The references of the exercises against implementations of PyTorch and sacrebleu."""

from __future__ import annotations

import sacrebleu
import torch
from torch import nn

from weft.apps.course.exercises import EXERCISES
from weft.apps.course.exercises.bleu import bleu
from weft.apps.course.exercises.transformer_layer import layer, layer_norm


def arguments_of(name: str, function: str) -> list[tuple]:  # type: ignore[type-arg]
    return [case.arguments for case in EXERCISES[name].cases() if case.function == function]


def test_attention_is_pytorchs() -> None:
    for name, function, causal in (("attention", "attention", False), ("masked_attention", "causal_attention", True)):
        for arguments in arguments_of(name, function):
            output, weights = EXERCISES[name].solutions[function](*arguments)
            if causal:
                X, *matrices = arguments
                arguments = tuple(X @ matrix for matrix in matrices)
            expected = nn.functional.scaled_dot_product_attention(*(part[None] for part in arguments), is_causal=causal)
            torch.testing.assert_close(output, expected[0])
            torch.testing.assert_close(weights.sum(-1), torch.ones(len(weights), dtype=torch.float64))


def test_the_lstm_is_pytorchs() -> None:
    for x, h, c, W, U, b in arguments_of("lstm", "lstm_step"):
        cell = nn.LSTMCell(len(x), len(h), dtype=torch.float64)
        with torch.no_grad():
            for parameter, value in zip(cell.parameters(), (W, U, b, 0 * b), strict=True):
                parameter.copy_(value)
        torch.testing.assert_close(EXERCISES["lstm"].solutions["lstm_step"](x, h, c, W, U, b), cell(x, (h, c)))


def test_bleu_is_sacrebleus() -> None:
    for outputs, references in arguments_of("bleu", "bleu"):
        score = sacrebleu.corpus_bleu(outputs, [references], smooth_method="none", tokenize="none").score
        assert abs(bleu(outputs, references) - score) < 1e-6


def test_the_layer_is_pytorchs() -> None:
    for X, scale, shift in arguments_of("transformer_layer", "layer_norm"):
        torch.testing.assert_close(layer_norm(X, scale, shift), nn.functional.layer_norm(X, scale.shape, scale, shift))
    for X, weights, heads in arguments_of("transformer_layer", "layer"):
        d, inner = weights["W_1"].shape
        peer = nn.TransformerEncoderLayer(d, heads, inner, dropout=0.0, dtype=torch.float64)
        with torch.no_grad():
            peer.self_attn.in_proj_weight.copy_(torch.cat([weights[f"W_{name}"].T for name in "QKV"]))
            peer.self_attn.in_proj_bias.zero_()
            peer.self_attn.out_proj.weight.copy_(weights["W_O"].T)
            peer.self_attn.out_proj.bias.zero_()
            for number, (linear, norm) in enumerate(((peer.linear1, peer.norm1), (peer.linear2, peer.norm2)), 1):
                linear.weight.copy_(weights[f"W_{number}"].T)
                linear.bias.copy_(weights[f"b_{number}"])
                norm.weight.copy_(weights[f"scale_{number}"])
                norm.bias.copy_(weights[f"shift_{number}"])
        torch.testing.assert_close(layer(X, weights, heads), peer(X))
