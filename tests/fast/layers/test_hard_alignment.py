"""Where hard attention uses a kernel: never on a CPU. The kernel itself: tests/fast/triton."""

from __future__ import annotations

import torch

from weft.attention.hard_alignment import AlignmentSizes, First, Monotonic
from weft.fast.layers.hard_alignment import has_kernel
from weft.recipe import AttentionSettings

SIZES = AlignmentSizes(queries=4, states=4)


def test_only_first_order_on_a_gpu_in_single_precision() -> None:
    first, monotonic = (
        kind(AttentionSettings(hard=name, score="general"), SIZES)
        for kind, name in ((First, "first"), (Monotonic, "monotonic"))
    )
    transitions, emissions = (torch.zeros(2, 3, 4, 2),), torch.zeros(2, 3, 4)
    assert not has_kernel(first, transitions, emissions) and not has_kernel(first, transitions, None)
    if torch.cuda.is_available():
        on_gpu = tuple(part.cuda() for part in transitions)
        assert has_kernel(first, on_gpu, emissions.cuda()) and not has_kernel(monotonic, on_gpu, emissions.cuda())
        assert not has_kernel(first, tuple(part.double() for part in on_gpu), emissions.cuda().double())
