"""The residual connection around a sub-layer of a Transformer, with its dropout and norm."""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

from torch import Tensor, nn

from weft.kernels.layer_kernels import has_norm_kernel, residual_norm
from weft.models.layers import dropout_add
from weft.recipe import TransformerSettings

NORMS: dict[str, Callable[[int, float], nn.Module]] = {"layer": nn.LayerNorm, "rms": nn.RMSNorm}


class Stream(NamedTuple):
    """The states between two sub-layers, once for each of their uses, so that a kernel can add the two gradients."""

    input_ND: Tensor
    """What the next sub-layer reads."""
    residual_ND: Tensor
    """The same values, to which its output is added."""


class ResidualBlock(nn.Module):
    """The residual connection around a sub-layer, with its dropout and norm."""

    def __init__(self, settings: TransformerSettings) -> None:
        super().__init__()
        self.norm = make_norm(settings)
        self.pre_norm = settings.norm_placement == "pre"
        self.dropout = settings.residual_dropout or 0.0

    def input(self, stream_ND: Tensor) -> Tensor:
        """The input of the sub-layer."""
        return normalize(self.norm, stream_ND) if self.pre_norm else stream_ND

    def add(self, stream_ND: Tensor, output_ND: Tensor) -> Tensor:
        """The stream after the output of the sub-layer was added."""
        return self.add_to(Stream(stream_ND, stream_ND), output_ND).input_ND

    def add_to(self, stream: Stream, output_ND: Tensor) -> Stream:
        """The same for both uses."""
        residual_ND = stream.residual_ND
        if not self.pre_norm and has_norm_kernel(self.norm, residual_ND):
            return Stream(*residual_norm(self.norm, residual_ND, output_ND, self.dropout if self.training else 0.0))
        added_ND = dropout_add(residual_ND, output_ND, self.dropout, self.training)
        next_ND = added_ND if self.pre_norm else normalize(self.norm, added_ND)
        return Stream(next_ND, next_ND)


def make_norm(settings: TransformerSettings) -> nn.Module:
    """A norm of the states of a stack."""
    return NORMS[settings.norm](settings.hidden, settings.norm_epsilon)


def normalize(norm: nn.Module, stream_ND: Tensor) -> Tensor:
    """A norm whose result keeps the type of the stream, also where norms are computed in full precision."""
    if has_norm_kernel(norm, stream_ND):
        return residual_norm(norm, stream_ND)[0]
    return norm(stream_ND).to(stream_ND.dtype)
