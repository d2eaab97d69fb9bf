"""Undocumented functions of PyTorch that weft uses, in one place: another version of PyTorch may lack them.

tests/fast/test_torch_private.py fails then.

    foreach_copy_             copies many tensors by one call
    addmm_activation          relu(b + X W), one kernel on a GPU
    torch_lstm_cell           the gates of an LSTM cell in one kernel
    maybe_mark_dynamic        an axis whose size `torch.compile` must not fix
    eager_optimizer_class     optimizers whose methods are not wrapped

**Optimizers.** The methods of `torch.optim.Optimizer` are wrapped to keep `torch.compile` out of them. The wrappers
import `torch._dynamo` when they are first called, which takes almost as long as `import torch`. weft never compiles an
optimizer, so it calls the methods themselves.
"""

from __future__ import annotations

import inspect
from collections.abc import Sequence
from functools import cache

import torch
from torch import Tensor
from torch.optim import Optimizer

WRAPPED = ("add_param_group", "zero_grad", "state_dict", "load_state_dict")


def foreach_copy_(copies: Sequence[Tensor], originals: Sequence[Tensor]) -> None:
    """Copy the values of each original into the tensor at its place."""
    torch._foreach_copy_(list(copies), list(originals))


def addmm_activation(bias_F: Tensor, inputs_ND: Tensor, weight_DF: Tensor) -> Tensor:
    """relu(b + X W)"""
    return torch._addmm_activation(bias_F, inputs_ND, weight_DF)


def torch_lstm_cell(input_BG: Tensor, state_BG: Tensor, cell_BD: Tensor) -> tuple[Tensor, Tensor]:
    """The next output and cell of an LSTM, from W x + b and U h + b of its four gates."""
    output_BD, next_cell_BD, _ = torch.ops.aten._thnn_fused_lstm_cell(input_BG, state_BG, cell_BD)
    return output_BD, next_cell_BD


def maybe_mark_dynamic(tensor: Tensor, axis: int) -> None:
    """Tell `torch.compile` that the size of an axis varies."""
    torch._dynamo.maybe_mark_dynamic(tensor, axis)


def is_optimizer(name: str) -> bool:
    """True for every optimizer."""
    return True


@cache
def eager_optimizer_class(name: str) -> type[Optimizer]:
    """An optimizer of `weft.training.optimizer.OPTIMIZERS` whose methods are not wrapped for `torch.compile`."""
    from weft.training.optimizer import OPTIMIZERS  # of training: not to be loaded with what else is in this file

    kind = OPTIMIZERS[name]
    methods = {method: inspect.unwrap(getattr(kind, method)) for method in WRAPPED}
    methods["step"] = torch.no_grad()(inspect.unwrap(kind.step))
    return type(kind.__name__, (kind,), methods)
