"""Models whose weights have a shape and no memory, until those of a file take their place."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor
from torch.overrides import TorchFunctionMode

INITIALIZING = frozenset(
    ("uniform_", "normal_", "zero_", "fill_", "copy_", "mul_", "__imul__", "kaiming_uniform_", "trunc_normal_")
)
"""The names of the functions that initialize weights in place."""


class TooManyWeightsError(Exception):
    """A model has more weights than it may have."""


class UnallocatedWeights(TorchFunctionMode):
    """In the block, `torch.empty` and `torch.zeros` allocate nothing, and nothing initializes what they return.

    All values of such a tensor are one value: its strides are 0. Assigning to ``parameter.data`` gives it memory.
    Tensors of a given type, and all that is computed, are as usual.
    """

    def __init__(self, max_weights: int | None = None) -> None:
        """``max_weights``: a `TooManyWeightsError` tells that there are more of them."""
        super().__init__()
        self._value = torch.zeros((), device="cpu")
        self._address = self._value.data_ptr()
        self._left = math.inf if max_weights is None else max_weights

    def __torch_function__(
        self, func: Callable[..., Any], types: Any, args: tuple[Any, ...] = (), kwargs: dict[str, Any] | None = None
    ) -> Any:
        kwargs = kwargs or {}
        if func in (torch.empty, torch.zeros) and kwargs.get("dtype") is None:
            return self._of_shape(kwargs.get("size", args))
        if getattr(func, "__name__", "") in INITIALIZING and self._is_unallocated(
            weights := args[0] if args else kwargs["tensor"]
        ):
            return weights
        if func is torch.linalg.qr and self._is_unallocated(args[0]):  # of an orthogonal initialization
            return args[0], args[0][: args[0].shape[1]]
        if func is Tensor.new_empty and self._is_unallocated(args[0]):
            return self._value.expand(*args[1:])
        return func(*args, **kwargs)

    def _of_shape(self, size: Any) -> Tensor:
        shape = torch.Size(size[0] if len(size) == 1 and not isinstance(size[0], int) else size)
        self._left -= math.prod(shape)
        if self._left < 0:
            raise TooManyWeightsError
        return self._value.expand(shape)

    def _is_unallocated(self, tensor: Tensor) -> bool:
        return tensor.data_ptr() == self._address  # views of it too, as their strides are 0
