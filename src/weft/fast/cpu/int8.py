"""Linear maps in eight-bit integers.

Near `torch.nn.functional.linear`, and equal to the equations below; tests/fast/cpu/test_int8.py.

    W ≈ diag(s) Q      Q_ij = round(W_ij / s_i),  s_i = max_j |W_ij| / 127          once, one scale per output
    x ≈ r u            u_j = round(x_j / r),      r = max_j |x_j| / 127             at every call, one scale per row
    W x + b ≈ r s ⊙ (Q u) + b                                                       Q u in integers, exactly

Where no |x_j| can exceed a known bound m, r = m / 127 is a constant: scales and b are then part of the product, which
saves two passes over the result.

The scale of the activations belongs to one row (per token: Dettmers et al. 2022, 2.1; Yao et al. 2022, 4.1), so that
the result of a row does not depend on the other rows of the batch. With one scale for a whole batch, as in PyTorch's
dynamic quantization (`torch.ao`), the results of a search would depend on how sentences are batched.

The products are oneDNN's, of unsigned by signed bytes, and fastest where the CPU has instructions for them (AMX: Intel
since 2023; VNNI: Intel since 2019, AMD since Zen 4). Without, pairs of products are summed in 16 bits and would
overflow, so activations get 7 bits instead of 8 (`LEVELS`); even then a search by a recurrent model takes about half
the time of fp32 (benchmarks/RESULTS.md).

A call of oneDNN and the operations around it take some 35 µs however few the rows are, as long as an fp32 product of
32 rows. So a few rows are rounded and multiplied by C (native/kernels.c), to the same integers; without a compiler, a
search of one sentence is slower in 8 bits than in fp32.
"""

from __future__ import annotations

import torch
from torch import Tensor, nn

from weft.fast.cpu import compiled
from weft.fast.cpu.compiled import Linear, few_rows_linear, pointer

HAS_VNNI: bool = torch.cpu._is_vnni_supported()
"""Whether this CPU multiplies bytes fast and without overflow."""
LEVELS = 127 if HAS_VNNI else 63
"""An activation is an integer between −LEVELS and LEVELS, stored as a byte with zero point LEVELS + 1."""
FEW_ROWS = 32
"""Products of so many rows are computed by C where it is compiled (`weft.fast.cpu.compiled`)."""
_POINTWISE: tuple[object, ...] = (1.0, 0, torch.float32, "none", [], "")
"""Arguments of oneDNN's product: output scale and zero point, float32 output, no operation on the output."""


class Int8Linear(nn.Module):
    """x -> W x + b in integers; with several inputs, W [x_1; …; x_n] + b.

    ``bound``: an upper bound on the magnitude of inputs (larger ones are clamped to it); None: unknown.
    """

    def __init__(self, weight_GD: Tensor, bias_G: Tensor | None = None, *, bound: float | None = None) -> None:
        super().__init__()
        weight_GD = weight_GD.detach().float()
        scale_G = weight_GD.abs().amax(1).clamp(min=torch.finfo(torch.float32).tiny) / 127
        rounded_GD = (weight_GD / scale_G[:, None]).round().to(torch.int8)
        self.packed = torch.ops.onednn.qlinear_prepack(rounded_GD, None)
        self.rounded_GD, self.sums_G = rounded_GD, rounded_GD.sum(1, dtype=torch.int32)
        self.bound = bound
        # r s for bounded inputs; otherwise s / LEVELS, so that only r · LEVELS, the row's maximum, is missing
        self.scale_G = scale_G * ((1.0 if bound is None else bound) / LEVELS)
        self.zero_point_G = torch.zeros(len(scale_G), dtype=torch.int32)
        self.bias_G = None if bias_G is None else bias_G.detach().float()

    def native_map(self) -> Linear:
        """The map as C reads it."""
        outputs, inputs = self.rounded_GD.shape
        return Linear(
            bytes=pointer(self.rounded_GD),
            sums=pointer(self.sums_G),
            scale=pointer(self.scale_G),
            bias=pointer(self.bias_G),
            outputs=outputs,
            inputs=inputs,
            bound=self.bound or 0.0,
            levels=LEVELS,
        )

    def forward(self, *inputs: Tensor) -> Tensor:
        joint_ND = torch.cat(inputs, -1) if len(inputs) > 1 else inputs[0]
        output_NG = self._linear(joint_ND.flatten(0, -2))
        return output_NG if joint_ND.dim() == 2 else output_NG.unflatten(0, joint_ND.shape[:-1])

    def _linear(self, inputs_ND: Tensor) -> Tensor:
        if not len(inputs_ND):
            return inputs_ND.new_zeros(0, len(self.scale_G))
        if len(inputs_ND) <= FEW_ROWS and inputs_ND.dtype == torch.float32 and compiled.loaded is not None:
            return few_rows_linear(inputs_ND.contiguous(), self.native_map())
        if self.bound is not None:
            rounded_ND = (inputs_ND * (LEVELS / self.bound)).round_().clamp_(-LEVELS, LEVELS)
            return self._integer_product(rounded_ND, self.bias_G)
        maximum_N1 = torch.maximum(inputs_ND.amax(-1, keepdim=True), inputs_ND.amin(-1, keepdim=True).neg_())
        maximum_N1.clamp_(min=torch.finfo(torch.float32).tiny * LEVELS)
        output_NG = self._integer_product((inputs_ND * (LEVELS / maximum_N1)).round_(), None)
        if self.bias_G is None:
            return output_NG.mul_(maximum_N1)
        return torch.addcmul(self.bias_G, output_NG, maximum_N1, out=output_NG)

    def _integer_product(self, rounded_ND: Tensor, bias_G: Tensor | None) -> Tensor:
        # through signed bytes, a fast conversion in PyTorch; bytes wrap around, so the zero point can be added last
        bytes_ND = rounded_ND.to(torch.int8).view(torch.uint8).add_(LEVELS + 1)
        output_NG: Tensor = torch.ops.onednn.qlinear_pointwise(
            bytes_ND, 1.0, LEVELS + 1, self.packed, self.scale_G, self.zero_point_G, bias_G, *_POINTWISE
        )
        return output_NG
