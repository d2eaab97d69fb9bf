"""The residual connection around a sub-layer of a Transformer, with its dropout and norm."""

from __future__ import annotations

from collections.abc import Callable

from torch import Tensor, nn

from weft.models.layers import dropout_add
from weft.recipe import TransformerSettings
from weft.runtime.replaceable import replaceable

NORMS: dict[str, Callable[[int, float], nn.Module]] = {"layer": nn.LayerNorm, "rms": nn.RMSNorm}


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
        added_ND = dropout_add(stream_ND, output_ND, self.dropout, self.training)
        return added_ND if self.pre_norm else normalize(self.norm, added_ND)


def make_norm(settings: TransformerSettings) -> nn.Module:
    """A norm of the states of a stack."""
    return NORMS[settings.norm](settings.hidden, settings.norm_epsilon)


@replaceable
def normalize(norm: nn.Module, stream_ND: Tensor) -> Tensor:
    """A norm whose result keeps the type of the stream, also where norms are computed in full precision."""
    normalized_ND: Tensor = norm(stream_ND)
    return normalized_ND.to(stream_ND.dtype)
