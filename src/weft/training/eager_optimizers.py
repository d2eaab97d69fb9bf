"""PyTorch's optimizers, without importing its compiler.

The methods of `torch.optim.Optimizer` are wrapped to keep `torch.compile` out of them. The wrappers import
`torch._dynamo` when they are first called, which takes almost as long as `import torch`. weft never compiles an
optimizer, so it calls the methods themselves.
"""

from __future__ import annotations

import inspect
from typing import TypeVar

import torch
from torch.optim import Optimizer

Kind = TypeVar("Kind", bound=Optimizer)
WRAPPED = ("add_param_group", "zero_grad", "state_dict", "load_state_dict")


def eager_optimizer(kind: type[Kind]) -> type[Kind]:
    """The same optimizer, whose methods are not wrapped for `torch.compile`."""
    methods = {name: inspect.unwrap(getattr(kind, name)) for name in WRAPPED}
    methods["step"] = torch.no_grad()(inspect.unwrap(kind.step))
    return type(kind.__name__, (kind,), methods)
