"""Matrix products by oneDNN in place of MKL, where MKL uses half of a processor: AMD's with AVX-512.

PyTorch has oneDNN multiply fp32 matrices only where that may round them to bf16. On a processor without units for bf16
matrices (AMX) it rounds nothing: results have the precision of fp32, which is checked before it is used. Products of
few or small rows take longer than MKL's, and so does the first one of each shape: recurrent models gain, whose steps
have the same shapes again and again, and Transformers do not.

Equal to MKL's products up to rounding; tests/fast/cpu/test_products.py.
"""

from __future__ import annotations

from contextlib import suppress
from functools import cache
from pathlib import Path

import torch

from weft.models.architecture import architecture_of
from weft.models.interface import Model
from weft.runtime.switches import onednn_products

LEAST_WIDTH = 256
"""The least width of recurrent layers whose products gain."""
LARGEST_ERROR = 1e-5
"""Error of a product, beside its largest number: fp32 has 1e-6, bf16 1e-2."""


def gains_by_onednn(model: Model) -> bool:
    """Whether the products of a model are faster by oneDNN on this processor."""
    described = architecture_of(model)
    stacks = [stack for stack in (*described.encoders, described.decoder) if stack is not None]
    is_wide = all(stack.family == "recurrent" and stack.width >= LEAST_WIDTH for stack in stacks)
    return bool(stacks) and is_wide and is_better_processor()


@cache
def is_better_processor() -> bool:
    """Whether oneDNN is faster than MKL on this processor, and as exact."""
    is_amd = False
    with suppress(OSError):
        is_amd = "AuthenticAMD" in Path("/proc/cpuinfo").read_text("ascii", "replace")
    has_switch = hasattr(torch.backends.mkldnn, "matmul") and torch.backends.mkldnn.is_available()
    if not (is_amd and has_switch and torch.backends.mkl.is_available()):
        return False
    return torch.backends.cpu.get_cpu_capability() == "AVX512" and largest_error() < LARGEST_ERROR


def largest_error() -> float:
    """The largest error of some products by oneDNN, beside their largest number."""
    generator, errors = torch.Generator().manual_seed(1), []
    for rows, inputs, outputs in ((16, 256, 512), (160, 512, 2048), (1900, 256, 1024)):
        left, right = (torch.randn(size, generator=generator) for size in ((rows, inputs), (inputs, outputs)))
        exact = left.double() @ right.double()
        with onednn_products():
            errors.append(float((left @ right - exact).abs().max() / exact.abs().max()))
    return max(errors)
