"""The CTC recursion by PyTorch's own kernels, on a CPU and on a GPU, with its gradient in closed form.

It equals `weft.training.ctc.label_losses` on rows that have an alignment; tests/fast/updating/test_ctc_loss.py compares
the two. Rows without one have the loss 0 here, and no gradient.
"""

from __future__ import annotations

from torch import Tensor
from torch.nn import functional

from weft.ragged import Ragged


def has_kernel(log_p: Ragged, labels: Ragged, *, blank: int) -> bool:
    """Whether PyTorch's function takes these: it has no result for rows without frames."""
    return log_p.rows > 0 and bool((log_p.lengths > 0).all()) and labels.layout.total > 0


def label_losses_by_torch(log_p: Ragged, labels: Ragged, *, blank: int) -> Tensor:
    """(B,) −log p(y | x) of each row."""
    return functional.ctc_loss(
        log_p.to_padded().transpose(0, 1),
        labels.values,
        log_p.lengths,
        labels.lengths,
        blank=blank,
        reduction="none",
        zero_infinity=True,
    )
